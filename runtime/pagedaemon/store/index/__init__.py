"""Finding by meaning: exactly in memory, and from some ten thousand vectors on with Chroma, which
lives in a process of its own.

Begin with `finder.py`. `exact.py` is the truth; `chroma.py` speaks through `frames.py` to
`child.py`, which alone opens the folders of `generations.py`.
"""
