"""`askance aggregator backup`: a backup of the store, also while the aggregator runs."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from askance.cli.aggregator.common import (
    add_command,
    add_configuration,
    add_store,
    configuration_of,
    recorded_at,
)
from askance.cli.output import Failure, print_json
from askance_aggregator.reports.texts import counted

_VERIFY = "verify"
_BACKS_UP = (
    "Writes the store to one new file, also while the aggregator runs, or reads a backup and"
    " compares its parts with their digests (verify FILE). The configuration, its keys and its"
    " certificates are not in it: keep copies of them elsewhere. The audit log has an entry of it."
)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    backup = add_command(
        commands,
        "backup",
        _run,
        summary="back up the store, or verify a backup",
        description=_BACKS_UP,
    )
    backup.add_argument(
        "words",
        nargs="+",
        metavar="FILE",
        help="the new file to write; or the word verify and the file to read",
    )
    add_configuration(backup)
    add_store(backup)


def _run(arguments: argparse.Namespace) -> int:
    words: list[str] = arguments.words
    if len(words) == 1 and words != [_VERIFY]:
        return _back_up(Path(words[0]), arguments)
    if len(words) == 2 and words[0] == _VERIFY:
        return _verify(Path(words[1]), arguments)
    raise Failure(2, "usage", f"backup: expected FILE, or verify FILE, got {' '.join(words)!r}")


def _back_up(path: Path, arguments: argparse.Namespace) -> int:
    from askance_aggregator.clock import system_now_s
    from askance_aggregator.server.process.control import back_up

    store = configuration_of(arguments).store
    with recorded_at(store, "backup", str(path)):
        written = back_up(store, path, system_now_s(), time.sleep)
    print_manifest(path, written, arguments)
    return 0


def _verify(path: Path, arguments: argparse.Namespace) -> int:
    from askance_aggregator.store import check_backup

    print_manifest(path, check_backup(path).to_json(), arguments)
    return 0


def print_manifest(path: Path, found: Mapping[str, Any], arguments: argparse.Namespace) -> None:
    """Print what a backup has."""
    size = sum(part["size"] for part in found["parts"])
    if arguments.json:
        facts = ("kind", "schema", "at_unix_s", "devices", "studies")
        print_json({"file": str(path), **{name: found[name] for name in facts}, "bytes": size})
        return
    from askance_client.service.clock import utc_text

    content = f"{counted(found['devices'], 'device')}, {counted(found['studies'], 'study')}"
    print(f"{path}: a {found['kind']} store of {utc_text(found['at_unix_s'])}, {content}")
