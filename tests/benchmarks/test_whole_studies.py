"""The benchmark of whole studies runs, and a study takes less than its two passes would."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType


def test_parts_have_figures(whole_studies: ModuleType, tmp_path: Path) -> None:
    told = whole_studies.objects("mean", 200)
    assert list(told) == [f"objects mean, {kind}, answers/s" for kind in ("first", "steady")]
    assert min(told.values()) > 0
    told = whole_studies.columns("mean", 70_000)
    assert list(told) == ["columns mean, s", "another pass, mean, s"]
    assert 0 < told["another pass, mean, s"] < told["columns mean, s"]
    path = tmp_path / "people.csv"
    path.write_text("answer\n" + "yes\nno\n" * 500)
    assert whole_studies.sweep(path, "answer") > 0
