"""`device explain`, `approve` and `deny`: an owner's decisions on studies."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from askance_client.cli.explanations import tell_explanation
from askance_client.cli.folder import ask
from askance_client.cli.home import DeviceHome
from askance_client.errors import InvalidParameter


def explanations(home: DeviceHome, path: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Explain the studies that wait, or one study or request of a folder."""
    if home.folder.is_file():
        raise InvalidParameter(
            f"{home.folder}: expected a device's folder, got a file (`askance device explain`, of"
            " the distribution askance, explains a study's file)"
        )
    given = {"name": arguments.name or "", "analyst": _hex(arguments.analyst)}
    return {"explained": ask(home, path, "explain", given)}


def tell_explanations(result: dict[str, Any]) -> str:
    """Format each explanation, with an empty line between two."""
    told = [tell_explanation(entry) for entry in result["explained"]]
    return "\n\n".join(told) if told else "no study waits"


def decide(home: DeviceHome, path: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Approve or deny a study, as the command's name says."""
    return ask(home, path, arguments.device.name, _given(arguments))[0]


def tell_decision(result: dict[str, Any]) -> str:
    """Format a decision in a line."""
    until = f" until {result['until']}" if "until" in result else ""
    return f"study {result['study'][:16]}: {result['state']}{until}"


def _given(arguments: argparse.Namespace) -> dict[str, Any]:
    days = getattr(arguments, "days", None)
    given = {"study": arguments.study, "analyst": _hex(arguments.analyst), "why": arguments.why}
    return given if days is None else given | {"days": days}


def _hex(analyst: bytes | None) -> str:
    return "" if analyst is None else analyst.hex()
