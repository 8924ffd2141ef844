"""`askance amplification`: both ends, and its errors."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import Any

import pytest

import askance as ask
from askance.cli import main
from askance_aggregator.families import makers
from askance_client.errors import InvalidParameter

ONE_BIT = ("amplification", "--randomizer", "randomized-response", "--epsilon", "1")


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 0
    return capsys.readouterr().out


def failure(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 2
    return capsys.readouterr().err.removeprefix("askance: ").strip()


def test_json_has_both_ends_and_what_they_are_of(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, *ONE_BIT, "--answers", "1e6", "--delta", "1e-6", "--json"))
    assert 0 <= found.pop("lower") <= found.pop("upper") <= 1.0000001
    assert found == {
        "randomizer": "randomized-response",
        "cells": 2,
        "epsilon": 1.0,
        "answers": 1_000_000,
        "delta": 1e-6,
    }


@pytest.mark.parametrize(
    ("words", "low", "high"),
    [
        # One bit: best of three compositions .0028; blanket .0035. 16-ary at 4: .03037, both ends.
        ("--randomizer randomized-response --epsilon 1", 0.0028, 0.0029),
        ("--randomizer k-ary-response --cells 16 --epsilon 4", 0.0303, 0.0304),
    ],
)
def test_a_million_answers_hide_a_report(
    words: str, low: float, high: float, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("amplification", *words.split(), "--answers", "1000000", "--json")
    found = json.loads(printed(capsys, *given))
    assert low <= found["lower"] <= found["upper"] <= high


def test_one_report_alone_has_its_own_epsilon(capsys: pytest.CaptureFixture[str]) -> None:
    """A batch of one hides nothing: at a delta near 0 its epsilon is that of the report."""
    words = (*ONE_BIT, "--answers", "1", "--delta", "1e-9", "--json")
    assert json.loads(printed(capsys, *words))["upper"] == pytest.approx(1, abs=1e-6)


def test_text_says_towards_whom(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, *ONE_BIT, "--answers", "10000")
    assert "randomized-response, epsilon 1, 10,000 honest answers, delta 1e-06" in text
    assert "towards the aggregator" in text
    assert "towards readers of the tally" in text


def test_the_help_names_every_randomizer(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(("amplification", "--help"))
    text = re.sub(r"-\s+", "-", capsys.readouterr().out)  # a name may be cut at its hyphen
    (named,) = re.findall(r"--randomizer NAME\s+(codebook.*?)\s+--cells", text, re.DOTALL)
    assert re.split(r",\s+|\s+or\s+", named) == list(makers())


def test_a_randomizer_itself_has_the_ends_of_its_name() -> None:
    made = ask.best_for(16, 10**9)
    assert ask.amplification(made, answers=5_000) == ask.amplification(
        "subset-selection", cells=16, epsilon=1, answers=5_000, delta=Fraction(1, 10**6)
    )


def test_a_codebook_s_name_is_that_of_unit_vectors_on_the_usual_grid() -> None:
    usual = ask.Real(-1, 1).frac_bits
    named = ask.amplification("codebook", cells=16, epsilon=1, answers=5_000)
    made = ask.random_codebook(16, 1 << usual, 10**9)
    assert named == ask.amplification(made, answers=5_000)
    assert named.lower > 0.8 * named.upper


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"randomizer": "k-ary-response"}, "epsilon: expected a number of nats with a name"),
        ({"randomizer": ask.best_for(4, 10**9), "epsilon": 1}, "expected none with a randomizer"),
        ({"randomizer": ask.best_for(4, 10**9), "cells": 7}, "cells: expected none .* got 7"),
        ({"randomizer": "hypercube", "epsilon": 1, "answers": 0}, "answers: expected .* got 0"),
        ({"randomizer": "hypercube", "epsilon": 1, "delta": 0}, "delta: expected .* got 0"),
        ({"randomizer": "hypercube", "epsilon": 1, "cells": -2}, "cells: expected .* got -2"),
    ],
)
def test_a_wrong_argument_of_the_function_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        ask.amplification(**({"answers": 9} | given))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--randomizer k-ary-respons --epsilon 1 --answers 9", "(did you mean k-ary-response?"),
        ("--randomizer randomized-response --cells 3 --epsilon 1 --answers 9", "cells: expected 2"),
        ("--randomizer k-ary-response --epsilon 0 --answers 9", "--epsilon: expected a positive"),
        ("--randomizer k-ary-response --epsilon 1 --answers 9 --delta 1", "--delta: expected a"),
        ("--randomizer k-ary-response --epsilon 1 --answers 9 --delta 1", "got '1'"),
        ("--randomizer k-ary-response --epsilon 1 --answers 1.5", "got '1.5'"),
        ("--randomizer k-ary-response --answers 9", "expected --epsilon, got none"),
        ("--epsilon 1 --answers 9", "expected --randomizer, got none"),
        ("--randomizer k-ary-response --epsilon 1", "expected --answers, got none"),
    ],
)
def test_a_wrong_argument_is_named_with_its_value(
    words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in failure(capsys, "amplification", *words.split())
