"""The command line, as `python -m askance`."""

import sys

from askance.cli import main

sys.exit(main())
