"""DRV10, Theorems III.1 and III.3, with delta > 0 and with budgets that differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from math import comb, exp, isclose, log, sqrt, tanh

import numpy as np

from askance_aggregator.bisection import halved
from askance_aggregator.composition import Advanced, Approximate, EventCounts, Optimal, Sum
from askance_papers.curator.synopsis.sampling import exponential_draws
from askance_papers.reproduce.checks import rate_agrees
from askance_papers.reproduce.reproduction import Reproduction, Row, Setting, dot_plot
from askance_simulation.randomness import SeededWords

NAME = "theorem-iii.3"
SPARE = Fraction(1, 10**6)  # delta', beside the sum of the releases' deltas
Mix = Mapping[tuple[Fraction, Fraction], int]
"""(epsilon, delta) of a release to the number of such releases."""

_TENTH, _HALF = Fraction(1, 10), Fraction(1, 2)
MIXES: Mapping[str, Mix] = {
    "30 of .1": {(_TENTH, Fraction(1, 10**8)): 30},
    "100 of .1": {(_TENTH, Fraction(1, 10**7)): 100},
    "10 of .5, 100 of .05": {(_HALF, Fraction(0)): 10, (Fraction(1, 20), Fraction(1, 10**8)): 100},
    "5 of .5, 20 of .1, 40 of .05": {
        (_HALF, Fraction(1, 10**6)): 5,
        (_TENTH, Fraction(0)): 20,
        (Fraction(1, 20), Fraction(1, 10**9)): 40,
    },
    "3 of 1, 200 of .02": {
        (Fraction(1), Fraction(1, 10**5)): 3,
        (Fraction(1, 50), Fraction(1, 10**8)): 200,
    },
}
_HALVINGS = 200  # at most, of a search that ends at its width
_CLOSE = 1e-4  # relative: what the convolution may be above the exact optimum
_DIGITS = 50
_LEAKS = 0.99  # of the sum of deltas: what is really left at the sum of epsilons


def reproduce(setting: Setting) -> Reproduction:
    """Compute bounds and the exact optimum of each mix, and draw the worst releases."""
    rows = []
    for name, mix in MIXES.items():
        rows.append(composed(name, mix, setting))
        setting.progress(name)
    return Reproduction(
        name=NAME,
        source="DRV10, Theorems III.1 and III.3, with deltas and budgets that differ",
        statement=(
            "Releases that are (eps_i, delta_i)-differentially private are (sum eps_i, sum"
            " delta_i)-private together, and (eps', delta' + sum delta_i)-private for eps' ="
            " sqrt(2k ln(1/delta')) eps + k eps (e^eps - 1), where all eps_i are eps."
        ),
        differs_from_print=(
            "True. For budgets that differ squares and means are summed: sqrt(2 ln(1/delta') sum"
            " eps_i^2) + sum eps_i (e^eps_i - 1); the last may be divided by e^eps_i + 1."
            " The optimum is lower, and 1 - prod(1 - delta_i) replaces the sum of deltas."
        ),
        rows=tuple(rows),
        notes=(
            f"delta' = {float(SPARE):g} beside the sum of deltas. The exact optimum is summed over"
            " the lies of randomized responses that leak with probability delta_i, the worst of"
            " all such releases, in decimals.",
            f"A row holds if exact <= optimal <= exact (1 + {_CLOSE:g}), optimal <= divided <="
            " the lesser of printed and basic, the delta that is exactly left at the basic epsilon"
            f" is {_LEAKS:g} to 1 of the sum of deltas and less than allowed at the divided one,"
            " the divided one is its formula, and drawn responses lie as often as enumerated"
            " (two-sided, at 1e-6).",
        ),
        draw=lambda figure: dot_plot(
            figure,
            rows,
            lambda row: row["releases"],
            {
                "optimal, exactly": "exact optimum",
                "III.3, divided": "III.3, divided",
                "III.3": "III.3 as printed",
                "basic": "III.1",
            },
            "epsilon of all together",
        ),
    )


def composed(name: str, mix: Mix, setting: Setting) -> Row:
    """Compute all bounds of one mix."""
    totals = EventCounts({Approximate(*budget): count for budget, count in mix.items()})
    deltas = sum((count * delta for (_, delta), count in mix.items()), Fraction(0))
    allowed = deltas + SPARE
    basic = Sum().epsilon(totals, allowed)
    divided = Advanced().epsilon(totals, allowed)
    optimal = Optimal().epsilon(totals, allowed)
    worst = WorstReleases.of(mix)
    exact = worst.epsilon(allowed, basic)
    printed = theorem(mix, lambda each: each * (exp(each) - 1))
    formula = min(basic, theorem(mix, lambda each: each * tanh(each / 2)))
    at_basic, at_divided = (float(worst.delta(epsilon)) for epsilon in (basic, divided))
    slack = 1 + _CLOSE
    ordered = exact <= optimal <= exact * slack and optimal <= divided * slack
    bounded = divided <= min(printed, basic) * (1 + 1e-9)
    bounded &= isclose(divided, formula, rel_tol=1e-6)
    leaks = _LEAKS * float(deltas) <= at_basic <= float(deltas) * (1 + 1e-9)
    drawn = lies_agree(name, mix, setting)
    return {
        "releases": name,
        "delta": float(allowed),
        "basic": basic,
        "III.3": printed,
        "III.3, divided": divided,
        "optimal": optimal,
        "optimal, exactly": exact,
        "sum of deltas": float(deltas),
        "delta at basic": at_basic,
        "delta at divided": at_divided,
        "drawn": drawn,
        "holds": ordered and bounded and leaks and at_divided <= float(allowed) and drawn,
    }


def theorem(mix: Mix, mean: Callable[[float], float]) -> float:
    """Compute III.3 with sums over budgets that differ."""
    epsilons = [float(epsilon) for (epsilon, _), count in mix.items() for _ in range(count)]
    squares = sum(epsilon**2 for epsilon in epsilons)
    return sqrt(2 * log(1 / SPARE) * squares) + sum(mean(epsilon) for epsilon in epsilons)


@dataclass(frozen=True, slots=True)
class WorstReleases:
    """Law of the worst releases together: each leaks everything, or is randomized response.

    Args:
      kept: probability that none leaks.
      masses: of the outcomes of all responses, under both neighbours.
    """

    kept: Decimal
    masses: tuple[tuple[Decimal, Decimal], ...]

    @classmethod
    def of(cls, mix: Mix) -> WorstReleases:
        """Enumerate the numbers of lies of a mix."""
        with localcontext(prec=_DIGITS):
            kept, parts = Decimal(1), []
            for (epsilon, delta), count in mix.items():
                odds = _decimal(epsilon).exp()
                kept *= (1 - _decimal(delta)) ** count
                shares = [comb(count, lies) / (1 + odds) ** count for lies in range(count + 1)]
                parts.append(
                    [
                        (share * odds ** (count - lies), share * odds**lies)
                        for lies, share in enumerate(shares)
                    ]
                )
            masses = [(Decimal(1), Decimal(1))]
            for part in parts:
                masses = [(a * c, b * d) for a, b in masses for c, d in part]
        return cls(kept, tuple(masses))

    def delta(self, epsilon: float) -> Decimal:
        """Compute the least delta at this epsilon."""
        with localcontext(prec=_DIGITS):
            target = Decimal(epsilon).exp()
            excess = sum((max(a - target * b, Decimal(0)) for a, b in self.masses), Decimal(0))
            return 1 - self.kept * (1 - excess)

    def epsilon(self, delta: Fraction, most: float) -> float:
        """Compute the least epsilon up to `most` at this delta, by bisection; rounded down."""
        allowed = _decimal(delta)
        return halved(lambda each: self.delta(each) <= allowed, 0.0, most, _HALVINGS, 1e-6)[0]


def lies_agree(name: str, mix: Mix, setting: Setting) -> bool:
    """Return whether drawn responses of each epsilon lie with probability 1/(1 + e^epsilon)."""
    trials = 400 if setting.quick else 4000
    words = SeededWords(setting.seed / NAME / name)
    fits = []
    for (epsilon, _), count in mix.items():
        lies = int(exponential_draws(words, np.array([1, 0]), epsilon, count * trials).sum())
        fits.append(rate_agrees(lies, count * trials, 1 / (1 + exp(float(epsilon)))))
    return all(fits)


def _decimal(exact: Fraction) -> Decimal:
    return Decimal(exact.numerator) / exact.denominator
