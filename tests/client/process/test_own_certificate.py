"""A folder whose certificate is missing, has ended or is refused: replaced, or said in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from askance_aggregator.server.process.certificates import devices_authority
from askance_aggregator.store import CertificateHolder
from askance_aggregator.store.register import DeviceSelection
from askance_client.service import system_now_s
from tests.aggregator.server.certified_service import authority_of
from tests.aggregator.server.devices.test_certification import request_of
from tests.client.process.conftest import WAIT_S, Folder, ServingTls

PEOPLE = 5
REFUSED = (
    "certificate: expected one that the aggregator's port for devices accepts, got one that it"
    " refuses; another one is asked for"
)


@pytest.fixture
def folder(serving_tls: ServingTls, tmp_path: Path) -> Folder:
    """A gateway that is enrolled and has its certificate."""
    made = serving_tls.folder(tmp_path, "right")
    code, found, err = made.run("enroll", "--token", serving_tls.token(PEOPLE))
    assert code == 0, err
    assert found["certificate_ends_unix_s"] > system_now_s()
    return made


def held(folder: Folder) -> dict[str, Any]:
    """The certificate in the folder."""
    found: dict[str, Any] = json.loads((folder.path / "certificate.json").read_text())
    return found


def keep(folder: Folder, **changes: Any) -> None:
    """Change the certificate in the folder."""
    (folder.path / "certificate.json").write_text(json.dumps(held(folder) | changes))


def foreign(folder: Folder) -> str:
    """A certificate for the folder's key that another authority has signed."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    other = authority_of(devices_authority(system_now_s()), system_now_s)
    key = load_pem_private_key(held(folder)["key"].encode(), None)
    return other.issue(request_of(key), CertificateHolder(1, -1)).chain.decode()


def test_a_folder_of_an_earlier_version_gets_one_at_its_next_start(folder: Folder) -> None:
    (folder.path / "certificate.json").unlink()
    code, found, err = folder.run("run", "--once")
    assert (code, found["failed"], err) == (0, 0, "")
    assert (folder.path / "certificate.json").stat().st_mode & 0o777 == 0o600


def test_one_that_has_ended_is_replaced_without_an_operator(folder: Folder) -> None:
    before = held(folder)
    keep(folder, ends_s=system_now_s() - 1, obtained_s=system_now_s() - 2)
    code, found, err = folder.run("run", "--once")
    assert (code, found["failed"], err) == (0, 0, "")
    assert held(folder)["key"] != before["key"]


def test_one_that_is_refused_is_said_in_a_line_and_replaced(folder: Folder) -> None:
    keep(folder, chain=foreign(folder))
    code, found, err = folder.run("run", "--once")
    assert (code, found["failed"]) == (0, 0)
    assert err.count("\n") == 1
    assert REFUSED in err
    assert folder.run("run", "--once")[::2] == (0, "")


def test_a_revoked_device_is_told_so_in_a_line(serving_tls: ServingTls, folder: Folder) -> None:
    """A revoked device gets no certificate; its present one opens no stream."""
    (gateway,) = serving_tls.store.register.gateways(limit=9)
    serving_tls.store.register.revoke(DeviceSelection((gateway.gateway_id,)))
    err = ""
    while "certificate: " not in err:  # until the aggregator looks again before it gives one
        (folder.path / "certificate.json").unlink()
        code, found, err = folder.run("run", "--once")
    assert (code, found["failed"]) == (1, PEOPLE)
    assert err.count("\n") == 1
    assert "certificate: PERMISSION_DENIED: gateway" in err
    assert not (folder.path / "certificate.json").exists()


def test_an_aggregator_that_is_away_is_said_in_a_line(
    serving_tls: ServingTls, folder: Folder
) -> None:
    """No certificate is taken for refused because nothing answers."""
    before = held(folder)
    serving_tls.service.stop()
    code, _, err = folder.run("run", "--once")
    assert code == 1
    assert err.count("\n") == 1
    assert "UNAVAILABLE" in err
    assert "certificate" not in err
    assert held(folder) == before


def test_a_running_device_replaces_one_that_is_refused(
    serving_tls: ServingTls, folder: Folder
) -> None:
    """The stream opens by the new one, and the device answers."""
    keep(folder, chain=foreign(folder))
    with folder.start("run") as process:
        try:
            asked = serving_tls.ask(serving_tls.round())
            asked.result(WAIT_S)
        finally:
            process.terminate()
            _, err = process.communicate(timeout=WAIT_S)
    assert err.count(REFUSED) == 1, err
