"""The benchmark of users for all shares: that it runs, and that too many failures are seen."""

from __future__ import annotations

from types import ModuleType

import pytest


@pytest.mark.slow
def test_it_runs_and_sees_too_many_failures(
    cell_sizes: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cell_sizes.main(["--quick"]) == 0
    assert "1,509" in capsys.readouterr().out
    found = cell_sizes.Row(16, "4", 1509, 840, 815, 757, 1189, 0.05, 0.08, 0.95, 0.05)
    for failing, covering, code in ((0.05, 0.95, 0), (0.2, 0.95, 1), (0.05, 0.8, 1)):
        changed = found._replace(failing=failing, covering=covering)
        monkeypatch.setattr(cell_sizes, "row", lambda *_, changed=changed: changed)
        assert cell_sizes.main(["--quick"]) == code
