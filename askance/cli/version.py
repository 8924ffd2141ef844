"""`askance version`."""

from __future__ import annotations

import argparse
import platform

from askance.cli.output import print_answer

NAME = "version"
SUMMARY = "print the version"
DESCRIPTION = "Prints the version of askance and of what it runs on."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: the command has no arguments of its own."""


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    from importlib.metadata import version

    from askance_client import __version__

    found = {
        "askance": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in ("grpcio", "protobuf", "numpy", "cryptography")},
    }
    text = " ".join(f"{name} {number}" for name, number in found.items())
    return print_answer(arguments, found, text)
