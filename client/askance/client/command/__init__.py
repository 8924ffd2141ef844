"""The device's commands, for the owner of a device; the edge-only install has no others.

Standard library only: argparse, and plain text or one JSON object. `python -m askance.client` runs
them alone; `askance device` is the same from the whole distribution. What a command needs is
imported when it runs, so that `--help` is quick.
"""
