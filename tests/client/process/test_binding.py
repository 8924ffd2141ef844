"""A folder names its users in one way, ever: a user with two names would have two budgets."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from askance_client.cli.home import DeviceHome
from askance_client.cli.running import enroll
from askance_client.errors import StoreError
from tests.client.process.conftest import Folder, make_folder

PEOPLE = "id,email,smokes\na,a@example.org,1\nb,b@example.org,0\n"
NAMINGS = {
    "row = 0": ("--row", "0"),
    'key = "id"': ("--key", "id"),
    'key = "email"': ("--key", "email"),
    "rows_may_only_be_appended = true": ("--rows-by-number",),
}
OTHERS = list(zip(NAMINGS, [*list(NAMINGS)[1:], *NAMINGS], strict=False))  # each, and the next
WAIT_S = 60


def charged(folder: Folder) -> list[tuple[str, int]]:
    file = DeviceHome(folder.path).ledgers()
    try:
        return [(answer.member, answer.charge.nano_nats) for answer in file.answers()]
    finally:
        file.close()


def renamed(folder: Folder, before: str, after: str) -> None:
    """Write another naming into device.toml."""
    path = folder.path / "device.toml"
    text = path.read_text()
    assert f"\n{before}\n" in text
    path.write_text(text.replace(f"\n{before}\n", f"\n{after}\n"))


def answered(aggregator: Any, folder: Folder, number: int = 0) -> None:
    """Enrol and answer one round."""
    assert folder.run("enroll", "--token", aggregator.token(5))[0] == 0
    asked = aggregator.ask(aggregator.round(number))
    code, _, err = folder.run("run", "--once")
    assert code == 0, err
    asked.result(WAIT_S)


def test_one_person_is_never_charged_under_a_second_naming(aggregator: Any, tmp_path: Path) -> None:
    """Row 0, then the column id, then email, then the number: four budgets for one user, once."""
    start, *later = NAMINGS
    people = PEOPLE.split("b,")[0]
    address = aggregator.server.address
    folder = make_folder(tmp_path, address, people=people, naming=NAMINGS[start])
    answered(aggregator, folder)
    spent, population = charged(folder), aggregator.store.population()
    assert spent == [("", 10**9)]
    for other in later:
        renamed(folder, start, other)
        for words in (("run", "--once"), ("enroll", "--token", aggregator.token(5))):
            code, failure, err = folder.run(*words)
            assert code == 1
            message = failure["failure"]["message"]
            assert f"expected {start!r}" in message
            assert "make another folder (init)" in message
            assert err.count("\n") == 1
        code, result, _ = folder.run("verify")
        assert (code, len(result["violations"])) == (1, 1)
        assert f"members: expected {start!r}" in result["violations"][0]
        renamed(folder, other, start)
    assert charged(folder) == spent
    assert aggregator.store.population() == population
    code, result, _ = folder.run("verify")
    assert (code, result["checked"], result["violations"]) == (0, 1, [])


@pytest.mark.parametrize(("naming", "other"), OTHERS)
def test_each_naming_refuses_each_other_from_init_on(
    tmp_path: Path, naming: str, other: str
) -> None:
    folder = make_folder(tmp_path, "127.0.0.1:1", people=PEOPLE, naming=NAMINGS[naming])
    renamed(folder, naming, other)
    with pytest.raises(StoreError, match="members: expected"):
        enrol_in_process(folder)


@pytest.mark.parametrize("change", ["another row", "another schema"])
def test_neither_another_row_nor_another_schema_is_used(tmp_path: Path, change: str) -> None:
    folder = make_folder(tmp_path, "127.0.0.1:1", people=PEOPLE, naming=("--row", "0"))
    if change == "another row":
        renamed(folder, "row = 0", "row = 1")
        expected = "members: expected 'row = 0', .*, got 'row = 1'"
    else:
        (tmp_path / "people.toml").write_text(
            'name = "people"\n[fields]\nsmokes = { type = "integer", low = 0, high = 9 }\n'
        )
        expected = "schema: expected 'people .*, got 'people "
    with pytest.raises(StoreError, match=expected):
        enrol_in_process(folder)
    assert folder.run("verify")[0] == 1


def test_a_folder_made_incomplete_is_bound_by_its_first_use(tmp_path: Path) -> None:
    """Before anything leaves: there is no aggregator to answer here."""
    complete = make_folder(tmp_path, "127.0.0.1:1", people=PEOPLE)
    folder = Folder(tmp_path / "late")
    assert folder.run("init")[0] == 0
    (folder.path / "device.toml").write_text((complete.path / "device.toml").read_text())
    assert binding(folder) == {}
    assert folder.run("verify")[0] == 0
    assert folder.run("enroll", "--token", "token")[0] == 1  # not reached
    assert binding(folder) == binding(complete)
    renamed(folder, 'key = "id"', 'key = "email"')
    with pytest.raises(StoreError, match="members: expected"):
        enrol_in_process(folder)


def test_charges_without_a_binding_are_refused(aggregator: Any, tmp_path: Path) -> None:
    folder = make_folder(tmp_path, aggregator.server.address, people=PEOPLE)
    answered(aggregator, folder)
    file = DeviceHome(folder.path).ledgers()
    with file._file.transaction() as connection:
        connection.execute("DELETE FROM facts WHERE name LIKE 'bound.%'")
    file.close()
    code, failure, _ = folder.run("run", "--once")
    assert code == 1
    assert "got charges without it" in failure["failure"]["message"]
    code, result, _ = folder.run("verify")
    assert (code, len(result["violations"])) == (1, 1)


def binding(folder: Folder) -> dict[str, str]:
    file = DeviceHome(folder.path).ledgers()
    try:
        return dict(file.binding())
    finally:
        file.close()


def enrol_in_process(folder: Folder) -> None:
    """`device enroll` in this process, which is faster."""
    home = DeviceHome(folder.path)
    enroll(home, home.configuration, Namespace(token="token"))
