"""Not a package, but the folder that holds one. This file only says so to who imports it.

With the checkout as working directory `import runtime` would find this folder and load a second
copy of every module, whose classes are not those of the first. It is in no wheel.
"""

raise ImportError(
    "`runtime/` is the source root: import pagedaemon instead, as in `from pagedaemon import "
    "Runtime`, after `pip install -e .` or with `runtime` on PYTHONPATH"
)
