"""`askance amplification`."""

from __future__ import annotations

import argparse

from askance.cli.arguments import count, required
from askance.cli.output import print_result
from askance.cli.progress import working
from askance_aggregator.reports.report import CommandReport, Grid

NAME = "amplification"
SUMMARY = "bound what readers of a tally learn of one user"
DESCRIPTION = (
    "Bounds the epsilon that a reader of one tally faces, who sees counts and no report: towards"
    " the aggregator a report has its own epsilon, towards readers of the tally of many fresh ones"
    " much less. The upper end holds for every population, the lower one is attained by one; both"
    " are rounded outward. The statement is on replacing one user's record, given who answered and"
    " how many (docs/explanations/two_guarantees.md). Nothing is asked, and no budget uses it."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the randomizer, the answers and delta."""
    parser.add_argument(
        "--randomizer",
        metavar="NAME",
        help="codebook, designed-table, hadamard-sign, hypercube, k-ary-response, linear-hashing,"
        " randomized-response, signed-subset-selection or subset-selection",
    )
    parser.add_argument(
        "--cells",
        type=count,
        default=2,
        metavar="K",
        help="cells of a category, signed values, components of a vector, or levels of a number"
        " (default: 2)",
    )
    parser.add_argument("--epsilon", metavar="E", help="of one report, in nats")
    parser.add_argument(
        "--answers",
        type=count,
        metavar="N",
        help="honest reports in the tally, the one that a reader looks for included: of a study's"
        " answers the fresh ones, less those that may be lies",
    )
    parser.add_argument("--delta", default="1e-6", metavar="D", help="in (0, 1); default 0.000001")


def run(arguments: argparse.Namespace) -> int:
    """Compute both ends and print them."""
    import askance as ask
    from askance_aggregator.numbers import read_epsilon, read_probability
    from askance_aggregator.reports.figures import least_text, most_text

    required(arguments, "randomizer", "epsilon", "answers")
    local = float(read_epsilon(arguments.epsilon, "--epsilon"))
    delta = float(read_probability(arguments.delta, "--delta"))
    with working("bounding"):
        ends = ask.amplification(
            arguments.randomizer,
            cells=arguments.cells,
            epsilon=arguments.epsilon,
            answers=arguments.answers,
            delta=arguments.delta,
        )
    result = {
        "randomizer": arguments.randomizer,
        "cells": arguments.cells,
        "epsilon": local,
        "answers": arguments.answers,
        "delta": delta,
        "lower": ends.lower,
        "upper": ends.upper,
    }
    rows = Grid()
    rows.add_row("  towards the aggregator", f"at most {local:.9g}")
    rows.add_row(
        "  towards readers of the tally",
        f"at most {most_text(ends.upper)}, at least {least_text(ends.lower)}",
    )
    title = (
        f"{arguments.randomizer}, epsilon {local:.9g}, {arguments.answers:,} honest answers,"
        f" delta {delta:g}"
    )
    return print_result(arguments, result, lambda: CommandReport(title, [rows]))
