"""``python -m benchmarks.limits``."""

import sys

from benchmarks.limits.run import main

if __name__ == "__main__":
    sys.exit(main())
