"""Runs a Python file with the network refused: `python run_offline.py script.py [arguments…]`.

What a newcomer copies from the README or from `examples/` must work with neither key nor network,
so that is how it is run. A script that tried to connect fails, also where it caught the refusal.
"""

from __future__ import annotations

import runpy
import sys

from pagedaemon.testing import network_guard


def main() -> None:
    """Run the script named by the first argument as `__main__`; the others are its own."""
    if len(sys.argv) < 2:
        sys.exit("usage: run_offline.py script.py [arguments]")
    del sys.argv[0]
    with network_guard() as attempts:
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
        finally:  # the script may leave by an exit of its own
            if attempts:
                sys.exit(f"{sys.argv[0]} tried to reach the network: {attempts}")


if __name__ == "__main__":
    main()
