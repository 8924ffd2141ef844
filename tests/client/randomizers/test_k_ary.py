"""k-ary response: parameters and encodings at their ends."""

from __future__ import annotations

import pytest

from askance_aggregator.families import family_of, k_ary_response
from askance_client.errors import InvalidParameter
from askance_client.exact_laws import valid
from askance_client.randomizers import COIN_SPACE, KaryResponse, PrivacyLoss


@pytest.mark.parametrize(
    ("cells", "other"),
    [
        *[(1, 1), (0, 1), (2**20 + 1, 1), (3, 0), (3, -1), (3, COIN_SPACE // 2), (2, COIN_SPACE)],
        *[(3, 0.5), (3.0, 1), (3, True)],
    ],
)
def test_parameters_out_of_range_are_refused(cells: int, other: int) -> None:
    with pytest.raises(InvalidParameter):
        KaryResponse(cells, other)


def test_the_loss_counts_in_both_directions() -> None:
    assert KaryResponse(3, 1).loss == PrivacyLoss(COIN_SPACE - 2, 1)
    assert KaryResponse(3, COIN_SPACE // 2 - 1).loss == PrivacyLoss(COIN_SPACE // 2 - 1, 2)


@pytest.mark.parametrize(
    ("cells", "width"), [(2, 1), (255, 1), (256, 2), (65535, 2), (65536, 3), (2**20, 3)]
)
def test_the_last_cell_is_emitted_and_is_not_the_missing_report(cells: int, width: int) -> None:
    """Defect: an off-by-one that never emits the last item."""
    response = k_ary_response(cells, 10**9)
    last = (cells - 1).to_bytes(width, "big")
    assert response.width == width
    assert response.randomize(0, [COIN_SPACE - 1]) == last
    assert response.randomize(cells - 1, [0]) == last
    assert valid(response, last)
    assert last != b"\xff" * width


def test_the_others_are_counted_around_the_own_cell() -> None:
    response = KaryResponse(4, COIN_SPACE // 8)
    starts = [response.own + i * response.other for i in range(3)]
    for level in range(4):
        others = [cell for cell in range(4) if cell != level]
        for start, cell in zip(starts, others, strict=True):
            assert response.randomize(level, [start]) == bytes([cell])
            assert response.randomize(level, [start + response.other - 1]) == bytes([cell])
        assert response.randomize(level, [response.own - 1]) == bytes([level])


def test_an_even_response_tells_no_shares() -> None:
    with pytest.raises(InvalidParameter, match="equally often"):
        family_of(KaryResponse(2, COIN_SPACE // 2)).frequencies((1, 0), 1)
