"""The device's commands as a test build, whose coins are seeded: SEED COMMAND ...

The members of a folder, or its single device, draw from `SeededCoins`; nothing else is changed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("", "protos", "client")]

from askance_client.cli import running  # noqa: E402  # the path is set above
from askance_client.cli.device import main  # noqa: E402
from askance_client.service import Gateway, Member  # noqa: E402
from tests.devices.seeded_coins import SeededCoins  # noqa: E402


def run_seeded(seed: int, words: Sequence[str]) -> int:
    """Run a command of the device; return its exit code."""

    def seeded(members: Sequence[Member], **parts: Any) -> Gateway:
        ids = {member.name: member.identity.device_id for member in members}
        return Gateway(members, **{**parts, "coins_for": lambda name: SeededCoins(seed, ids[name])})

    with patch.object(running, "Gateway", seeded):
        return main(words)


if __name__ == "__main__":
    sys.exit(run_seeded(int(sys.argv[1]), sys.argv[2:]))
