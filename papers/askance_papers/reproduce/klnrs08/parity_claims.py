"""KLNRS08, Claims 2.1 and 3.3, enumerated on the runs of the private learner of PARITY.

Claim 2.1: k runs of an eps-private algorithm, and any function of their answers, are k eps-private.
Claim 3.3: one example more at most doubles a hypothesis's probability.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import log

import numpy as np

from askance_papers.curator.parity import Parity, ParityExamples, even_keeping, law
from askance_papers.reproduce.reproduction import Row

UNKNOWNS, EXAMPLES = 2, 3  # of the data sets that are gone through
EPSILON = Fraction(1, 2)  # of one run
_CLOSE = 1e-9  # of a loss in nats: p is rounded down to 64 bits

Example = tuple[int, ...]
Answer = Parity | None
Law = Mapping[Answer, Fraction]
Function = Callable[[tuple[Answer, ...]], Hashable]


def claim_rows() -> list[Row]:
    """Return rows with the columns of the reproduction `parity`."""
    return [
        composed(2, "all answers", lambda answers: answers),
        composed(2, "first answer", first_answer),
        composed(2, "answers that agree", lambda answers: answers[0] == answers[1]),
        doubled(),
    ]


def composed(runs: int, name: str, function: Function) -> Row:
    """Enumerate the loss of a function of k runs' answers.

    The tuple itself costs k times as much as a run, no less; a function of it at most as much, and
    its law is the one that `law` has for that number of runs.
    """
    keep = even_keeping(EPSILON, 1)
    kinds = list(product((0, 1), repeat=UNKNOWNS + 1))
    once = {
        data: law(_examples(data), keep, 1)
        for data in combinations_with_replacement(kinds, EXAMPLES)
    }
    laws = {data: pushed(mine, runs, function) for data, mine in once.items()}
    measured = log(max(_ratio(laws, data, kinds) for data in laws))
    whole = name == "all answers"
    most = runs * float(EPSILON)
    same = name != "first answer" or all(
        laws[data] == law(_examples(data), keep, runs) for data in laws
    )
    complete = all(sum(mine.values()) == 1 for mine in laws.values())
    return _row(f"Claim 2.1, {name}", runs, keep, most, measured) | {
        "private": measured <= most + _CLOSE,
        "holds": complete
        and same
        and measured <= most + _CLOSE
        and (not whole or measured > most - _CLOSE),
    }


def pushed(once: Law, runs: int, function: Function) -> dict[Hashable, Fraction]:
    """Compute the law of a function of independent runs."""
    found: defaultdict[Hashable, Fraction] = defaultdict(Fraction)
    for answers in product(once.items(), repeat=runs):
        chance = Fraction(1)
        for _, part in answers:
            chance *= part
        found[function(tuple(answer for answer, _ in answers))] += chance
    return dict(found)


def first_answer(answers: tuple[Answer, ...]) -> Answer:
    """Return the first that is not None, as A* does."""
    return next((answer for answer in answers if answer is not None), None)


def doubled() -> Row:
    """Find the largest ratio of a hypothesis's probability with an example kept and left out.

    Both are the law of the other examples' coins; the example's own coin is fixed by its place: it
    is in the system once (kept), or in none.
    """
    keep = even_keeping(EPSILON, 1)
    kinds = list(product((0, 1), repeat=UNKNOWNS + 1))
    largest = Fraction(0)
    gained = False
    for data in combinations_with_replacement(kinds, EXAMPLES - 1):
        without = law(_examples(data), keep, 1)
        for other in kinds:
            kept = law_with(data, other, keep)
            for answer, chance in kept.items():
                if answer is None:
                    continue
                gained = gained or answer not in without
                largest = max(largest, chance / without.get(answer, chance))
    return _row("Claim 3.3, ratio", 1, keep, 2.0, float(largest)) | {
        "private": True,
        "holds": largest == 2 and not gained,
    }


def law_with(data: Sequence[Example], other: Example, keep: Fraction) -> Law:
    """Compute the law of a run that surely keeps one example more.

    The law with its coin, P = keep P_in + (1 - keep) P_out, is solved for P_in.
    """
    both = law(_examples((*data, other)), keep, 1)
    without = law(_examples(data), keep, 1)
    return {
        answer: (both.get(answer, Fraction(0)) - (1 - keep) * without.get(answer, Fraction(0)))
        / keep
        for answer in {*both, *without}
    }


def _ratio(
    laws: Mapping[tuple[Example, ...], Mapping[Hashable, Fraction]],
    data: tuple[Example, ...],
    kinds: Sequence[Example],
) -> Fraction:
    """Find the largest ratio of an answer's probabilities on a data set and its neighbours."""
    others = {
        tuple(sorted((*data[:place], other, *data[place + 1 :])))
        for place in range(len(data))
        for other in kinds
    }
    return max(
        chance / laws[other][answer] for other in others for answer, chance in laws[data].items()
    )


def _examples(data: Sequence[Example]) -> ParityExamples:
    table = np.array(data, dtype=np.uint8)
    return ParityExamples.of_bits(table[:, :UNKNOWNS], table[:, UNKNOWNS])


def _row(
    what: str, runs: int, keep: Fraction, expected: float, measured: float
) -> dict[str, object]:
    return {
        "what": what,
        "keeping": "tanh",
        "epsilon": float(EPSILON) * runs,
        "runs": runs,
        "p": float(keep),
        "d": UNKNOWNS,
        "x": "every",
        "n": EXAMPLES,
        "expected": expected,
        "measured": measured,
        "trials": None,
    }
