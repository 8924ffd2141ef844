"""`python -m askance_client`: the device's commands."""

import sys

from askance_client.cli.device import main

sys.exit(main())
