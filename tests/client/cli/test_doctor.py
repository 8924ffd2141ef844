"""`device doctor`: each thing that can be wrong is found, with one line of help."""

from __future__ import annotations

import asyncio
import datetime
import json
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import NameOID

from askance_aggregator.server.process.certificates import devices_authority
from askance_aggregator.store import CertificateHolder
from askance_client.addresses import Address
from askance_client.cli.device import main
from askance_client.cli.doctor import examine
from askance_client.cli.home import DeviceHome
from askance_client.ledger import Charge, Limits
from askance_client.owner import ControlServer
from askance_client.service import system_now_s
from tests.aggregator.server.certified_service import authority_of
from tests.aggregator.server.devices.test_certification import FIRST, World, request_of

SCHEMA = '[fields]\nsmokes = { type = "bit" }\n'
DAY = 86_400


class Certificate(NamedTuple):
    """A self-signed certificate of 127.0.0.1, and its key."""

    path: Path
    key: Path


def certificate(folder: Path, days: int = 365) -> Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(end - datetime.timedelta(days=400))
        .not_valid_after(end)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pair = Certificate(folder / f"{days}.pem", folder / f"{days}.key")
    pair.path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    pair.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return pair


CLOSED = "127.0.0.1:1"  # where nothing listens


@contextmanager
def listening(pair: Certificate | None = None) -> Iterator[int]:
    """A port that takes connections, with TLS if there is a certificate."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        ended = threading.Event()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if pair is not None:
            context.load_cert_chain(pair.path, pair.key)

        def serve() -> None:
            while not ended.is_set():
                try:
                    connected, _ = server.accept()
                except TimeoutError:
                    continue
                with connected:
                    if pair is not None:
                        with suppress(OSError):  # a client that does not believe it
                            context.wrap_socket(connected, server_side=True).close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            ended.set()
            thread.join()


class Folder:
    """A device's folder with everything in order but the aggregator's port."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.home = DeviceHome.create(path, "")
        (path / "people.toml").write_text(SCHEMA)
        (path / "people.csv").write_text("id,smokes\na,1\nb,0\n")
        self.configure(1)

    def configure(self, port: int, ca: Path | None = None, data: str = "people.csv") -> None:
        lines = [f'aggregator = "127.0.0.1:{port}"', f'ca = "{ca}"' if ca else ""]
        lines += ["[policy]", f'analysts = ["{"ab" * 32}"]', 'life_epsilon = "1"', "[records]"]
        lines += ['schema = "people.toml"', f'data = "{data}"', 'key = "id"']
        self.home.configuration.write_text("\n".join(lines))

    def failures(self, now_s: int | None = None) -> dict[str, tuple[str, str]]:
        """Text and help of the checks that failed, by name."""
        now = system_now_s() if now_s is None else now_s
        found = examine(self.home, self.home.configuration, lambda: now)
        wrong = {
            item["check"]: (item["text"], item["help"])
            for item in found["checks"]
            if not item["ok"]
        }
        assert found["ok"] is (not wrong)
        for item in found["checks"]:
            assert "\n" not in item["text"] + item["help"]
            assert bool(item["help"]) is not item["ok"]
        return wrong


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "device")


def test_a_folder_in_order_has_no_failure(
    folder: Folder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = certificate(tmp_path)
    with listening(pair) as port:
        folder.configure(port, pair.path)
        assert folder.failures() == {}
        assert main(["doctor", str(folder.path)]) == 0
        assert capsys.readouterr().out.count("ok  ") == 10
    with listening() as port:
        folder.configure(port)
        assert folder.failures() == {}


def test_a_failure_is_an_exit_code_and_a_line_of_help(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", str(folder.path), "--json"]) == 1
    (wrong,) = [found for found in json.loads(capsys.readouterr().out)["checks"] if not found["ok"]]
    assert wrong["check"] == "aggregator"
    assert "check the address" in wrong["help"]


@pytest.mark.parametrize("name", ["identity.json", "ledger.sqlite", "ledger.sqlite.mark", "."])
def test_rights_of_other_users_are_found(folder: Folder, name: str) -> None:
    (folder.path / name).chmod(0o755)
    text, advice = folder.failures()["folder"]
    assert "0755" in text
    assert advice.startswith("chmod go-rwx")


def test_a_folder_that_is_not_there_is_found(tmp_path: Path) -> None:
    found = examine(DeviceHome(tmp_path / "none"), tmp_path / "none" / "device.toml")
    (only,) = found["checks"]  # each other check would fail for the same reason
    assert (only["check"], only["ok"]) == ("folder", False)
    assert only["help"] == "make one with `device init`"


def test_a_full_disk_is_found(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(folder.path)._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert folder.failures()["disk"][0] == "expected 64 MiB free, got 1 MiB"


def test_a_wrong_configuration_or_record_file_is_found(folder: Folder) -> None:
    folder.configure(1, data="gone.csv")
    assert "records" in folder.failures()
    folder.configure(1)
    (folder.path / "people.csv").write_text("id,smokes\na,1\nb\n")
    text, _ = folder.failures()["records"]
    assert text.startswith("1 member; ")
    (folder.path / "people.csv").write_text("id,smokes\na,1\nb,\n")
    assert "records" not in folder.failures()
    (folder.path / "people.toml").write_text(SCHEMA.replace(" }", ", required = true }"))
    assert folder.failures()["records"][0] == (
        "2 members; not all have smokes, which the schema requires"
    )
    (folder.path / "people.toml").write_text('[fields]\n"a b" = { type = "bit" }\n')
    (folder.path / "people.csv").write_text("id,a b,a_b\na,1,0\n")
    assert folder.failures()["records"] == (
        "the field a_b is read from the column 'a_b', and 'a b' would be it, too",
        'state the column: a_b = "a_b" in [records.fields]',
    )
    folder.home.configuration.open("a").write('\n[records.fields]\na_b = "a b"\n')
    assert "records" not in folder.failures()
    folder.configure(1)
    for header in ("id,a b,other", "id,a_b,other"):
        (folder.path / "people.csv").write_text(f"{header}\na,1,0\n")
        assert "records" not in folder.failures()
    folder.home.configuration.write_text("aggregator = 1")
    assert set(folder.failures()) == {"configuration"}


def test_a_ledger_of_other_records_or_without_its_mark_is_found(folder: Folder) -> None:
    folder.home.bound({"members": "row = 0", "schema": "other"}).close()
    assert "to which the ledger is bound" in folder.failures()["ledger"][0]
    (folder.path / "ledger.sqlite.mark").unlink()
    assert "mark" in folder.failures()["ledger"][0]


def test_a_clock_before_the_last_charge_is_found(folder: Folder) -> None:
    now_s = system_now_s()
    file = folder.home.ledgers()
    charge = Charge(b"r" * 32, b"s" * 32, b"q" * 32, now_s, 5, b"\1")
    file.bind({"members": "key = 'id'", "schema": "x"})
    file.ledger("a").commit(charge, Limits(10, 10, 10), lambda symbol, *_: symbol)
    file.close()
    assert "clock" not in folder.failures(now_s)
    assert "before the last charge" in folder.failures(now_s - 2)["clock"][0]
    assert "2024" in folder.failures(0)["clock"][0]


def test_a_certificate_that_ends_soon_or_is_none_is_found(folder: Folder, tmp_path: Path) -> None:
    pair = certificate(tmp_path, days=20)
    with listening(pair) as port:
        folder.configure(port, pair.path)
        wrong = folder.failures()
    assert set(wrong) == {"certificate", "aggregator"}
    assert " ends on " in wrong["certificate"][0]
    assert " ended on " in folder.failures(system_now_s() + 21 * DAY)["certificate"][0]
    (tmp_path / "bad.pem").write_text("no certificate")
    folder.configure(1, tmp_path / "bad.pem")
    assert "got other bytes" in folder.failures()["certificate"][0]


def test_a_failure_names_the_file_and_is_not_blamed_on_what_depends_on_it(
    folder: Folder, tmp_path: Path
) -> None:
    """Before, it was "No such file or directory", and advice about the address, ledger or clock."""
    folder.configure(1, tmp_path / "gone.pem", data="gone.csv")
    wrong = folder.failures()
    assert set(wrong) == {"records", "ledger", "certificate", "aggregator"}
    assert wrong["certificate"][0] == f"{tmp_path / 'gone.pem'}: No such file or directory"
    assert f"not tried, because {tmp_path / 'gone.pem'}" in wrong["aggregator"][0]
    assert wrong["aggregator"][1] == wrong["certificate"][1]
    assert wrong["ledger"][0] == "not checked, because the records cannot be read"
    assert wrong["ledger"][1] == wrong["records"][1]
    folder.configure(1)
    (folder.path / "ledger.sqlite").unlink()
    assert set(folder.failures()) == {"ledger", "aggregator"}


def test_a_server_with_another_certificate_is_found(folder: Folder, tmp_path: Path) -> None:
    with listening(certificate(tmp_path, days=300)) as port:
        folder.configure(port, certificate(tmp_path, days=301).path)
        wrong = folder.failures()
    assert set(wrong) == {"aggregator"}
    assert "expected TLS with a certificate that the ca signed" in wrong["aggregator"][0]


def test_a_running_device_is_left_alone(folder: Folder) -> None:
    async def serve() -> dict[str, Any]:
        async with ControlServer(folder.home.control_path, {}).serving():
            return await asyncio.to_thread(folder.failures)

    ledgers = folder.home.ledgers()  # held, as by a device
    try:
        assert set(asyncio.run(serve())) == {"aggregator"}
    finally:
        ledgers.close()


def test_the_devices_port_is_looked_at(folder: Folder, tmp_path: Path) -> None:
    """An aggregator's open address may answer where its devices' port does not."""
    world, kept, ca = World(tmp_path), folder.home.certificate_path, tmp_path / "ca.pem"
    port = str(world.service.server.port)
    try:
        mine = asyncio.run(world.enrol("first", FIRST))
        ca.write_bytes(world.service.ca.certificate)
        folder.configure(Address.of(world.service.address).port, ca)
        assert folder.failures() == {}  # no certificate is there yet
        kept.write_text(json.dumps(asdict(mine)))
        kept.chmod(0o600)
        assert folder.failures() == {}
        foreign = authority_of(devices_authority(world.now_s), lambda: world.now_s)
        key = load_pem_private_key(mine.key.encode(), None)
        chain = foreign.issue(request_of(key), CertificateHolder(0, 0)).chain.decode()
        for held, text in (
            (replace(mine, chain=chain), f"127.0.0.1:{port} refuses the certificate"),
            (replace(mine, address=CLOSED), f"{CLOSED}: [Errno 111] Connection refused"),
        ):
            kept.write_text(json.dumps(asdict(held)))
            wrong = folder.failures()
            assert set(wrong) == {"devices' port"}
            assert text in wrong["devices' port"][0]
        with listening(certificate(tmp_path)) as another:
            kept.write_text(json.dumps(asdict(replace(mine, address=f"127.0.0.1:{another}"))))
            assert "certificate verify failed" in folder.failures()["devices' port"][0]
    finally:
        world.service.stop()
