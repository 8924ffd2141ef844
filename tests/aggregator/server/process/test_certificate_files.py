"""Certificates in an operator's files: shown, renewed, and rotated with an overlap."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from askance.cli import main
from askance_aggregator.server.process.certificate_files import (
    ACCEPTED,
    SERVER,
    SERVERS_AUTHORITY,
    SIGNING,
    list_certificates,
    renew_server,
    retire_devices,
    rotate_devices,
)
from askance_aggregator.server.process.certificates import expiry, self_made
from askance_aggregator.server.process.configuration import (
    DeviceTls,
    TlsFiles,
    read_configuration,
)
from askance_aggregator.server.process.credentials import read_pair
from askance_aggregator.server.process.device_authority import read_device_authority
from askance_aggregator.server.process.files import NotOperable, SecretVariable
from askance_aggregator.server.process.home import AggregatorHome
from askance_aggregator.store import CertificateHolder
from tests.aggregator.server.process.conftest import NOW_S, made
from tests.aggregator.server.process.test_certificates import with_certificates
from tests.aggregator.server.process.test_process import without_tls

DAY_S, LIFE_S = 86_400, 1_000


@pytest.fixture
def home(tmp_path: Path) -> AggregatorHome:
    return with_certificates(tmp_path / "aggregator", LIFE_S)


@pytest.fixture
def tls(home: AggregatorHome) -> TlsFiles:
    found = read_configuration(home.configuration).tls
    assert found is not None
    return found


@pytest.fixture
def devices(tls: TlsFiles) -> DeviceTls:
    return tls.devices


def read(path: Path) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(path.read_bytes())


def issued(devices: DeviceTls, now_s: int) -> x509.Certificate:
    """A device's certificate by the authority that signs now."""
    authority = read_device_authority(devices, lambda: now_s)
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    asked = request.sign(ec.generate_private_key(ec.SECP256R1()), SHA256())
    chain = authority.issue(asked.public_bytes(Encoding.DER), CertificateHolder(0, 7)).chain
    return x509.load_pem_x509_certificates(chain)[0]


def test_a_rotation_signs_by_the_new_authority_and_accepts_both(devices: DeviceTls) -> None:
    start_s = int(read(devices.authority)[0].not_valid_before_utc.timestamp()) + 3_600
    rotated_s = start_s + DAY_S
    before = issued(devices, rotated_s)
    assert rotate_devices(devices, rotated_s).role == SIGNING
    new, old = read(devices.authority)
    after = issued(devices, rotated_s)
    before.verify_directly_issued_by(old)
    after.verify_directly_issued_by(new)
    assert new.subject != old.subject
    assert isinstance(devices.key, Path)
    assert devices.key.stat().st_mode & 0o777 == 0o600
    with pytest.raises(NotOperable, match="expected one certificate, got 2"):
        rotate_devices(devices, rotated_s)
    over_s = rotated_s + LIFE_S + LIFE_S // 10
    with pytest.raises(NotOperable, match="expected an overlap that is over"):
        retire_devices(devices, over_s - 1)
    assert read(devices.authority) == [new, old]
    (dropped,) = retire_devices(devices, over_s)
    assert (dropped.role, dropped.subject) == (ACCEPTED, old.subject.rfc4514_string())
    assert read(devices.authority) == [new]
    issued(devices, over_s).verify_directly_issued_by(new)
    with pytest.raises(NotOperable, match="expected one that was rotated, got none"):
        retire_devices(devices, over_s)
    rotate_devices(devices, over_s)


@pytest.mark.parametrize("name", ["devices-ca.key", "devices-ca.pem"])
def test_a_rotation_that_breaks_off_is_completed(
    devices: DeviceTls, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the two files the key is the new one's: it is never lost, nor is the old accepted."""
    from askance_aggregator.server.process import certificate_files

    (old,), move = read(devices.authority), certificate_files._move

    def broken(beside: Path, path: Path) -> None:
        if path.name == name:
            raise NotOperable("no power")
        move(beside, path)

    monkeypatch.setattr(certificate_files, "_move", broken)
    with pytest.raises(NotOperable, match="no power"):
        rotate_devices(devices, NOW_S)
    monkeypatch.setattr(certificate_files, "_move", move)
    rotate_devices(devices, NOW_S)
    new, kept = read(devices.authority)
    assert kept == old
    issued(devices, NOW_S).verify_directly_issued_by(new)
    assert not list(devices.authority.parent.glob("*.new"))


def test_half_a_file_that_a_rotation_left_is_replaced(devices: DeviceTls) -> None:
    left = devices.authority.with_name("devices-ca.pem.new")
    left.write_bytes(b"-----BEGIN CERT")
    rotate_devices(devices, NOW_S)
    new, _ = read(devices.authority)
    issued(devices, NOW_S).verify_directly_issued_by(new)
    assert not left.exists()


def test_a_rotation_that_is_completed_late_has_a_whole_overlap(
    devices: DeviceTls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process signs by the old authority until it reads the files again."""
    from askance_aggregator.server.process import certificate_files

    with monkeypatch.context() as patched:
        patched.setattr(certificate_files, "_replace", lambda *_: None)  # ended before the key
        patched.setattr(certificate_files, "_move", lambda *_: None)
        rotate_devices(devices, NOW_S)
    assert isinstance(devices.key, Path)
    late_s = NOW_S + LIFE_S
    made_late = rotate_devices(devices, late_s)
    assert made_late.subject == read(devices.authority)[0].subject.rfc4514_string()
    with pytest.raises(NotOperable, match="expected an overlap that is over"):
        retire_devices(devices, late_s + LIFE_S)


def test_files_keep_their_mode_and_their_links(devices: DeviceTls) -> None:
    assert isinstance(devices.key, Path)
    there = devices.key.rename(devices.key.with_name("elsewhere.key"))
    there.chmod(0o640)
    devices.key.symlink_to(there)
    rotate_devices(devices, NOW_S)
    assert devices.key.is_symlink()
    assert there.stat().st_mode & 0o777 == 0o640
    issued(devices, NOW_S).verify_directly_issued_by(read(devices.authority)[0])


def test_an_authority_and_its_key_in_one_file_are_not_rotated(devices: DeviceTls) -> None:
    assert isinstance(devices.key, Path)
    before = devices.authority.read_bytes()
    with pytest.raises(NotOperable, match="expected its key in a file of its own"):
        rotate_devices(replace(devices, key=devices.authority), NOW_S)
    assert devices.authority.read_bytes() == before


def test_an_authority_that_cannot_be_rotated_is_refused(devices: DeviceTls) -> None:
    variable = replace(devices, key=SecretVariable("A_KEY"))
    with pytest.raises(NotOperable, match=r"expected a file .*, got a variable"):
        rotate_devices(variable, NOW_S)
    older = devices.authority.read_bytes()
    (_, server) = self_made([], NOW_S)
    devices.authority.write_bytes(server.certificate)
    with pytest.raises(NotOperable, match="expected one that is its own issuer, got one of"):
        rotate_devices(devices, NOW_S)
    devices.authority.write_bytes(server.certificate + older)
    with pytest.raises(NotOperable, match="expected one that is its own issuer, got one of"):
        retire_devices(devices, NOW_S)


def test_the_servers_certificate_is_renewed_with_its_names_and_key(
    home: AggregatorHome, tls: TlsFiles
) -> None:
    (before,), key = read(tls.certificate), home.folder / "ca.key"
    later_s = int(before.not_valid_before_utc.timestamp()) + 100 * DAY_S
    told = renew_server(tls, home.authority, key, later_s)
    (after,) = read(tls.certificate)
    (authority,) = read(home.authority)
    after.verify_directly_issued_by(authority)
    assert (after.public_key(), after.subject) == (before.public_key(), before.subject)
    names = x509.SubjectAlternativeName
    assert after.extensions.get_extension_for_class(
        names
    ) == before.extensions.get_extension_for_class(names)
    assert (after.not_valid_after_utc - before.not_valid_after_utc).days in (99, 100)
    assert told.ends_unix_s == expiry(read_pair(tls).chain)
    last_s = int(authority.not_valid_after_utc.timestamp()) - DAY_S
    renew_server(tls, home.authority, key, last_s)
    assert read(tls.certificate)[0].not_valid_after_utc == authority.not_valid_after_utc
    for now_s in (last_s, last_s + 2 * DAY_S):
        with pytest.raises(NotOperable, match="an authority that outlives the certificate"):
            renew_server(tls, home.authority, key, now_s)


def test_another_authority_does_not_renew_it(
    home: AggregatorHome, tls: TlsFiles, tmp_path: Path
) -> None:
    other, _ = self_made([], NOW_S)
    before = tls.certificate.read_bytes()
    (tmp_path / "other.pem").write_bytes(other.certificate)
    (tmp_path / "other.key").write_bytes(other.key)
    for authority, key, found in (
        (home.authority, tmp_path / "other.key", "got one that does not fit"),
        (tmp_path / "other.pem", tmp_path / "other.key", "that the authority in"),
        (home.authority, tmp_path / "none.key", "cannot be read: No such file"),
        (home.authority, home.authority, "expected an open PEM key"),
    ):
        with pytest.raises(NotOperable, match=found):
            renew_server(tls, authority, key, NOW_S)
    assert tls.certificate.read_bytes() == before


def test_commands_show_and_record_what_they_change(
    home: AggregatorHome, tls: TlsFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    config = ["--config", str(home.configuration)]

    def run(*words: str) -> dict[str, Any]:
        assert main(["aggregator", "certificates", *words, *config, "--json"]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    roles = [one["role"] for one in run("show")["certificates"]]
    assert roles == [SERVER, SERVERS_AUTHORITY, SIGNING]
    (renewed,) = run("renew")["renewed"]
    (begun,) = run("rotate")["begun"]
    shown = run("show")["certificates"]
    assert [one["role"] for one in shown] == [SERVER, SERVERS_AUTHORITY, SIGNING, ACCEPTED]
    assert [shown[0], shown[2]] == [renewed, begun]
    assert [one.to_json() for one in list_certificates(tls)] == shown
    assert main(["aggregator", "certificates", "retire", *config]) == 1
    assert main(["aggregator", "certificates", "show", *config]) == 0
    assert "devices' authority, accepted" in capsys.readouterr().out
    assert main(["aggregator", "audit", "show", *config, "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)["entries"]
    assert [(one["action"].split()[-1], one["outcome"]) for one in entries] == [
        ("renew", "begun"),
        ("renew", "done"),
        ("rotate", "begun"),
        ("rotate", "done"),
        ("retire", "begun"),
        ("retire", "failed: NotOperable"),
    ]
    key = load_pem_private_key((home.folder / "devices-ca.key").read_bytes(), None)
    assert key.public_key() == read(home.folder / "devices-ca.pem")[0].public_key()


def test_a_configuration_without_certificates_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = made(tmp_path / "aggregator")
    home.configuration.write_text(without_tls(home.configuration.read_text()))
    code = main(["aggregator", "certificates", "rotate", "--config", str(home.configuration)])
    assert code == 2
    assert "expected a table tls, got none" in capsys.readouterr().err
