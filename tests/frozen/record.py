"""Write what the present code prints, for the tests that compare it.

A change that is meant records anew, from the root of the repository, and its commit says why:

    PYTHONPATH=.:protos:client:aggregator:simulation:papers python -m tests.frozen.record

Transcripts and hypotheses of the learners are recorded by `tests.simulation.recorded_digests`.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from askance_aggregator.store import SqliteLocation
from tests.frozen.commands import SESSIONS
from tests.frozen.old_stores import describe, load_sqlite

EXPECTED = Path(__file__).parent / "expected"


def expected(name: str) -> Any:
    """Return what was recorded under a name."""
    return json.loads((EXPECTED / f"{name}.json").read_text(encoding="utf-8"))


def record() -> None:
    """Write the file of every session, and the contents of the old stores."""
    for name, session in SESSIONS.items():
        with tempfile.TemporaryDirectory() as folder:
            _write(name, session.run(Path(folder)))
    with tempfile.TemporaryDirectory() as folder:
        load_sqlite(Path(folder) / "store")
        with closing(SqliteLocation(Path(folder) / "store").open()) as store:
            _write("store", describe(store))


def _write(name: str, content: Any) -> None:
    text = json.dumps(content, indent=1, ensure_ascii=False)
    (EXPECTED / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    record()
