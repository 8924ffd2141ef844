"""`python -m askance.client`: the device's commands."""

import sys

from askance.client.command.device import main

sys.exit(main())
