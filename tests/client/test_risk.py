"""The risk of an epsilon in words, against e^eps / (1 + e^eps) computed by hand."""

from __future__ import annotations

import pytest

from askance_client.accounting import parse_epsilon
from askance_client.risk import cost, risk, sure


@pytest.mark.parametrize(
    ("nats", "text"),
    [
        ("0.01", "50.2 %"),  # .50249998
        ("0.1", "52 %"),  # .524979
        ("1", "73 %"),  # .731059
        ("2", "88 %"),  # .880797
        ("4", "98 %"),  # .982014
        ("6", "99.8 %"),  # .997527
        ("8", "99.97 %"),  # .999665
        ("12", "99.999 %"),  # .99999386
        ("20", "99.9999998 %"),  # 1 - 2.06e-9
        ("44", "100 %"),
    ],
)
def test_a_reader_is_so_sure_of_one_of_two_values(nats: str, text: str) -> None:
    assert sure(parse_epsilon(nats)) == text


def test_no_epsilon_tells_nothing_and_the_least_one_next_to_nothing() -> None:
    assert sure(0) == "50 %"
    assert sure(1) == "50.00000003 %"  # 50 + 100 / 4 * 1e-9


def test_studies_are_one_of_the_sum_of_their_epsilons() -> None:
    assert risk(parse_epsilon("0.4") + parse_epsilon("0.6")) == (
        "of two equally likely values a reader is at most 73 % sure of the true one"
    )


@pytest.mark.parametrize(("nats", "little"), [("8", False), ("8.000000001", True), ("44", True)])
def test_a_cost_above_8_nats_protects_little(nats: str, little: bool) -> None:
    told = cost(parse_epsilon(nats))
    assert told.startswith(f"{nats} nats: of two equally likely values")
    assert told.endswith(", which protects little") == little
