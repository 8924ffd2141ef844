"""Commands that install an extra of this distribution, for errors about missing packages."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution


def install_text(extra: str) -> str:
    """Return the command that installs an extra: of a clone, in its folder, it is another one."""
    return f"pip install -e '.[{extra}]'" if _is_clone() else f"pip install 'askance[{extra}]'"


def _is_clone() -> bool:
    """Return whether the package runs from a clone, installed as editable or not at all."""
    try:
        origin = distribution("askance").read_text("direct_url.json")
    except PackageNotFoundError:
        return True
    return bool(origin and json.loads(origin).get("dir_info", {}).get("editable"))
