"""`askance aggregator device`: the register of devices."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

from askance.cli.aggregator import common
from askance.cli.arguments import count
from askance.cli.output import Failure, print_answer
from askance_aggregator.reports.texts import counted

if TYPE_CHECKING:
    from askance_aggregator.store.register import Affected, DeviceEntry, DeviceSelection, Register

_DONE = {"tag": "tagged", "revoke": "revoked", "restore": "restored", "forget": "forgotten"}
_SUMMARY = "list, tag, revoke, restore and forget devices"
_DESCRIPTION = (
    "The register of devices. The commands open the store beside the aggregator, which may run; a"
    " change is in force in it, and in every replica, within a second."
)
_SELECTS = "Devices are selected by their ids, or by --tag: those that have all of the tags given."
_REVOKES = f"Excludes devices, or gateways by their ids: open streams are ended. {_SELECTS}"
_RESTORES = f"Admits revoked devices and gateways again. {_SELECTS}"
_FORGETS = (
    "Erases devices' ids, token digests, tags, days and certificates. Reports that were accepted"
    " stay, under a number alone, and in published counts. A forgotten device may enroll again as a"
    " new user."
    f" {_SELECTS}"
)
_SILENCE = (
    "Counts devices by their last call, and those that a round asks by what they owe: answered (or"
    " refused), silent (connected, and have not), away (not connected). A silent device may hold"
    " the study until its owner has decided. No count is a function of a record."
)
_KEPT = "reports that were accepted, and published counts, stay as they are"


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands."""
    device: argparse.ArgumentParser = commands.add_parser(
        "device", help=_SUMMARY, description=_DESCRIPTION
    )
    below = device.add_subparsers(dest="device_command", metavar="COMMAND", required=True)
    add = partial(common.add_command, below)
    with_store = (common.add_configured_store,)
    what = "list devices by ordinal, a page at a time"
    lists = add("list", _list, what, _DESCRIPTION, *with_store)
    lists.add_argument(
        "--tag", action="append", default=[], metavar="TAG", help="only devices with this tag"
    )
    lists.add_argument(
        "--limit", type=count, default=100, metavar="N", help="devices at most; default 100"
    )
    lists.add_argument(
        "--after",
        type=int,
        metavar="N",
        help="go on after this ordinal (with --gateways: number), the last of the page before",
    )
    lists.add_argument("--gateways", action="store_true", help="list gateways instead")
    shows = add("show", _show, "show one device", _DESCRIPTION, *with_store)
    shows.add_argument("id", metavar="ID", help="the device's id, as list prints it")
    what = "count silent devices by tag"
    silence = add("silence", _silence, what, _SILENCE, *with_store)
    silence.add_argument("--csv", action="store_true", help="print CSV, a row per tag and round")
    what, selecting = "add tags to devices, or remove them", (*with_store, _add_selection)
    tags = add("tag", _tag, what, _SELECTS, *selecting)
    for option, what in (
        ("--add", "tag to add, WORD or KEY=VALUE; a key has one value"),
        ("--remove", "tag to remove"),
    ):
        tags.add_argument(option, action="append", default=[], metavar="TAG", help=what)
    add("revoke", _revoke, "exclude devices or gateways", _REVOKES, *selecting)
    add("restore", _restore, "admit revoked ones again", _RESTORES, *selecting)
    add("forget", _forget, "erase devices' identities", _FORGETS, *selecting)


def _add_selection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="ids, as list prints them")
    parser.add_argument(
        "--tag", action="append", default=[], metavar="TAG", help="devices with this tag"
    )


def _list(arguments: argparse.Namespace) -> int:
    if arguments.gateways:
        return _list_gateways(arguments)
    after = -1 if arguments.after is None else arguments.after
    with closing(common.configuration_of(arguments).store.open_beside()) as store:
        found = store.register.devices(arguments.tag, after, arguments.limit)
        counts = store.register.count()
    more = len(found) == arguments.limit
    entries = [_entry(one) for one in found]
    heads = ("id", "ordinal", "state", "tags", "gateway", "enrolled", "last seen", "software")
    return print_answer(
        arguments,
        {
            "devices": entries,
            "after": found[-1].ordinal if more else None,
            "active": counts.active,
            "revoked": counts.revoked,
            "forgotten": counts.forgotten,
        },
        *common.table_lines(heads, [one.values() for one in entries]),
        f"{counts.active:,} active, {counts.revoked:,} revoked, {counts.forgotten:,} forgotten",
        *([f"more: --after {found[-1].ordinal}"] if more else []),
    )


def _list_gateways(arguments: argparse.Namespace) -> int:
    with closing(common.configuration_of(arguments).store.open_beside()) as store:
        found = store.register.gateways(arguments.after or 0, arguments.limit)
    rows = [
        (one.gateway_id.hex(), one.number, one.state.name.lower(), one.members) for one in found
    ]
    heads = ("id", "number", "state", "members")
    content = {"gateways": [dict(zip(heads, row, strict=True)) for row in rows]}
    return print_answer(arguments, content, *common.table_lines(heads, rows))


def _show(arguments: argparse.Namespace) -> int:
    with closing(common.configuration_of(arguments).store.open_beside()) as store:
        entry = _entry(store.register.show(common.read_id(arguments.id)))
    lines = (f"{name.replace('_', ' ')}: {common.cell_text(entry[name])}" for name in entry)
    return print_answer(arguments, entry, *lines)


def _silence(arguments: argparse.Namespace) -> int:
    from askance_aggregator.server.process.status import read_silence
    from askance_aggregator.store.register import SILENCE_COLUMNS

    if arguments.csv and arguments.json:
        raise Failure(2, "usage", "--csv: expected no --json with it, got both")
    found = read_silence(common.configuration_of(arguments))
    if arguments.csv:
        sys.stdout.write(found.to_csv())
        return 0
    rows = ({**row, "tag": row["tag"] or "all"}.values() for row in found.to_rows())
    return print_answer(arguments, found.to_json(), *common.table_lines(SILENCE_COLUMNS, rows))


def _tag(arguments: argparse.Namespace) -> int:
    add, remove = arguments.add, arguments.remove
    return _changed(arguments, lambda register, which: register.tag(which, add, remove), "tag")


def _revoke(arguments: argparse.Namespace) -> int:
    return _changed(arguments, lambda register, which: register.revoke(which), "revoke")


def _restore(arguments: argparse.Namespace) -> int:
    return _changed(arguments, lambda register, which: register.restore(which), "restore")


def _forget(arguments: argparse.Namespace) -> int:
    return _changed(arguments, lambda register, which: register.forget(which), "forget", note=_KEPT)


def _changed(
    arguments: argparse.Namespace,
    change: Callable[[Register, DeviceSelection], Affected],
    command: str,
    note: str = "",
) -> int:
    from askance_aggregator.store.register import DeviceSelection

    which = DeviceSelection(tuple(map(common.read_id, arguments.ids)), tuple(arguments.tag))
    with (
        closing(common.configuration_of(arguments).store.open_beside()) as store,
        common.recorded(store, f"device {command}", str(which)) as noted,
    ):
        done = change(store.register, which)
        noted.changed = done.total
    found: dict[str, Any] = {"devices": done.devices, "gateways": done.gateways}
    gateways = f" and {counted(done.gateways, 'gateway')}" if done.gateways else ""
    return print_answer(
        arguments,
        {**found, "note": note} if note else found,
        f"{_DONE[command]}: {counted(done.devices, 'device')}{gateways}",
        *([note] if note else []),
    )


def _entry(entry: DeviceEntry) -> dict[str, Any]:
    return {
        "id": entry.device_id.hex(),
        "ordinal": entry.ordinal,
        "state": entry.state.name.lower(),
        "tags": list(entry.tags),
        "gateway": entry.gateway.hex() or None,
        "enrolled_day": common.day_text(entry.enrolled_day),
        "seen_day": common.day_text(entry.seen_day),
        "software": entry.software or None,
    }
