"""Errors about missing packages name a command that installs them."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest

from askance_aggregator import extras

WHEEL, CLONE = "pip install 'askance[frames]'", "pip install -e '.[frames]'"


class Installed:
    """Metadata of a distribution with the record of its origin."""

    def __init__(self, origin: str | None) -> None:
        self._origin = origin

    def read_text(self, name: str) -> str | None:
        return self._origin if name == "direct_url.json" else None


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, WHEEL),  # from an index
        ('{"url": "file:///a/askance.whl", "archive_info": {}}', WHEEL),
        ('{"url": "file:///a", "dir_info": {}}', WHEEL),
        ('{"url": "file:///a", "dir_info": {"editable": true}}', CLONE),
    ],
)
def test_a_clone_is_told_by_its_own_command(
    monkeypatch: pytest.MonkeyPatch, origin: str | None, command: str
) -> None:
    monkeypatch.setattr(extras, "distribution", lambda name: Installed(origin))
    assert extras.install_text("frames") == command


def test_a_checkout_that_is_not_installed_is_a_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Installed:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(extras, "distribution", missing)
    assert extras.install_text("frames") == CLONE
