"""Numbers as callers write them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from askance_aggregator.numbers import read_epsilon, read_probability
from askance_client.errors import InvalidParameter


@pytest.mark.parametrize("written", [0.1, "0.1", np.float64(0.1), Fraction(1, 10)])
def test_a_tenth_is_a_tenth_however_it_is_written(written: Any) -> None:
    assert read_epsilon(written) == read_probability(written, "delta") == Fraction(1, 10)


@pytest.mark.parametrize("written", [0, -1, float("nan"), float("inf"), "x", True, None, "1e-12"])
def test_what_is_no_epsilon_is_refused(written: Any) -> None:
    with pytest.raises(InvalidParameter, match="epsilon"):
        read_epsilon(written)


@pytest.mark.parametrize("written", [0, 1, -0.5, float("nan"), "x", True])
def test_what_is_no_delta_is_refused(written: Any) -> None:
    with pytest.raises(InvalidParameter, match="delta"):
        read_probability(written, "delta")
