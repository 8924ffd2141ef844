"""The command line, a thin caller of `askance`.

Its rules: modules are imported when a command runs, so that `--help` is quick; what a person reads
goes to stdout, progress to stderr; with `--json` exactly one object goes to stdout; an error is one
line and an exit code (1 failed, 2 bad usage or input, 3 refused before anything was asked).
"""

from askance.cli.main import main

__all__ = ["main"]
