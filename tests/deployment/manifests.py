"""The files of deploy/, parsed: services of compose, Kubernetes resources, command lines, units."""

from __future__ import annotations

import configparser
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "compose" / "compose.yaml"
AGGREGATOR, DEVICE = "askance-aggregator", "askance-device"
ENTRYPOINTS = {AGGREGATOR: ["askance"], DEVICE: ["python", "-m", "askance_client"]}
"""Words before the arguments of a container, by the name of its image."""


@dataclass(frozen=True)
class CommandLine:
    """Words of one of our programs, and the file in which they stand."""

    where: str
    words: tuple[str, ...]


def compose() -> dict[str, Any]:
    """Return the compose file."""
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    return found


def resources() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the file's name and the content of each Kubernetes resource."""
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        for resource in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            yield path.name, resource


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the specification of each pod that the resources make."""
    for _, resource in resources():
        if "template" in resource.get("spec", {}):
            yield resource["metadata"]["name"], resource["spec"]["template"]["spec"]


def units() -> list[Path]:
    """Return the services of systemd."""
    return sorted((DEPLOY / "systemd").glob("*.service"))


def unit(path: Path) -> configparser.ConfigParser:
    """Parse a unit; a key that stands twice keeps its last value."""
    parsed = configparser.ConfigParser(strict=False, interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]  # keys have upper case
    parsed.read(path, encoding="utf-8")
    return parsed


def image_name(image: str) -> str:
    """Return an image's name without its registry and its tag."""
    return image.rpartition("/")[2].partition(":")[0]


def command_lines() -> list[CommandLine]:
    """Return every command line of our programs, as it would be run."""
    found = []
    for name, service in compose()["services"].items():
        if image_name(service["image"]) in ENTRYPOINTS:
            found.append(_line(f"compose.yaml: {name}", service["image"], service["command"]))
    for name, pod in pods():
        for container in pod["containers"]:
            found.append(_line(f"kubernetes: {name}", container["image"], container["args"]))
    for path in units():
        words = shlex.split(unit(path)["Service"]["ExecStart"])
        words[0] = Path(words[0]).name
        found.append(CommandLine(path.name, tuple(words)))
    return found


def _line(where: str, image: str, words: list[str]) -> CommandLine:
    return CommandLine(where, (*ENTRYPOINTS[image_name(image)], *words))
