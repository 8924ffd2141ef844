"""Every learner under every oracle: how wrong it is, on a small world of its own.

Each learner learns about the rows of its world (`tests.worlds`) from oracles that know them, draw
from them, are off by almost tau wherever that hurts, see one label in ten flipped, or are a curator
or a fleet of devices. Its error is what `askance simulate --list` says it is.

    python benchmarks/learners.py [--quick] [--json] [--write docs/learners.md]

--write replaces the table in the document. The same numbers every time, with the same numpy.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from askance_aggregator.learners import Answers, Batch, learners
from askance_aggregator.learners.assessments import assess
from askance_aggregator.oracles import Oracle, learn

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from tests.worlds import ORACLES, World, world  # noqa: E402

QUICK = ("exact", "wrong side")
_TABLE = re.compile(r"(?<=<!-- table -->\n).*?(?=<!-- end -->)", re.DOTALL)


class Counting:
    """An oracle whose batches are counted."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self.rounds = 0
        self.queries = 0

    def answer(self, batch: Batch) -> Answers:
        """Return the oracle's answers."""
        self.rounds += 1
        self.queries += len(batch.questions)
        return self._oracle.answer(batch)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write to the file that is given."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two oracles only")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", type=Path, metavar="FILE.md", help="replace its table")
    given = parser.parse_args(arguments)
    oracles = QUICK if given.quick else tuple(ORACLES)
    rows = [measured(entry.name, oracles) for entry in learners()]
    if given.json:
        print(json.dumps({"rows": rows}))
    else:
        print(table(rows, oracles))
    if given.write is not None:
        replace_table(given.write, table(rows, oracles))
    return 0


def measured(name: str, oracles: Sequence[str]) -> dict[str, Any]:
    """Compute a learner's rounds, queries and error under each oracle."""
    of = world(name)
    row: dict[str, Any] = {"learner": name}
    for oracle in oracles:
        row[oracle] = None
        if oracle == "noisy labels" and of.label is None:
            continue
        with ORACLES[oracle](of) as opened:
            counting = Counting(opened)
            row[oracle] = _error(of, learn(of.learner, counting))
        if oracle == "exact":
            row |= {"rounds": counting.rounds, "queries": counting.queries}
    return row


def _error(of: World, hypothesis: Any) -> float | None:
    return assess(hypothesis, of.learner, of.people).error


def table(rows: Sequence[dict[str, Any]], oracles: Sequence[str]) -> str:
    """Return the rows in Markdown."""
    heads = ["learner", "rounds", "queries", *oracles]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    lines += [f"| {' | '.join(_shown(row[head]) for head in heads)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _shown(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def replace_table(path: Path, text: str) -> None:
    """Put the table between the document's marks."""
    before = path.read_text(encoding="utf-8")
    after, count = _TABLE.subn(lambda _: text, before)
    if count != 1:
        raise SystemExit(f"{path}: expected <!-- table --> and <!-- end --> once, found {count}")
    path.write_text(after, encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
