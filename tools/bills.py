"""Write what each wheel and image consists of: a CycloneDX bill of materials with licences.

    python tools/bills.py dist   # a folder with the wheels of both distributions

A bill is of the locked versions (`deploy/locks`). One without a licence of each part is refused.
An image's bill is of what is added to its base. Needs `cyclonedx-bom` and `uv` (the extra `dev`),
and an index.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CLIENT, ALL = "askance_client", "askance"
EXTRAS_OF_IMAGE = "[postgres,oidc,otel]"
BILLS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "askance-client": ("device", {CLIENT: ""}),  # the image of a device too
    "askance": ("aggregator", {CLIENT: "", ALL: ""}),
    "image-aggregator": ("aggregator", {CLIENT: "", ALL: EXTRAS_OF_IMAGE}),
}
"""Of each bill: the lock whose versions it takes, and the wheels with their extras."""


def _run(*words: str | Path) -> None:
    """Run a command.

    Raises:
        SystemExit: it failed; its output is the message.
    """
    given = [str(word) for word in words]
    done = subprocess.run(given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(given)}\n{done.stdout}{done.stderr}")


def write_bill(name: str, folder: Path) -> Path:
    """Write a bill beside the wheels that it is of.

    Args:
      name: one of `BILLS`.
      folder: with one wheel of each distribution.

    Returns:
      The file.

    Raises:
        SystemExit: a part has no licence, or cannot be installed.
    """
    lock, wheels = BILLS[name]
    into = folder / f"{name}.cdx.json"
    files = [f"{next(folder.glob(f'{wheel}-*.whl'))}{more}" for wheel, more in wheels.items()]
    with TemporaryDirectory() as place:
        _run(sys.executable, "-m", "venv", "--without-pip", place)
        python = Path(place) / "bin" / "python"
        locked = ROOT / "deploy" / "locks" / f"{lock}.txt"
        _run(
            "uv", "pip", "install", "--quiet", "--python", python,
            "--constraint", locked, *files,
        )  # fmt: skip
        _run(
            "cyclonedx-py", "environment", python, "--output-reproducible",
            "--output-file", into,
        )  # fmt: skip
        packages = next(Path(place).glob("lib/python*/site-packages"))
        found = [one.metadata.json for one in distributions(path=[str(packages)])]
        stated = {str(one["name"]): str(one.get("license", "")) for one in found}
    bill = json.loads(into.read_text())
    for part in bill["components"]:
        _complete(part, stated)
    missing = [part["name"] for part in bill["components"] if not part["licenses"]]
    if missing:
        raise SystemExit(f"{into.name}: expected a licence of each part, got none of {missing}")
    into.write_text(json.dumps(bill, indent=2, sort_keys=True) + "\n")
    return into


def _complete(part: dict[str, Any], stated: Mapping[str, str]) -> None:
    """Add a licence that is stated in words alone, and take out where a wheel has lain."""
    words = stated[part["name"]]
    part["licenses"] = part.get("licenses") or ([{"license": {"name": words}}] if words else [])
    part["externalReferences"] = [
        one for one in part.get("externalReferences", ()) if not one["url"].startswith("file:")
    ]


def parts(bill: Path) -> list[dict[str, Any]]:
    """Return the components of a bill."""
    return list(json.loads(bill.read_text())["components"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Write all bills.

    Raises:
        SystemExit: see `write_bill`.
    """
    parser = argparse.ArgumentParser(description="Write bills of materials.")
    parser.add_argument("folder", type=Path, help="with the wheels of both distributions")
    folder: Path = parser.parse_args(arguments).folder
    for name in BILLS:
        bill = write_bill(name, folder)
        print(f"{bill}: {len(parts(bill))} parts")


if __name__ == "__main__":
    main()
