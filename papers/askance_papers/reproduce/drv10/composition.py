"""DRV10 section III: what k releases of epsilon each cost together, by each accountant."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from math import comb, exp, log, sqrt
from typing import Any

from askance_aggregator.bisection import halved
from askance_aggregator.composition import (
    ACCOUNTANTS,
    Advanced,
    EventCounts,
    Optimal,
    Pure,
    Sum,
    ZeroConcentrated,
)
from askance_papers.reproduce.checks import close
from askance_papers.reproduce.reproduction import Reproduction, Row, Setting

NAME = "composition"
EACH = Fraction(1, 10)
DELTA = Fraction(1, 10**6)
TABLE = (10, 100, 1000)  # releases, of the rows
_DIGITS = 40  # of the exact law: its terms differ by 30 orders of magnitude
_HALVINGS = 200  # at most, of a search that ends at its width
_CLOSE = 1e-5  # relative: four digits and more
_INK, _ACCENT, _QUIET, _BAD = "#222222", "#0b6e99", "#b0b0b0", "#c0392b"


def reproduce(setting: Setting) -> Reproduction:
    """Compute the table; FULL has more numbers of releases."""
    counts = TABLE if setting.quick else (*TABLE, 1, 2, 5, 20, 50, 200, 500, 2000)
    rows = []
    for count in sorted(counts):
        rows.append(composed(count))
        setting.progress(f"{count} releases")
    return Reproduction(
        name=NAME,
        source="DRV10, Theorems III.1 and III.3",
        statement=(
            "k releases, each eps-differentially private, are (k eps, 0)- and for every delta"
            " (sqrt(2k ln(1/delta)) eps + k eps (e^eps - 1), delta)-differentially private."
        ),
        differs_from_print=(
            "It is true, and not the least: for few releases it is above the sum, so the lesser of"
            " the two is reported; the last term may be divided by e^eps + 1; and the optimum"
            " (Kairouz, Oh, Viswanath 2015) is known and lower."
        ),
        rows=tuple(rows),
        notes=(
            f"eps = {float(EACH):g} a release, delta = {float(DELTA):g} for all of them.",
            "The exact optimum is summed over the number of lies of k randomized responses, in"
            " decimals; a row holds if the convolution is it to five digits, rounded upward, and"
            " every bound is at least that, at most what it improves on, and its own formula,"
            " worked out here again, to five digits.",
            "The number of releases and their budgets are fixed beforehand; where they are chosen"
            " by earlier answers a filter is needed, and pays what zCDP does.",
        ),
        draw=lambda figure: _draw(figure, rows),
    )


def composed(count: int) -> Row:
    """Compute all bounds for that many releases."""
    totals = EventCounts({Pure(EACH): count})
    found = {name: each.epsilon(totals, DELTA) for name, each in ACCOUNTANTS.items()}
    basic, advanced = found[Sum().name], found[Advanced().name]
    concentrated, optimal = found[ZeroConcentrated().name], found[Optimal().name]
    printed, exact = printed_bound(count), exact_optimum(count)
    slack = 1 + _CLOSE
    return {
        "releases": count,
        "basic": basic,
        "III.3 as printed": printed,
        "III.3 divided, or basic": advanced,
        "zCDP": concentrated,
        "optimal": optimal,
        "optimal, exactly": exact,
        "holds": exact <= optimal <= exact * slack
        and optimal <= min(advanced, concentrated) * slack
        and advanced <= min(printed, basic) * slack
        and (count == 1 or optimal < basic)
        and close(basic, count * float(EACH), _CLOSE)
        and close(advanced, divided_bound(count), _CLOSE)
        and close(concentrated, concentrated_bound(count), _CLOSE),
    }


def printed_bound(count: int) -> float:
    """Compute Theorem III.3 as printed: true, and above the sum for few releases."""
    each = float(EACH)
    return sqrt(2 * count * log(1 / DELTA)) * each + count * each * (exp(each) - 1)


def divided_bound(count: int) -> float:
    """Compute the lesser of the sum and Theorem III.3 with its last term over e^eps + 1."""
    each = float(EACH)
    last = count * each * (exp(each) - 1) / (exp(each) + 1)
    return min(count * each, sqrt(2 * count * log(1 / DELTA)) * each + last)


def concentrated_bound(count: int) -> float:
    """Compute the epsilon of rho = k eps^2 / 2, or the sum where that is less."""
    # The epsilon is the least of rho alpha + ln(1 / (alpha delta)) / (alpha - 1) + ln(1 - 1/alpha)
    # over alpha > 1 (Canonne, Kamath, Steinke 2020, Proposition 12).
    from scipy.optimize import minimize_scalar

    rho = count * float(EACH) ** 2 / 2

    def of(logarithm: float) -> float:
        beyond = exp(logarithm)
        alpha = 1 + beyond
        return rho * alpha - log(alpha * DELTA) / beyond + log(beyond / alpha)

    least = minimize_scalar(of, bounds=(-10, 20), method="bounded").fun
    return min(float(least), count * float(EACH))


def exact_optimum(count: int) -> float:
    """Compute the least epsilon of `count` randomized responses, which dominate pure releases."""
    # Among the 2^k answers, those with i lies have e^((k - i) eps) parts in (1 + e^eps)^k of
    # probability, and e^(i eps) under the neighbour. The delta of an epsilon is a sum over i; it
    # falls in epsilon.
    with localcontext(prec=_DIGITS):
        odds = (Decimal(EACH.numerator) / EACH.denominator).exp()
        allowed = Decimal(DELTA.numerator) / DELTA.denominator * (1 + odds) ** count
        ways = [comb(count, lies) for lies in range(count + 1)]
        powers = [odds**lies for lies in range(count + 1)]

        def fits(epsilon: float) -> bool:
            target = Decimal(epsilon).exp()
            excess = Decimal(0)
            for lies in range(count + 1):
                beyond = powers[count - lies] - target * powers[lies]
                if beyond <= 0:
                    break
                excess += ways[lies] * beyond
            return excess <= allowed

        return halved(fits, 0.0, count * float(EACH), _HALVINGS, 1e-10)[0]


def _draw(figure: Any, rows: Sequence[Row]) -> None:
    """Draw curves over the number of releases, and the table's columns as points."""
    figure.set_size_inches(6.5, 4.2)
    axes = figure.subplots()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    drawn = {
        "basic": (_QUIET, "s-"),
        "III.3 as printed": (_BAD, "o-"),
        "III.3 divided, or basic": (_BAD, "o--"),
        "zCDP": (_ACCENT, "^--"),
        "optimal": (_INK, "D-"),
    }
    releases = [row["releases"] for row in rows]
    for column, (color, style) in drawn.items():
        axes.plot(
            releases,
            [row[column] for row in rows],
            style,
            color=color,
            markersize=4,
            linewidth=1.2,
            label=column,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.grid(color=_QUIET, alpha=0.3)
    axes.set_xlabel(f"releases of ε = {float(EACH):g}")
    axes.set_ylabel(f"ε of all together, δ = {float(DELTA):g}")
    axes.set_title("What releases cost together", loc="left", fontsize=11, color=_INK)
    axes.legend(frameon=False, fontsize=8)
