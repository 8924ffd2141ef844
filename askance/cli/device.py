"""`askance device`: the trusted base's own commands, under the whole distribution's roof."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

NAME = "device"
SUMMARY = "run a device, or a gateway with the devices of many users"
DESCRIPTION = (
    "The commands of a device's owner. A device needs the package askance-client alone, which has"
    " them as `python -m askance_client`. Start with: askance device init FOLDER. `explain"
    " FILE.toml` explains the file of a study, without a folder."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the device's commands."""
    from askance_client.cli.device import add_commands

    add_commands(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run one of them; `explain` takes a study's file too, which learners are needed for."""
    from askance.cli.output import print_json
    from askance_client.cli.device import run_command

    path: Path | None = getattr(arguments, "folder", None)
    is_study = path is not None and (path.is_file() or path.suffix == ".toml")
    if arguments.device.name != "explain" or path is None or not is_study:
        return run_command(arguments)
    from askance_client.cli.explanations import tell_explanation

    entry = explain_definition(path)
    if arguments.json:
        print_json({"explained": [entry]})
    else:
        print(tell_explanation(entry))
    return 0


def explain_definition(path: Path) -> dict[str, Any]:
    """Explain a study that was written down: what it would ask, by which randomizers.

    The questions are those of a plan for the users that it needs; each kind is shown once. A
    learner whose rounds depend on answers may ask others, about the same fields and within the
    same budget.
    """
    from askance_aggregator.analyst.definitions import read_definition
    from askance_client.cli.explanations import explained_question, explained_terms
    from askance_client.messages import Request
    from askance_client.service import system_now_s

    definition = read_definition(path)
    study, terms = definition.study, definition.terms(bytes(16), system_now_s())
    asked: dict[tuple[bytes, bytes], Request] = {}
    for number, planned in enumerate(study.plan().rounds):
        for place, group in enumerate(planned.groups):
            key = (group.query.digest(study.schema), group.randomizer.canonical)
            asked.setdefault(key, Request(bytes(32), number, place, group.query, group.randomizer))
    return {
        "file": str(path),
        **explained_terms(terms),
        "questions": [
            {"round": request.round, **explained_question(request)} for request in asked.values()
        ],
    }
