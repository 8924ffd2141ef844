"""Universes: limits and errors."""

from __future__ import annotations

from typing import Any

import pytest

from askance_client.errors import InvalidParameter
from askance_papers.curator.synopsis import Universe


@pytest.mark.parametrize("sizes", [(), (0,), (2.5,), (float("nan"),), ("2",), (True,), (1,) * 33])
def test_a_universe_has_columns_of_a_whole_number_of_codes(sizes: Any) -> None:
    with pytest.raises(InvalidParameter, match="universe"):
        Universe(sizes)


def test_columns_of_one_code_are_columns() -> None:
    assert Universe((1,) * 32).cells == 1
