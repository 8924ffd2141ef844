"""`aggregator doctor`: each thing that can be wrong is found, with one line of help."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509

from askance.cli import main
from askance_aggregator.clock import system_now_s
from askance_aggregator.server.process.configuration import Configuration, read_configuration
from askance_aggregator.server.process.doctor import CHECKS, CheckResult, CheckState, examine
from askance_aggregator.server.process.home import AggregatorHome
from askance_aggregator.store.migrations import KIND
from askance_client.addresses import Address
from tests.aggregator.server.process.conftest import command, made, serving
from tests.postgresql import PostgresqlServer

DAY = 86_400
ENOUGH = 1_000_000


def results(
    home: AggregatorHome,
    *,
    now_s: Callable[[], float] = time.time,
    descriptors: int | None = ENOUGH,
    change: Callable[[Configuration], Configuration] = lambda read: read,
) -> dict[str, CheckResult]:
    """The results by check, each of one line, with help exactly where it is not ok."""
    found = examine(
        home.configuration,
        lambda: change(read_configuration(home.configuration)),
        now_s=now_s,
        descriptors=descriptors,
        monotonic_s=lambda: 0.0,  # a disk that is never slow, whatever else the machine does
    )
    for result in found:
        assert "\n" not in result.text + result.help
        assert bool(result.help) is (result.state is not CheckState.OK), result
    return {result.check: result for result in found}


def wrong(found: dict[str, CheckResult]) -> dict[str, str]:
    return {name: one.state.value for name, one in found.items() if one.state is not CheckState.OK}


def edit(home: AggregatorHome, before: str, after: str) -> None:
    text = home.configuration.read_text()
    assert before in text
    home.configuration.write_text(text.replace(before, after))


@pytest.fixture
def on_postgresql(fresh: AggregatorHome, postgresql: PostgresqlServer) -> AggregatorHome:
    url = postgresql.new_database()
    edit(fresh, 'store = "sqlite:///store.sqlite"', f'store = "{url}"')
    return fresh


def test_a_new_folder_is_in_order_and_nothing_in_it_changes(fresh: AggregatorHome) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in fresh.folder.iterdir()}
    found = results(fresh)
    assert found.keys() == {"configuration", *CHECKS} - {"telemetry", "webhooks"}  # it has none
    assert wrong(found) == {}
    assert {path.name: path.stat().st_mtime_ns for path in fresh.folder.iterdir()} == before


def test_a_configuration_that_cannot_be_read_is_the_only_result(fresh: AggregatorHome) -> None:
    edit(fresh, "open_studies = 64", "open_studies = 0")
    found = results(fresh)
    assert wrong(found) == {"configuration": "fail"}
    assert found.keys() == {"configuration"}
    assert "open_studies" in found["configuration"].text


@pytest.mark.parametrize(("mode", "state"), [(0o640, "warn"), (0o604, "fail"), (0o660, "fail")])
@pytest.mark.parametrize("name", ["server.key", "enrolment.key", "store.sqlite"])
def test_a_secret_of_others_is_found(
    fresh: AggregatorHome, name: str, mode: int, state: str
) -> None:
    path = fresh.folder / name
    path.chmod(mode)
    found = results(fresh)
    assert wrong(found) == {"secrets": state}
    assert found["secrets"].help.startswith(f"chmod 600 {path}")
    assert f"got {mode:04o}" in found["secrets"].text


def test_a_missing_secret_is_found(fresh: AggregatorHome) -> None:
    (fresh.folder / "enrolment.key").unlink()
    assert wrong(results(fresh)) == {"secrets": "fail", "enrolment": "fail"}


def test_an_enrolment_key_that_was_cut_is_found(fresh: AggregatorHome) -> None:
    os.truncate(fresh.folder / "enrolment.key", 7)
    assert "7 bytes" in results(fresh)["enrolment"].text


@contextmanager
def small_disk(folder: Path, *options: str) -> Iterator[None]:
    """A file system of its own, of 1 MiB, at a folder."""
    words = ["mount", "-t", "tmpfs", "-o", ",".join(("size=1m", "mode=0700", *options)), "tmpfs"]
    if shutil.which("mount") is None or subprocess.run([*words, folder]).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_found(fresh: AggregatorHome, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    with small_disk(disk):
        shutil.copy(fresh.folder / "store.sqlite", disk)
        edit(fresh, "sqlite:///store.sqlite", f"sqlite:///{disk}/store.sqlite")
        assert wrong(results(fresh)) == {"disk": "fail"}
        with pytest.raises(OSError, match="No space left on device"):
            (disk / "filler").write_bytes(bytes(2 << 20))
        found = results(fresh)
        assert wrong(found) == {"disk": "fail", "fsync": "fail"}
        assert "No space left on device" in found["fsync"].text
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        found = results(fresh)
        assert wrong(found) == {"disk": "fail", "fsync": "fail", "rights": "fail"}
        assert "Read-only file system" in found["fsync"].text
        assert "to write" in found["rights"].text


def test_a_slow_disk_is_found(fresh: AggregatorHome) -> None:
    ticks = iter(range(100))
    found = examine(
        fresh.configuration,
        lambda: read_configuration(fresh.configuration),
        now_s=time.time,
        descriptors=ENOUGH,
        monotonic_s=lambda: float(next(ticks)),
    )
    assert {one.check for one in found if one.state is CheckState.WARN} == {"fsync"}


@pytest.mark.parametrize(
    ("descriptors", "state"), [(None, "ok"), (120_256, "ok"), (120_255, "warn"), (300, "fail")]
)
def test_too_few_descriptors_are_found(
    fresh: AggregatorHome, descriptors: int | None, state: str
) -> None:
    found = results(fresh, descriptors=descriptors)
    assert found["descriptors"].state.value == state


@pytest.mark.parametrize(
    ("age_days", "state", "text"),
    [(826, "fail", "ended on"), (800, "warn", "ends on"), (-2, "fail", "not valid before")],
)
def test_a_certificate_past_its_dates_is_found(
    tmp_path: Path, age_days: int, state: str, text: str
) -> None:
    home = made(tmp_path / "aggregator", now_s=system_now_s() - age_days * DAY)
    found = results(home)
    assert wrong(found) == {"certificate": state}
    assert text in found["certificate"].text


def test_a_certificate_that_is_none_and_a_key_of_another_are_found(
    fresh: AggregatorHome, tmp_path: Path
) -> None:
    other = made(tmp_path / "other", now_s=system_now_s())
    shutil.copy(other.folder / "server.key", fresh.folder / "server.key")
    assert "got another" in results(fresh)["key"].text
    assert wrong(results(fresh)) == {"key": "fail"}
    (fresh.folder / "server.pem").write_text("no certificate")
    assert wrong(results(fresh)) == {"certificate": "fail", "key": "fail", "names": "fail"}


@pytest.mark.parametrize(
    ("hosts", "listen", "state"),
    [
        ((), "192.0.2.7", "fail"),
        (("ask.example.org",), "192.0.2.7", "warn"),
        (("192.0.2.7",), "192.0.2.7", "ok"),
        (("ask.example.org",), "ASK.example.org", "ok"),
        (("ask.example.org",), "0.0.0.0", "ok"),
        ((), "0.0.0.0", "warn"),
        (("2001:db8::1",), "2001:db8:0::1", "ok"),
    ],
)
def test_names_that_the_certificate_lacks_are_found(
    tmp_path: Path, hosts: tuple[str, ...], listen: str, state: str
) -> None:
    home = made(tmp_path / "aggregator", *hosts, now_s=system_now_s())
    found = results(home, change=lambda read: replace(read, listen=Address(listen, 0)))
    assert found["names"].state.value == state


@pytest.mark.parametrize(
    ("advertised", "state"), [("ask.example.org", "ok"), ("devices.example.org", "fail")]
)
def test_the_certificate_names_the_advertised_host(
    tmp_path: Path, advertised: str, state: str
) -> None:
    home = made(tmp_path / "aggregator", "ask.example.org", now_s=system_now_s())

    def change(read: Configuration) -> Configuration:
        assert read.tls is not None
        devices = replace(read.tls.devices, advertised=Address(advertised, 7445))
        listen = Address("ask.example.org", 0)
        return replace(read, listen=listen, tls=replace(read.tls, devices=devices))

    assert results(home, change=change)["names"].state.value == state


@pytest.mark.parametrize(
    ("listen", "state"), [("127.0.0.1", "ok"), ("0.0.0.0", "warn"), ("192.0.2.7", "warn")]
)
def test_plain_text_that_leaves_the_machine_is_found(
    fresh: AggregatorHome, listen: str, state: str
) -> None:
    found = results(
        fresh,
        change=lambda read: replace(read, tls=None, plaintext=True, listen=Address(listen, 0)),
    )
    assert found["certificate"].state.value == state
    assert "key" not in found
    assert "names" not in found


@pytest.fixture
def another() -> Iterator[Address]:
    """The address of a program that is no aggregator: it speaks HTTP and has no pages."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Address("127.0.0.1", server.server_port)
        server.shutdown()
        thread.join()


def test_a_port_of_another_program_is_found(fresh: AggregatorHome, another: Address) -> None:
    found = results(
        fresh, change=lambda read: replace(read, listen=another, metrics=Address("127.0.0.1", 0))
    )
    assert wrong(found) == {"port": "fail"}
    assert found["port"].text == f"{another} is held by another program"


def test_a_metrics_port_of_another_program_is_found(
    fresh: AggregatorHome, another: Address
) -> None:
    found = results(fresh, change=lambda read: replace(read, metrics=another))
    assert wrong(found) == {"metrics port": "fail"}


def test_a_devices_port_of_another_program_is_found(
    fresh: AggregatorHome, another: Address
) -> None:
    def change(read: Configuration) -> Configuration:
        assert read.tls is not None
        return replace(
            read, tls=replace(read.tls, devices=replace(read.tls.devices, listen=another))
        )

    found = results(fresh, change=change)
    assert wrong(found) == {"devices' port": "fail"}
    assert found["devices' port"].text == f"{another} is held by another program"


def test_a_devices_authority_that_is_missing_or_ends_is_found(fresh: AggregatorHome) -> None:
    (fresh.folder / "devices-ca.pem").rename(fresh.folder / "moved.pem")
    assert wrong(results(fresh)) == {"devices' authority": "fail"}
    (fresh.folder / "moved.pem").rename(fresh.folder / "devices-ca.pem")
    (end,) = x509.load_pem_x509_certificates((fresh.folder / "devices-ca.pem").read_bytes())
    soon_s = end.not_valid_after_utc.timestamp() - 29 * 86_400
    found = results(fresh, now_s=lambda: soon_s)
    assert found["devices' authority"].state is CheckState.FAIL
    assert "before the certificates that it signs" in found["devices' authority"].text


def test_an_address_of_another_machine_is_found(fresh: AggregatorHome) -> None:
    address = Address("192.0.2.7", 7443)
    found = results(fresh, change=lambda read: replace(read, listen=address))
    assert found["port"].state is CheckState.FAIL
    assert "Cannot assign requested address" in found["port"].text


def test_beside_a_running_aggregator_all_is_in_order(fresh: AggregatorHome) -> None:
    with serving(fresh) as served:
        listen, metrics = Address.of(served.address), Address.of(served.ready["metrics"])
        found = results(fresh, change=lambda read: replace(read, listen=listen, metrics=metrics))
        assert wrong(found) == {}
        assert found["port"].text == f"{listen} is held by an aggregator that serves"
        assert found["metrics port"].text == f"{metrics} is held by an aggregator"
        assert "in use by an aggregator" in found["store"].text


def store_of(home: AggregatorHome) -> sqlite3.Connection:
    return sqlite3.connect(home.folder / "store.sqlite", isolation_level=None)


@pytest.mark.parametrize(("steps", "state"), [(-1, "warn"), (1, "fail")])
def test_a_sqlite_schema_of_another_version_is_found(
    fresh: AggregatorHome, steps: int, state: str
) -> None:
    """An older one is brought up to date by the next start; a newer one is refused by it."""
    with closing(store_of(fresh)) as opened:
        opened.execute(f"PRAGMA user_version={KIND.version + steps}")
    found = results(fresh)
    assert wrong(found) == {"schema": state}
    assert f"got {KIND.version + steps}" in found["schema"].text


def test_a_store_that_is_none_is_found(fresh: AggregatorHome) -> None:
    with closing(store_of(fresh)) as opened:
        opened.execute("PRAGMA application_id=7")
    assert wrong(results(fresh)) == {"store": "fail"}
    (fresh.folder / "store.sqlite").write_bytes(b"no store")
    assert wrong(results(fresh)) == {"store": "fail"}
    (fresh.folder / "store.sqlite").unlink()
    assert wrong(results(fresh)) == {"secrets": "fail", "store": "fail"}


def test_a_clock_that_was_set_back_is_found(fresh: AggregatorHome) -> None:
    found = results(fresh, now_s=lambda: time.time() - 600)
    assert found["clock"].state is CheckState.FAIL
    assert "before the store's last change" in found["clock"].text
    assert results(fresh, now_s=lambda: 3.0)["clock"].text == (
        "expected a date after 2024, got 1970-01-01T00:00:03Z"
    )


def test_a_database_without_schema_is_found_until_it_is_migrated(
    on_postgresql: AggregatorHome,
) -> None:
    found = results(on_postgresql)
    assert wrong(found) == {"schema": "fail"}
    assert found["schema"].help == "run: askance aggregator migrate"
    assert main(["aggregator", "migrate", "--config", str(on_postgresql.configuration)]) == 0
    found = results(on_postgresql)
    assert wrong(found) == {}
    assert f": PostgreSQL {_server_version(on_postgresql)}" in found["store"].text
    assert "disk" not in found


def _server_version(home: AggregatorHome) -> str:
    return read_configuration(home.configuration).store.inspect(time.time).engine.split()[1]


@pytest.mark.parametrize("by", [-1, 1])
def test_a_database_schema_of_another_version_is_found(
    on_postgresql: AggregatorHome, postgresql: PostgresqlServer, by: int
) -> None:
    main(["aggregator", "migrate", "--config", str(on_postgresql.configuration)])
    database = _database(on_postgresql)
    change = "DELETE FROM askance.schema_steps WHERE number = (SELECT max(number) FROM steps)"
    if by > 0:
        change = "INSERT INTO askance.schema_steps (number) SELECT max(number) + 1 FROM steps"
    postgresql.execute(
        f"WITH steps AS (SELECT number FROM askance.schema_steps) {change}", database
    )
    found = results(on_postgresql)
    assert wrong(found) == {"schema": "fail"}
    assert ("migrate" in found["schema"].help) is (by < 0)


def _database(home: AggregatorHome) -> str:
    store = str(read_configuration(home.configuration).store)
    return store.partition("@/")[2].partition("?")[0]


def test_a_role_without_rights_is_found(
    on_postgresql: AggregatorHome, postgresql: PostgresqlServer
) -> None:
    database = _database(on_postgresql)
    role = f"weak_{database}"
    postgresql.execute(f"CREATE ROLE {role} LOGIN")
    edit(on_postgresql, "postgresql://askance@/", f"postgresql://{role}@/")
    found = results(on_postgresql)
    assert wrong(found) == {"rights": "fail"}
    assert found["rights"].text == "missing: CREATE on the database"
    own = replace_store(on_postgresql, postgresql.url(database))
    assert main(["aggregator", "migrate", "--config", str(own)]) == 0
    found = results(on_postgresql)
    assert wrong(found) == {"rights": "fail"}
    assert "USAGE on the schema askance; CREATE on the schema askance" in found["rights"].text
    postgresql.execute(f"GRANT ALL ON SCHEMA askance TO {role}", database)
    postgresql.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA askance TO {role}", database)
    found = results(on_postgresql)
    assert found["rights"].text.startswith("missing: ownership of approvals, audit, called_days")
    postgresql.execute(f"GRANT askance TO {role}")
    assert wrong(results(on_postgresql)) == {}
    postgresql.execute(f"ALTER ROLE {role} NOLOGIN")
    found = results(on_postgresql)
    assert wrong(found) == {"store": "fail"}
    assert "not permitted to log in" in found["store"].text


def replace_store(home: AggregatorHome, url: str) -> Path:
    """A configuration beside the folder's, with another address of the store."""
    path = home.folder / "own.toml"
    lines = home.configuration.read_text().splitlines()
    place = next(place for place, line in enumerate(lines) if line.startswith("store = "))
    lines[place] = f'store = "{url}"'
    path.write_text("\n".join(lines))
    return path


def test_a_database_that_is_gone_or_loses_commits_is_found(
    on_postgresql: AggregatorHome, postgresql: PostgresqlServer
) -> None:
    main(["aggregator", "migrate", "--config", str(on_postgresql.configuration)])
    with postgresql.set_to("full_page_writes", "off"):
        found = results(on_postgresql)
    assert wrong(found) == {"store": "fail"}
    assert "expected full_page_writes = on, got off" in found["store"].text
    edit(on_postgresql, "host=", "host=/nowhere")
    assert wrong(results(on_postgresql)) == {"store": "fail"}


@pytest.mark.parametrize(
    ("behind_s", "state"), [(0.0, "ok"), (5.0, "warn"), (60.0, "fail"), (-60.0, "fail")]
)
def test_a_clock_that_differs_from_the_databases_is_found(
    on_postgresql: AggregatorHome, behind_s: float, state: str
) -> None:
    found = results(on_postgresql, now_s=lambda: time.time() - behind_s)
    assert found["clock"].state.value == state


def test_the_command_prints_lines_and_exits_with_1_if_a_check_fails(
    fresh: AggregatorHome, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["aggregator", "doctor", "--config", str(fresh.configuration)]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"ok    configuration: {fresh.configuration}"
    (fresh.folder / "server.key").chmod(0o644)
    assert main(words) == 1
    lines = capsys.readouterr().out.splitlines()
    (place,) = (place for place, line in enumerate(lines) if line.startswith("fail"))
    assert lines[place + 1] == f"      chmod 600 {fresh.folder / 'server.key'}"
    assert main([*words, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is False
    assert [one["check"] for one in told["checks"] if one["state"] == "fail"] == ["secrets"]


def test_the_limit_of_the_process_is_the_one_that_is_checked(fresh: AggregatorHome) -> None:
    done = subprocess.run(
        [
            *("sh", "-c", 'ulimit -n 300 && exec "$@"', "sh"),
            *command("aggregator", "doctor", "--config", fresh.configuration, "--json"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1, done.stderr
    failing = [one for one in json.loads(done.stdout)["checks"] if one["state"] == "fail"]
    assert [one["check"] for one in failing] == ["descriptors"]
    assert "got 300" in failing[0]["text"]


@pytest.mark.parametrize(
    ("secret", "state"),
    [("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", None), ("MfKQ9r8GKYqrTwjUPD8ILPZI", "fail")],
)
def test_files_of_webhooks_are_read(fresh: AggregatorHome, secret: str, state: str | None) -> None:
    (fresh.folder / "secret").touch(0o600)
    (fresh.folder / "secret").write_text(secret)
    with fresh.configuration.open("a") as file:
        file.write('[[webhooks]]\nname = "a"\nurl = "https://a.example/"\nsecret = "secret"\n')
    found = results(fresh)
    assert wrong(found).get("webhooks") == state
    assert secret not in found["webhooks"].text
