"""Commands that install an extra of this distribution, for errors about missing packages."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution

from askance_client.errors import InvalidParameter


def install_text(extra: str) -> str:
    """Return the command that installs an extra: of a clone, in its folder, it is another one."""
    return f"pip install -e '.[{extra}]'" if _is_clone() else f"pip install 'askance[{extra}]'"


def not_installed(what: str, package: str, extra: str) -> InvalidParameter:
    """Return the error for what needs a package that is not there."""
    return InvalidParameter(
        f"{what}: expected {package} installed, got none: {install_text(extra)}"
    )


def _is_clone() -> bool:
    """Return whether the package runs from a clone, installed as editable or not at all."""
    try:
        origin = distribution("askance").read_text("direct_url.json")
    except PackageNotFoundError:
        return True
    return bool(origin and json.loads(origin).get("dir_info", {}).get("editable"))
