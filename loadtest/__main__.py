"""`python -m regard.loadtest COMMAND`: the same as `regard bench COMMAND`. It does not know anything itself."""

import sys

from regard.loadtest.commands import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], prog="python -m regard.loadtest"))
