"""Number of sampled queries that carries to most queries: the least that the union bound has."""

from __future__ import annotations

from math import log
from typing import Any

import pytest

from askance_client.errors import InvalidParameter
from askance_papers.curator.synopsis import queries_for


@pytest.mark.parametrize("synopses", [1, 2, 1000, 2**40])
@pytest.mark.parametrize("beta", [0.5, 1e-3])
@pytest.mark.parametrize("advantage", [0.0, 1 / 3, 0.49])
def test_it_is_the_least_for_all_synopses_together(
    synopses: int, beta: float, advantage: float
) -> None:
    count, kept = queries_for(synopses, beta, advantage), 0.5 + advantage
    assert synopses * kept**count <= beta * (1 + 1e-9)
    assert count == 1 or synopses * kept ** (count - 1) > beta * (1 - 1e-9)


def test_it_is_below_the_printed_number() -> None:
    """At 256 synopses, beta .1 and eta 1/3: 44 for 2 (ln 10 + 8) / (1/3) = 61.8."""
    assert queries_for(256, 0.1, 1 / 3) == 44
    assert 2 * (log(10) + 8) * 3 > 61


@pytest.mark.parametrize(
    "arguments", [(0, 0.1, 0.3), (2, 0.0, 0.3), (2, 1.0, 0.3), (2, 0.1, -0.1), (2, 0.1, 0.5)]
)
def test_arguments_are_in_their_ranges(arguments: Any) -> None:
    with pytest.raises(InvalidParameter, match="generalisation: expected 1 synopsis"):
        queries_for(*arguments)
