"""``python -m pitstop``."""

import sys

if not sys.flags.safe_path:  # else the folder that is scanned could stand in for a library
    del sys.path[0]

from pitstop.cli.main import main

main()
