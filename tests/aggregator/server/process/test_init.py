"""A folder is made whole, for its owner only, and never over anything."""

from __future__ import annotations

import ipaddress
import os
import stat
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from askance_aggregator.analyst.signed_counts import CountsSigner
from askance_aggregator.server.process.certificates import first_name, self_made
from askance_aggregator.server.process.configuration import read_configuration
from askance_aggregator.server.process.files import NotOperable
from askance_aggregator.server.process.home import AggregatorHome, create_replica
from askance_aggregator.store import SqliteLocation
from askance_client.addresses import Address
from askance_client.durable_files import write_new
from askance_client.errors import InvalidParameter
from tests.aggregator.server.process.conftest import NOW_S, made

NOW = datetime.fromtimestamp(NOW_S, UTC)
SECRETS = ("analyst.pem", "ca.key", "devices-ca.key", "enrolment.key", "server.key", "store.sqlite")
OPEN = ("aggregator.toml", "analyst.pub", "ca.pem", "counts.pub", "devices-ca.pem", "server.pem")


def certificate(home: AggregatorHome, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((home.folder / name).read_bytes())


def test_everything_is_there_and_secrets_are_their_owners(home: AggregatorHome) -> None:
    assert sorted(os.listdir(home.folder)) == sorted(SECRETS + OPEN)
    assert stat.S_IMODE(home.folder.stat().st_mode) == 0o700
    for name in SECRETS:
        assert stat.S_IMODE((home.folder / name).stat().st_mode) == 0o600, name
    assert [path.name for path in home.folder.parent.iterdir()] == ["aggregator"]


def test_the_configuration_names_what_lies_beside_it(home: AggregatorHome) -> None:
    read = read_configuration(home.configuration)
    assert read.tls is not None
    assert read.enrolment_key is not None
    assert read.store == SqliteLocation(home.folder / "store.sqlite")
    for path in (read.tls.certificate, read.tls.key, read.enrolment_key):
        assert isinstance(path, Path)
        assert path.parent == home.folder
        assert path.is_file()
    key = load_pem_private_key(home.analyst_key.read_bytes(), None)
    assert isinstance(key, Ed25519PrivateKey)
    assert read.analysts == {home.analyst: "analyst"}
    assert key.public_key().public_bytes_raw() == home.analyst
    assert (home.folder / "analyst.pub").read_text() == home.analyst.hex() + "\n"
    assert len(read.enrolment_key.read_bytes()) == 32
    signer = CountsSigner(read.enrolment_key.read_bytes())
    assert (home.folder / "counts.pub").read_text() == signer.public_key.hex() + "\n"
    with closing(read.store.open()) as store:
        assert store.population() == 0


def test_devices_that_pin_the_authority_accept_the_server_by_each_of_its_names(
    home: AggregatorHome,
) -> None:
    authority, server = certificate(home, "ca.pem"), certificate(home, "server.pem")
    trust = PolicyBuilder().store(Store([authority])).time(NOW)
    for host in ("ask.example.org", "localhost"):
        trust.build_server_verifier(x509.DNSName(host)).verify(server, [])
    for address in ("192.0.2.7", "127.0.0.1", "::1"):
        name = x509.IPAddress(ipaddress.ip_address(address))
        trust.build_server_verifier(name).verify(server, [])
    with pytest.raises(VerificationError):
        trust.build_server_verifier(x509.DNSName("other.example.org")).verify(server, [])
    other = x509.load_pem_x509_certificate(self_made([], NOW_S)[0].certificate)
    mistrust = PolicyBuilder().store(Store([other])).time(NOW)
    with pytest.raises(VerificationError):
        mistrust.build_server_verifier(x509.DNSName("localhost")).verify(server, [])


def test_certificates_say_what_they_are_for_and_for_how_long(home: AggregatorHome) -> None:
    authority, server = certificate(home, "ca.pem"), certificate(home, "server.pem")
    assert server.serial_number != authority.serial_number
    for found, days in ((authority, 3_653), (server, 825)):
        assert found.not_valid_before_utc <= NOW
        assert found.not_valid_after_utc - found.not_valid_before_utc == timedelta(days=days)
    constraints = authority.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert constraints.value == x509.BasicConstraints(ca=True, path_length=0)
    assert not server.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    usage = server.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert not server.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    for name, found in (("ca.key", authority), ("server.key", server)):
        key = load_pem_private_key((home.folder / name).read_bytes(), None)
        assert isinstance(key, EllipticCurvePrivateKey)
        assert key.public_key() == found.public_key()


def test_a_certificates_first_name_is_the_one_that_was_asked_for(home: AggregatorHome) -> None:
    assert first_name((home.folder / "server.pem").read_bytes()) == "ask.example.org"
    with pytest.raises(InvalidParameter, match="expected a certificate"):
        first_name(b"nothing of the kind")


@pytest.mark.parametrize("host", ["", "*.example.org", "a b", "-a.org", "x" * 64, "a..b", "é.org"])
def test_a_host_that_no_certificate_can_name_leaves_nothing_behind(
    host: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidParameter, match="host: expected a name or an address"):
        made(tmp_path / "new", host)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_is_filled_and_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir(mode=0o755)
    home = made(tmp_path / "mine")
    assert sorted(os.listdir(home.folder)) == sorted(SECRETS + OPEN)
    assert stat.S_IMODE(home.folder.stat().st_mode) == 0o700
    read_configuration(home.configuration).store.open_to_read().close()


def test_nothing_is_ever_overwritten(tmp_path: Path) -> None:
    home = made(tmp_path / "one")
    before = {path.name: path.read_bytes() for path in home.folder.iterdir()}
    with pytest.raises(NotOperable, match="expected an empty folder, found"):
        made(home.folder)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(NotOperable, match="expected no file there yet, found one"):
        made(tmp_path / "file")
    assert {path.name: path.read_bytes() for path in home.folder.iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "one"]


@pytest.mark.parametrize("exists", [False, True])
def test_a_disk_that_fails_leaves_nothing_half_made(
    exists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "new"
    if exists:
        folder.mkdir()

    def full(path: Path, data: bytes, *, mode: int = 0o644) -> None:
        if path.name == "enrolment.key":
            raise OSError(28, "No space left on device")
        write_new(path, data, mode=mode)

    monkeypatch.setattr("askance_aggregator.server.process.home.write_new", full)
    with pytest.raises(NotOperable, match="cannot be made: No space left on device"):
        made(folder)
    assert list(tmp_path.rglob("*")) == ([folder] if exists else [])


def test_a_move_that_fails_takes_back_what_was_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process puts a file of the same name there while the folder is being filled."""
    link = os.link

    def taken(source: Path, target: Path) -> None:
        if Path(target).name == "server.pem" and Path(target).parent == tmp_path:
            raise FileExistsError(17, "File exists")
        link(source, target)

    monkeypatch.setattr(os, "link", taken)
    with pytest.raises(NotOperable, match="cannot be made: File exists"):
        made(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("port", "page"), [(0, 0), (7443, 7444), (65_535, 65_534)], ids=["free", "usual", "last"]
)
def test_metrics_are_a_port_further_on_loopback(port: int, page: int, tmp_path: Path) -> None:
    home = AggregatorHome.create(
        tmp_path / "new", listen=Address("0.0.0.0", port), hosts=(), now_s=NOW_S
    )
    assert read_configuration(home.configuration).metrics == Address("127.0.0.1", page)


def shared(folder: Path) -> AggregatorHome:
    """An aggregator of a PostgreSQL database, at 10.0.0.11."""
    home = AggregatorHome.create(
        folder, listen=Address("10.0.0.11", 7443), hosts=["ask.example.org"], now_s=NOW_S
    )
    database = 'store = "postgresql://askance@db/askance"\nstore_password_file = "db.password"'
    text = home.configuration.read_text().replace('store = "sqlite:///store.sqlite"', database)
    home.configuration.write_text(text)
    write_new(home.folder / "db.password", b"secret", mode=0o600)
    return home


@pytest.mark.parametrize(
    ("listen", "devices", "metrics"),
    [
        ("10.0.0.12:7443", "10.0.0.12:7445", "127.0.0.1:7444"),
        ("10.0.0.12:8000", "10.0.0.12:7445", "127.0.0.1:7444"),
        ("10.0.0.11:7543", "10.0.0.11:7545", "127.0.0.1:7544"),
    ],
)
def test_a_replica_has_the_same_keys_and_settings_and_addresses_of_its_own(
    tmp_path: Path, listen: str, devices: str, metrics: str
) -> None:
    first = shared(tmp_path / "first")
    made_at = create_replica(
        tmp_path / "second", first.folder, name="berlin 2", listen=Address.of(listen)
    )
    second, before = read_configuration(made_at), read_configuration(first.configuration)
    assert second.tls is not None
    assert before.tls is not None
    assert (second.replica, str(second.listen)) == ("berlin 2", listen)
    assert (str(second.tls.devices.listen), str(second.metrics)) == (devices, metrics)
    assert second.analysts == before.analysts
    assert second.limits == before.limits
    assert sorted(path.name for path in made_at.parent.iterdir()) == [
        "aggregator.toml",
        "analyst.pub",
        "ca.pem",
        "counts.pub",
        "db.password",
        "devices-ca.key",
        "devices-ca.pem",
        "enrolment.key",
        "server.key",
        "server.pem",
    ]
    for path in made_at.parent.iterdir():
        other = first.folder / path.name
        assert path.name == "aggregator.toml" or path.read_bytes() == other.read_bytes()
        assert path.stat().st_mode == other.stat().st_mode
    third = create_replica(
        tmp_path / "third", tmp_path / "second", name="3", listen=Address("10.0.0.13", 7443)
    )
    assert read_configuration(third).replica == "3"


def test_what_is_no_replica_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    first = shared(tmp_path / "first")
    there, listen = tmp_path / "second", Address("10.0.0.12", 7443)
    with pytest.raises(InvalidParameter, match="listen: expected another one than the first's"):
        create_replica(there, first.folder, name="b", listen=Address("10.0.0.11", 7443))
    for before, after, complaint in (
        ("listen = ", "listen= ", "expected `listen = ` at the begin of a line"),
        ('store = "postgresql://askance@db/askance"\nstore_password_file = "db.password"',
         'store = "sqlite:///store.sqlite"', "expected an aggregator whose store is in PostgreSQL"),
    ):  # fmt: skip
        text = first.configuration.read_text()
        first.configuration.write_text(text.replace(before, after, 1))
        with pytest.raises(InvalidParameter, match=complaint):
            create_replica(there, first.folder, name="b", listen=listen)
        first.configuration.write_text(text)
    assert [path.name for path in tmp_path.iterdir()] == ["first"]
    text = first.configuration.read_text()
    (tmp_path / "people.toml").touch()
    first.configuration.write_text(f'schemas = ["../people.toml"]\n{text}')
    with pytest.raises(InvalidParameter, match=r"expected files in its folder.*, got \.\./people"):
        create_replica(tmp_path / "x" / "second", first.folder, name="b", listen=listen)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "people.toml"]
    first.configuration.write_text(text)
    there.mkdir()
    (there / "x").touch()
    with pytest.raises(NotOperable, match="expected an empty folder"):
        create_replica(there, first.folder, name="b", listen=listen)
