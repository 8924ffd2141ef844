"""Made-up people, one per row, to try a file or a deployment with: a CSV file.

    python examples/people.py survey 800 survey.csv
    python examples/people.py schooling 500 people.csv
    python examples/people.py masked-parity 6000 masked.csv

The first are the answers of a small survey. The second have an age and a schooling (schema:
examples/people.toml), the third a record of MASKED-PARITY (schema: examples/masked.toml) with a
hidden mask and bit that a study can find.
"""

from __future__ import annotations

import csv
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

SCHOOLING = {"school": 5, "college": 3, "university": 2}  # so many in ten
BITS = 8

Rows = Iterator[dict[str, object]]


def survey(count: int, draw: random.Random) -> Rows:
    """People who travel to work, or work at home and sleep longer."""
    for person in range(count):
        at_home = draw.random() < 0.4
        (commute,) = draw.choices(["car", "train", "bicycle", "on foot"], [45, 30, 15, 10])
        sleep = draw.gauss(7.6 if at_home else 6.8, 0.9)
        yield {
            "id": f"s{person}",
            "sleep (hours)": round(min(max(sleep, 3), 12), 1),
            "commute": commute,
            "works at home": "yes" if at_home else "no",
        }


def schooling(count: int, draw: random.Random) -> Rows:
    """People with an age and a schooling."""
    for person in range(count):
        (education,) = draw.choices(list(SCHOOLING), list(SCHOOLING.values()))
        yield {"id": f"p{person}", "age": draw.randint(17, 90), "education": education}


def masked_parity(count: int, draw: random.Random) -> Rows:
    """People with x, i, b uniform and y = r_i where b = 1, else <r, x> + a, as a sign."""
    r, a = [draw.randint(0, 1) for _ in range(BITS)], draw.randint(0, 1)
    print(f"hidden: r = {''.join(map(str, r))}, a = {a}")
    for person in range(count):
        x, i, b = (
            [draw.randint(0, 1) for _ in range(BITS)],
            draw.randrange(BITS),
            draw.randint(0, 1),
        )
        minus = r[i] if b else (sum(one * bit for one, bit in zip(r, x, strict=True)) + a) % 2
        bits = "".join(map(str, x))
        yield {"id": f"m{person}", "x": bits, "i": i, "b": b, "y": "-1" if minus else "1"}


WORLDS = {"survey": survey, "schooling": schooling, "masked-parity": masked_parity}


def main(argv: Sequence[str]) -> int:
    """Write the file."""
    world, count, path = argv
    rows = list(WORLDS[world](int(count), random.Random(int(count))))
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    if world == "schooling":
        print("in truth:", dict(Counter(row["education"] for row in rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
