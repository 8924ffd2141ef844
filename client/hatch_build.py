"""Build hook: put the wire's stubs, which lie beside this folder, into the wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WireStubs(BuildHookInterface[Any]):
    """Include `askance_protos` in standard wheels only.

    In an editable install a copy in site-packages would hide the stubs that are generated anew.
    """

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the stubs' folder to the files of a standard wheel.

        Args:
            version: "standard" or "editable".
            build_data: hatchling's settings of this build; changed in place.
        """
        if version != "standard":
            return
        own = Path(self.root) / "askance_protos"  # in an unpacked source distribution
        stubs = own if own.is_dir() else Path(self.root).parent / "protos" / "askance_protos"
        build_data["force_include"][str(stubs)] = "askance_protos"
