"""Commands of a device's owner: make a device once, and show its spending."""

import json
import stat
from pathlib import Path

import pytest

from askance_client.cli.device import main
from askance_client.cli.home import DeviceHome
from askance_client.cli.report import tell_status
from askance_client.errors import StoreError
from askance_client.ledger import Charge, Limits


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, object], str]:
    code = main([*words, "--json"])
    printed = capsys.readouterr()
    return code, json.loads(printed.out), printed.err


def test_a_system_without_posix_is_refused_in_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("os.name", "nt")
        code = main(["status", "device"])
    assert (code, capsys.readouterr().err) == (
        1,
        "askance: expected Linux or macOS, got nt: files and sockets of a device need POSIX\n",
    )


def test_a_new_device_has_an_identity_of_its_own_and_an_empty_ledger(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, made, _ = run(capsys, "init", str(tmp_path / "one"))
    assert code == 0
    _, other, _ = run(capsys, "init", str(tmp_path / "two"))
    assert made["device_id"] != other["device_id"]
    code, status, _ = run(capsys, "status", str(tmp_path / "one"))
    assert code == 0
    assert status == {
        "device_id": made["device_id"],
        "members": 0,
        "spent_nano_nats": 0,
        "answers": 0,
        "studies": 0,
        "running": False,
        "waiting": [],
    }


@pytest.mark.parametrize(
    ("answers", "studies", "told"),
    [(1, 1, "1 answer to 1 study"), (500, 1, "500 answers to 1 study"), (0, 0, "0 studies")],
)
def test_a_status_counts_in_plain_words(answers: int, studies: int, told: str) -> None:
    result = {"device_id": "ab", "members": 1, "spent_nano_nats": 0, "waiting": []}
    assert tell_status(result | {"answers": answers, "studies": studies}).endswith(told)


def test_only_the_owner_can_read_what_was_made(tmp_path: Path) -> None:
    DeviceHome.create(tmp_path / "one", "")
    for name in ("identity.json", "ledger.sqlite", "device.toml"):
        mode = stat.S_IMODE((tmp_path / "one" / name).stat().st_mode)
        assert mode & 0o077 == 0, name


def test_a_device_is_never_made_over_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = DeviceHome.create(tmp_path, "").secret()
    code, failure, err = run(capsys, "init", str(tmp_path))
    assert code == 1
    assert "failure" in failure
    assert err.count("\n") == 1
    assert DeviceHome(tmp_path).secret() == first


def test_a_configuration_that_is_there_is_kept_for_a_device_that_is_made_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A site's folder has the operator's settings; an option beside them would be dropped."""
    (tmp_path / "people.toml").write_text('[fields]\nsmokes = { type = "bit" }\n')
    (tmp_path / "people.csv").write_text("id,smokes\na,1\n")
    text = (
        f'aggregator = "127.0.0.1:1"\n[policy]\nanalysts = ["{"ab" * 32}"]\nlife_epsilon = "1"\n'
        '[records]\nschema = "people.toml"\ndata = "people.csv"\nkey = "id"\n'
    )
    (tmp_path / "device.toml").write_text(text)
    code, failure, _ = run(capsys, "init", str(tmp_path), "--life-epsilon", "2")
    assert (code, "expected no option beside" in str(failure)) == (2, True)
    code, made, _ = run(capsys, "init", str(tmp_path))
    assert (code, made["complete"]) == (0, True)
    assert run(capsys, "init", str(tmp_path))[0] == 1
    assert (tmp_path / "device.toml").read_text() == text
    file = DeviceHome(tmp_path).ledgers()
    assert file.binding()["members"] == "key = 'id'"
    file.close()


def test_a_ledger_without_its_identity_is_not_made_over_either(tmp_path: Path) -> None:
    DeviceHome.create(tmp_path, "")
    (tmp_path / "identity.json").unlink()
    (tmp_path / "device.toml").unlink()
    with pytest.raises(StoreError, match="expected no file there yet"):
        DeviceHome.create(tmp_path, "")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"secret": "zz"}', '{"secret": "00"}'])
def test_a_damaged_identity_is_one_clear_error(tmp_path: Path, text: str) -> None:
    home = DeviceHome.create(tmp_path, "")
    (tmp_path / "identity.json").write_text(text)
    with pytest.raises(StoreError, match="identity"):
        home.secret()


def test_status_and_history_tell_what_was_spent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = DeviceHome.create(tmp_path, "").ledgers()
    charge = Charge(b"r" * 32, b"s" * 32, b"q" * 32, 20_000 * 86_400, 500_000_000, b"\1")
    file.ledger().commit(charge, Limits(10**9, 10**9, 10**9), lambda symbol, *_: symbol)
    file.close()
    _, status, _ = run(capsys, "status", str(tmp_path))
    assert (status["spent_nano_nats"], status["answers"]) == (500_000_000, 1)
    _, history, _ = run(capsys, "history", str(tmp_path))
    assert history["entries"] == [
        {
            "sequence": 1,
            "kind": "answer",
            "time": "2024-10-04T00:00:00Z",
            "day": 20_000,
            "nano_nats": 500_000_000,
            "study": (b"s" * 32).hex(),
            "request": (b"r" * 32).hex(),
            "purpose": None,
            "learner": None,
            "question": "not kept (answered before payloads were kept)",
            "answer": "01",
            "analysts": [],
        }
    ]
    assert main(["history", str(tmp_path)]) == 0
    assert "0.5" in capsys.readouterr().out


def test_a_missing_ledger_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, failure, err = run(capsys, "status", str(tmp_path / "nobody"))
    assert code == 1
    assert "found no file" in err
    assert "failure" in failure


def test_records_that_cannot_be_read_are_told_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "people.toml").write_text('[fields]\nsmokes = { type = "bit" }\n')
    (tmp_path / "people.csv").write_text("id,smokes\na,1\n")
    words = ("--aggregator", "127.0.0.1:1", "--analyst", "ab" * 32, "--life-epsilon", "1")
    files = ("--schema", str(tmp_path / "people.toml"), "--data", str(tmp_path / "people.csv"))
    made = str(tmp_path / "device")
    code, failure, _ = run(capsys, "init", made, *words, *files, "--key", "name")
    assert code == 2
    assert "expected a column 'name'" in str(failure)
    assert not Path(made).exists()
    assert run(capsys, "init", made, *words, *files, "--key", "id")[0] == 0
