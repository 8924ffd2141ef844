"""Optima of the linear program of a table with "missing", written for common budgets.

    python tools/presence_optima.py    # some seconds

`askance_aggregator.table_design.presence` reads them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import askance_aggregator.table_design
from askance_aggregator.table_design import PresentPopulation
from askance_aggregator.table_design.presence import FILE, solved_presence

MILLI_NATS = (
    *(100, 200, 250, 300, 400, 500, 600, 700, 750, 800, 900, 1000, 1500),
    *(2000, 2500, 3000, 3500, 4000, 5000, 6000, 7000, 8000, 9000, 10_000, 12_000),
)
"""Budgets, in thousandths of a nat; 12 nats answer all above."""


def main() -> int:
    """Solve and write the file."""
    found = {}
    for budget in MILLI_NATS:
        table, scores = solved_presence(budget * 10**6, PresentPopulation())
        found[str(budget * 10**6)] = {"table": table.tolist(), "scores": scores.tolist()}
    path = Path(askance_aggregator.table_design.__file__).with_name(FILE)
    entries = [f"{json.dumps(nano)}: {json.dumps(found[nano])}" for nano in found]
    path.write_text("{\n" + ",\n".join(entries) + "\n}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
