"""A planted defect, and wrong versions of functions that several sources need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib import import_module
from typing import Any
from unittest import mock

CURATOR = "askance_papers.curator"
ORACLES = "askance_aggregator.oracles"
REDUCTIONS = "askance_papers.reductions"
REPRODUCE = "askance_papers.reproduce"
Wrong = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Defect:
    """Wrong version of a mechanism.

    Args:
      summary: what is wrong with it, for the table.
      place: "package.module:attribute" or "package.module:Class.attribute".
      wrong: the planted attribute, made of the honest one.
    """

    summary: str
    place: str
    wrong: Wrong

    @property
    def owner(self) -> tuple[Any, str]:
        """The module or class with the attribute, and the attribute's name."""
        module, _, path = self.place.partition(":")
        owner: Any = import_module(module)
        *outer, name = path.split(".")
        for part in outer:
            owner = getattr(owner, part)
        return owner, name

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Replace the attribute while the context lasts."""
        owner, name = self.owner
        with mock.patch.object(owner, name, self.wrong(getattr(owner, name))):
            yield


Defects = Mapping[str, Sequence[Defect]]
"""Name of a reproduction to its defects."""


def times(factor: float | Fraction) -> Wrong:
    """Multiply the result of a function."""
    return lambda honest: lambda *given, **named: honest(*given, **named) * factor


def property_times(factor: Fraction) -> Wrong:
    """Multiply a property."""
    return lambda honest: property(lambda owner: honest.fget(owner) * factor)


def argument_times(position: int, factor: float | Fraction) -> Wrong:
    """Multiply a positional argument, the first has position 0: say the scale of a sampler."""

    def wrong(honest: Any) -> Any:
        def call(*given: Any) -> Any:
            return honest(*given[:position], given[position] * factor, *given[position + 1 :])

        return call

    return wrong


def other_epsilon(factor: Fraction) -> Wrong:
    """Call a mechanism's method as if epsilon were a multiple of the stated one."""
    return lambda honest: (
        lambda mechanism, *given: honest(
            replace(mechanism, epsilon=mechanism.epsilon * factor), *given
        )
    )


def _quieter(honest: Any) -> Any:
    """Halve the noise of a tally: the mean of four, whose sum is kept where all have the same."""

    def tally(*given: Any) -> Any:
        four = [honest(*given) for _ in range(4)]
        mean = sum(four) // 4
        sums = [each.sum(axis=1) for each in four]
        if all((each == sums[0]).all() for each in sums):
            mean[:, -1] += sums[0] - mean.sum(axis=1)
        return mean

    return tally


QUIET_TALLIES = Defect("half of the devices' noise", f"{REPRODUCE}.counting:sample_tally", _quieter)
HALF_SENSITIVITY = Defect(
    "half of the sensitivity",
    f"{CURATOR}.mechanisms.additive:Laplace.scale",
    property_times(Fraction(1, 2)),
)
