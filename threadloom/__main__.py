"""`python -m threadloom` is `loom`."""

import sys

from threadloom.cli import main

if __name__ == "__main__":
    sys.exit(main())
