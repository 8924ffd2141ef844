"""Every randomizer's exact privacy loss against the epsilon it was made for, by integers.

The loss that a device charges is taken from a randomizer's own closed form; here it is taken again
from what the randomizer says of every report (Pr[report | level], exactly), where the reports can
be listed, and compared as fractions. No float takes part in the comparison.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import islice
from typing import Any

from askance_aggregator.families import family_of
from askance_aggregator.numbers import plain_arguments, read_nano_nats
from askance_aggregator.studies.study import Epsilon
from askance_client.accounting import ratio_within
from askance_client.errors import InvalidParameter
from askance_client.exact_laws import probability
from askance_client.randomizers import Randomizer
from askance_protos.v1 import randomizer_pb2
from askance_simulation.families import verified_makers
from askance_simulation.families.dispatch import Maker

DEFAULT_EPSILONS = ("0.01", "0.1", "0.5", "1", "2", "4", "8", "16", "20")
_LISTED = 2048  # alphabets up to this size are gone through report by report
_DIGITS = 60  # two integers below 2^64 may differ by one

_WIRE = randomizer_pb2.Randomizer.DESCRIPTOR.oneofs_by_name["family"]

FAMILIES = {
    name: maker for field in _WIRE.fields for name, maker in verified_makers(field.name).items()
}
"""Randomizers that are checked, by the name that is printed: the wire's families in its order."""


@dataclass(frozen=True, slots=True)
class Check:
    """Check of one randomizer at one epsilon.

    `holds`: its exact loss is at most epsilon, and no more than it charges. `tight`: and within one
    part in 10^9 of epsilon. `refused`: it cannot be made at this epsilon.
    """

    randomizer: str
    nano_budget: int
    privacy_loss: float | None
    nano_nats: int | None
    holds: bool
    tight: bool
    refused: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the check as JSON, as the command line prints it."""
        return {
            "randomizer": self.randomizer,
            "epsilon": self.nano_budget / 10**9,
            "privacy_loss": self.privacy_loss,
            "nano_nats": self.nano_nats,
            "tight": self.tight,
            "holds": self.holds,
            **({"refused": self.refused} if self.refused else {}),
        }


@plain_arguments
def verify(epsilons: Iterable[Epsilon] = DEFAULT_EPSILONS) -> Iterator[Check]:
    """Check every family at every epsilon.

    Example:
        >>> check = next(ask.verify(["1"]))
        >>> check.holds, check.tight
        (True, True)
    """
    for epsilon in epsilons:
        nano = read_nano_nats(epsilon)
        for name, make in FAMILIES.items():
            yield _check(name, make, nano)


def _check(name: str, make: Maker, nano: int) -> Check:
    try:
        randomizer = make(nano)
    except InvalidParameter as error:
        return Check(name, nano, None, None, holds=True, tight=False, refused=str(error))
    loss = randomizer.loss
    ratio = Fraction(loss.numerator, loss.denominator)
    recounted = recount(randomizer)
    holds = (
        ratio_within(loss.numerator, loss.denominator, nano)
        and loss.nano_nats <= nano
        and (recounted is None or recounted <= ratio)
    )
    least = nano - -(-nano // 10**9)
    tight = holds and (least <= 0 or not ratio_within(loss.numerator, loss.denominator, least))
    return Check(name, nano, _log(ratio), loss.nano_nats, holds=holds, tight=tight)


def recount(randomizer: Randomizer) -> Fraction | None:
    """Compute the loss's ratio from all reports' probabilities; None if they are too many."""
    reports = list(islice(family_of(randomizer).alphabet(), _LISTED + 1))
    if len(reports) > _LISTED or len(reports) * randomizer.levels > 64 * _LISTED:
        return None
    sums = [Fraction(0)] * randomizer.levels
    worst = Fraction(1)
    for report in reports:
        column = [probability(randomizer, level, report) for level in range(randomizer.levels)]
        sums = [total + chance for total, chance in zip(sums, column, strict=True)]
        worst = max(worst, max(column) / min(column))
    if any(total != 1 for total in sums):
        raise AssertionError(f"{randomizer.name}: expected probabilities that sum to one")
    return worst


def _log(ratio: Fraction) -> float:
    """Compute ln to the nearest float, from enough digits that it is not above eps."""
    with localcontext(prec=_DIGITS):
        return float((Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln())
