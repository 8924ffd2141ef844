"""`askance aggregator recount`: a study's published counts against the stored reports."""

from __future__ import annotations

import argparse
from contextlib import closing
from dataclasses import asdict

from askance.cli.aggregator.common import (
    add_command,
    add_configured_store,
    configuration_of,
    read_id,
)
from askance.cli.output import Failure, print_answer
from askance_aggregator.reports.texts import counted

_COUNTS = (
    "Counts a study's closed rounds again from the stored reports, and compares counts and roots"
    " with its transcript. Readers of exports cannot: they see no report. Prints the key, too, by"
    " which this aggregator signs the counts of exports. All reports of the study are read; stop"
    " an aggregator on SQLite first."
)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    what = "check a study's counts against its reports"
    command = add_command(commands, "recount", _recount, what, _COUNTS, add_configured_store)
    command.add_argument("study", metavar="ID", help="the study's digest, all 64 digits of it")


def _recount(arguments: argparse.Namespace) -> int:
    from askance_aggregator.server.process.tokens import counts_signer
    from askance_aggregator.store.values import DIGEST_BYTES
    from askance_aggregator.studies.recount import recount

    configuration = configuration_of(arguments)
    digest, signer = read_id(arguments.study), counts_signer(configuration.enrolment_key)
    if len(digest) != DIGEST_BYTES:
        raise Failure(2, "usage", f"ID: expected all 64 digits of it, got {arguments.study!r}")
    key = None if signer is None else signer.public_key.hex()
    with closing(configuration.store.open_to_read()) as store:
        found = recount(store, digest)
    earlier = f"roots of an earlier version, without salts, not compared: {found.unsalted}"
    return print_answer(
        arguments,
        {"study": digest.hex(), **asdict(found), "counts_key": key},
        f"{counted(found.answers, 'answer')} of {counted(found.rounds, 'closed round')}: the"
        " counts are those of the stored reports",
        f"roots that follow from reports and salts: {found.salted}",
        *([earlier] if found.unsalted else []),
        f"exports are signed by: {key or 'no key (there is no enrolment key)'}",
    )
