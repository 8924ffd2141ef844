"""Ends of shuffled batches: each row has a ratio per batch, beside what is wanted of it."""

from __future__ import annotations

import json
from types import ModuleType

import pytest


def test_a_row_has_the_ratio_of_every_batch(
    amplification: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--families", "k-ary", "hashes", "--quick", "--json"]
    assert amplification.main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["family"] for row in found["rows"]] == ["k-ary of 16", "hashes of 1024"]
    assert found["misses"] == []
    for row in found["rows"]:
        assert row["rho"] == pytest.approx(1, abs=1e-6)
        assert [figure["answers"] for figure in row["figures"]] == [10**4, 10**6, 10**8] * 2
        for figure in row["figures"]:
            assert 0 < figure["lower"] <= figure["upper"] < 1.005 * figure["lower"]


@pytest.mark.slow
def test_every_family_has_a_row_at_one_nat(
    amplification: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert amplification.main(["--quick"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith("| ")]) == 1 + len(amplification.FAMILIES)
