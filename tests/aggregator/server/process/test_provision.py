"""A site is provisioned in one command, unpacked, started, and answers a study."""

from __future__ import annotations

import errno
import json
import os
import resource
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from askance.cli.aggregator.provision import write_site
from askance.cli.output import Failure
from askance_aggregator.server.process.home import AggregatorHome
from askance_client.errors import StoreError
from tests.aggregator.server.process.conftest import PATIENCE_S, command, ran, serving
from tests.commands import OF_THE_DEVICE, run_command

FILES = {"device.toml", "people.toml", "ca.pem", "token", "askance-device@.service", "README.md"}
PEOPLE = 40
STUDY = """
learner = "frequency"
schema = "people.toml"
epsilon = "8"
purpose = "Who smokes."

[parameters]
column = "smokes"
tau = "0.4"
"""


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    path = tmp_path / "people.toml"
    path.write_text(
        'name = "people"\n[fields]\nsmokes = { type = "category", labels = ["no", "yes"] }\n'
    )
    return path


def words(home: AggregatorHome, schema: Path, *more: str | Path) -> tuple[str | Path, ...]:
    to = ("--config", home.configuration, "--schema", schema, "--life-epsilon", "8")
    return ("aggregator", "provision", "berlin", *to, "--devices", str(PEOPLE), *more)


def modes(folder: Path) -> dict[str, int]:
    return {one.name: stat.S_IMODE(one.stat().st_mode) for one in folder.iterdir()}


@pytest.mark.slow  # 8 s: two processes, and a study by the command line
def test_a_site_unpacks_starts_and_answers_a_study(
    tmp_path: Path, fresh: AggregatorHome, schema: Path
) -> None:
    out, site = tmp_path / "berlin.tar.gz", tmp_path / "site" / "berlin"
    study = tmp_path / "study.toml"
    study.write_text(STUDY)
    with serving(fresh) as served:
        to = ("--aggregator", served.address, "--records", "csv:people.csv", "--key", "id")
        made = ran(*words(fresh, schema, *to, "--out", out, "--json"))
        assert made.returncode == 0, made.stderr
        token = json.loads(made.stdout)["id"]
        assert stat.S_IMODE(out.stat().st_mode) == 0o600
        site.parent.mkdir()
        subprocess.run(["tar", "--extract", "--file", out, "--directory", site.parent], check=True)
        assert modes(site) == dict.fromkeys(FILES, 0o600)
        rows = [f"person {number},{'yes' if number % 2 else 'no'}" for number in range(PEOPLE)]
        (site / "people.csv").write_text("\n".join(["id,smokes", *rows, ""]))
        for step in ("init", "doctor"):
            done = run_command(OF_THE_DEVICE, (step, site))
            assert done.returncode == 0, f"{done.stdout}{done.stderr}"
        asked = ["--aggregator", served.address, "--key", str(fresh.analyst_key)]
        asked += ["--ca", str(fresh.authority), "--wait", "--json"]
        with subprocess.Popen(
            [sys.executable, "-m", "askance_client", "run", str(site)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stderr=subprocess.DEVNULL,
        ) as running:
            try:
                while ran("aggregator", "token", "list", *config(fresh)).stdout.count("full") < 1:
                    assert running.poll() is None
                done = subprocess.run(
                    command("study", "submit", study, *asked),
                    capture_output=True,
                    text=True,
                    timeout=PATIENCE_S,
                )
            finally:
                running.terminate()
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert 0 < result["answers"] <= PEOPLE
    listed = json.loads(ran("aggregator", "token", "list", "--json", *config(fresh)).stdout)
    assert [(one["id"], one["devices"]) for one in listed["tokens"]] == [(token, PEOPLE)]
    chosen = ("aggregator", "device", "list", "--tag", "site=berlin", "--json", *config(fresh))
    assert len(json.loads(ran(*chosen).stdout)["devices"]) == PEOPLE


def config(home: AggregatorHome) -> tuple[str | Path, ...]:
    return ("--config", home.configuration)


REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "no address": (("--records", "csv:a.csv", "--key", "id"), "--aggregator: expected how devices"),
    "no records": (("--aggregator", "a:1"), "records.data: expected a value, got none"),
    "no naming": (
        ("--aggregator", "a:1", "--records", "csv:a.csv"),
        "records.key: expected one of row",
    ),
    "two namings": (
        ("--aggregator", "a:1", "--records", "csv:a.csv", "--key", "id", "--row", "1"),
        "expected one of --row, --key",
    ),
    "a name with a slash": ((), "SITE: expected letters"),
    "a schema that the token would replace": (
        ("--aggregator", "a:1", "--records", "csv:a.csv", "--key", "id"),
        "--schema: expected a file named otherwise than the site's own",
    ),
}


def test_what_a_site_could_not_start_with_is_refused_and_no_token_is_made(
    tmp_path: Path, fresh: AggregatorHome, schema: Path
) -> None:
    for case, (more, message) in REFUSED.items():
        given = list(words(fresh, schema, *more, "--out", tmp_path / "berlin"))
        given[2] = "a/b" if "slash" in case else given[2]
        if "schema" in case:
            given[given.index(schema)] = schema.rename(tmp_path / "token")
        done = ran(*given)
        assert (done.returncode, message in done.stderr) == (2, True), f"{case}: {done.stderr}"
    assert not (tmp_path / "berlin").exists()
    assert "active" not in ran("aggregator", "token", "list", *config(fresh)).stdout


def unneeded() -> None:
    raise AssertionError("a token was kept")


@pytest.mark.parametrize("name", ["berlin", "berlin.tar.gz"])
def test_a_token_is_kept_when_the_site_is_in_place_and_a_failure_then_leaves_nothing(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also on a file system that has no hard links."""
    out, files, seen = tmp_path / "new" / name, {"token": b"a secret"}, list[list[str]]()

    def keep() -> None:
        seen.append([one.name for one in out.parent.iterdir()])
        if len(seen) == 1:
            raise StoreError("store: a full disk")

    def no_link(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_link)
    with pytest.raises(StoreError, match="a full disk"):
        write_site(out, "berlin", files, 1, keep)
    assert list(tmp_path.iterdir()) == []
    write_site(out, "berlin", files, 1, keep)
    assert seen == [[name], [name]], "a token was valid before its site was in place"
    with pytest.raises(Failure, match=f"{name}: cannot be made: "):
        write_site(out, "berlin", files, 1, unneeded)
    assert [one.name for one in out.parent.iterdir()] == [name]


@pytest.mark.parametrize("name", ["berlin", "berlin.tar.gz"])
def test_a_disk_that_fails_leaves_no_part_of_a_site(tmp_path: Path, name: str) -> None:
    """Let each write fail, before it has made anything or with half of a file written."""
    files = {"token": b"a secret", "device.toml": b"x = 1"}
    writes = 1 if name.endswith(".gz") else len(files)
    for failing in range(writes):
        for half in (False, True):
            count = iter(range(writes))

            def write(path: Path, data: bytes) -> None:
                if next(count) == failing:  # noqa: B023  # called now
                    if half:  # noqa: B023
                        path.write_bytes(data[:1])
                    raise OSError(errno.ENOSPC, "No space left on device")
                path.write_bytes(data)

            with pytest.raises(Failure, match=f"{name}: cannot be made: No space left on device"):
                write_site(tmp_path / "new" / "sites" / name, "berlin", files, 1, unneeded, write)
            assert list(tmp_path.iterdir()) == []
    (tmp_path / name).mkdir()
    (tmp_path / name / "another's").touch()
    with pytest.raises(Failure, match="cannot be made: "):
        write_site(tmp_path / name, "berlin", files, 1, unneeded)
    assert [one.name for one in tmp_path.iterdir()] == [name]


def test_an_archive_that_came_meanwhile_is_not_written_over(tmp_path: Path) -> None:
    out = tmp_path / "berlin.tar.gz"
    out.write_bytes(b"another's")
    with pytest.raises(Failure, match="cannot be made: File exists"):
        write_site(out, "berlin", {"token": b"a secret"}, 1, unneeded)
    assert out.read_bytes() == b"another's"
    assert [one.name for one in tmp_path.iterdir()] == [out.name]


def test_files_of_an_archive_are_for_their_owner_only(tmp_path: Path) -> None:
    out = tmp_path / "berlin.tar.gz"
    write_site(out, "berlin", {"token": b"a secret"}, 1, lambda: None)
    with tarfile.open(out) as archive:
        found = {entry.name: entry.mode for entry in archive}
    assert found == {"berlin": 0o700, "berlin/token": 0o600}
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_a_site_that_cannot_be_written_has_no_token(
    tmp_path: Path, fresh: AggregatorHome, schema: Path
) -> None:
    """The operating system refuses a file of more than 2 MiB."""
    with schema.open("a") as file:
        file.write("# " + "x" * (3 << 20))
    more = ("--aggregator", "a:1", "--records", "csv:a.csv", "--key", "id")
    out = tmp_path / "sites" / "berlin"
    done = subprocess.run(
        command(*words(fresh, schema, *more, "--out", out)),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, 2 << 20)),
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "sites/berlin: cannot be made: File too large" in done.stderr
    assert not out.parent.exists()
    listed = json.loads(ran("aggregator", "token", "list", "--json", *config(fresh)).stdout)
    assert listed["tokens"] == []
    shown = ran("aggregator", "audit", "show", *config(fresh)).stdout
    assert "failed: bad-input" in shown


def test_a_folder_is_for_its_owner_only_and_is_never_written_over(
    tmp_path: Path, fresh: AggregatorHome, schema: Path
) -> None:
    out = tmp_path / "berlin"
    more = (
        "--aggregator",
        "ask.example.org:7443",
        "--records",
        "csv:/srv/people.csv",
        "--key",
        "id",
    )
    assert ran(*words(fresh, schema, *more, "--out", out)).returncode == 0
    assert (modes(out), stat.S_IMODE(out.stat().st_mode)) == (dict.fromkeys(FILES, 0o600), 0o700)
    text = (out / "device.toml").read_text()
    for line in ('data = "/srv/people.csv"', 'ca = "ca.pem"', 'token_file = "token"'):
        assert line in text.split("\n")
    assert f'analysts = ["{fresh.analyst.hex()}"]' in text
    again = ran(*words(fresh, schema, *more, "--out", out))
    assert (again.returncode, "got one that exists" in again.stderr) == (2, True)
    assert (out / "device.toml").read_text() == text
