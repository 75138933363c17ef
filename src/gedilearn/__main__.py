"""The command `gedi`, and `python -m gedilearn`: Ctrl-C is one line also while commands load."""

from __future__ import annotations

import sys


def main() -> None:
    """The entry point."""
    try:
        from gedilearn.cli import main as run

        run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
