"""Writes the golden vectors; see README.md.

PYTHONPATH=.:protos:client python -m tests.vectors.generate [FOLDER]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.vectors.bad_cases import BAD
from tests.vectors.good_cases import GOOD

HERE = Path(__file__).parent / "v1"


def main(folder: Path) -> None:
    """Write every file into `folder`."""
    files = {kind: (kind, make()) for kind, make in GOOD.items()}
    files |= {f"bad_{kind}": (kind, make()) for kind, make in BAD.items()}
    for name, (kind, cases) in files.items():
        text = json.dumps({"kind": kind, "cases": cases}, indent=1, ensure_ascii=False)
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
