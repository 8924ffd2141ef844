"""Counts of exports are signed by the aggregator, and checked offline by its key."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from askance.cli.main import main
from askance_aggregator.analyst import (
    StudyExport,
    VerificationFailed,
    connect,
    verify,
    verify_export,
)
from askance_aggregator.analyst.messages import counts_of
from askance_aggregator.analyst.signed_counts import CountsSignature, CountsSigner
from askance_client.errors import InvalidRecord, RemoteProtocolError
from askance_protos.v1 import analyst_pb2 as pb
from tests.aggregator.analyst.conftest import KEY, serving

ENROLMENT_KEY = bytes(range(32, 64))
SEED = hmac.digest(ENROLMENT_KEY, b"askance counts key v1\0", "sha256")
PUBLIC = Ed25519PrivateKey.from_private_bytes(SEED).public_key().public_bytes_raw()
OTHER = CountsSigner(bytes(32))


@pytest.fixture(scope="module")
def done() -> StudyExport:
    """The export of a study that is done, from an aggregator that signs."""
    signer = CountsSigner(ENROLMENT_KEY)
    with serving(devices=True, counts_signer=signer) as served, served.connected() as aggregator:
        handle = aggregator.submit(served.study())
        handle.result(timeout_s=60)
        return handle.fetch()


def test_the_signature_is_over_study_epoch_and_lines(done: StudyExport) -> None:
    assert done.counts is not None
    assert done.counts.public_key == PUBLIC
    lines = hashlib.sha256("".join(f"{line}\n" for line in done.lines).encode()).digest()
    statement = b"askance counts v1\0" + hashlib.sha256(done.signed.study).digest()
    key = Ed25519PublicKey.from_public_bytes(PUBLIC)
    key.verify(done.counts.signature, statement + bytes(8) + lines)  # raises if it is another
    assert done.counts.holds(done.digest, 0, done.lines)
    assert not done.counts.holds(done.digest, 1, done.lines)
    assert not done.counts.holds(bytes(32), 0, done.lines)


def test_an_export_is_verified_by_the_aggregators_key(done: StudyExport, tmp_path: Path) -> None:
    done.write(tmp_path / "study.json")
    found = verify_export(tmp_path / "study.json", None, [PUBLIC])
    assert any(line.startswith("the aggregator's signature over the") for line in found.checked)
    assert not any("key under the counts" in line for line in found.believed)
    unnamed = verify(done)
    assert "whose the key under the counts is: none was given" in unnamed.believed
    assert any("only who may see them can check" in line for line in found.believed)


def test_another_count_is_found_although_it_is_replayed(done: StudyExport) -> None:
    """An open study's export has no result that a replay is compared with."""
    place = next(n for n, line in enumerate(done.lines) if '"kind":"closed"' in line)
    closed = json.loads(done.lines[place])
    counts = closed["tallies"][0]["counts"]
    counts[0], counts[1] = counts[1], counts[0]
    line = json.dumps(closed, sort_keys=True, separators=(",", ":"))
    lines = (*done.lines[:place], line)
    assert verify(replace(done, lines=lines, result=None, counts=None)).state == "open"
    with pytest.raises(VerificationFailed, match="counts: expected their aggregator's signature"):
        verify(replace(done, lines=lines, result=None))


def test_unsigned_counts_and_other_keys(done: StudyExport) -> None:
    unsigned = replace(done, counts=None)
    assert any("it has signed none" in line for line in verify(unsigned).believed)
    with pytest.raises(VerificationFailed, match=f"signed by {PUBLIC.hex()}, got no signature"):
        verify(unsigned, None, [PUBLIC])
    with pytest.raises(
        VerificationFailed, match=f"signed by {OTHER.public_key.hex()}, got {PUBLIC.hex()}"
    ):
        verify(done, None, [OTHER.public_key])
    both = " or ".join(sorted(["ab" * 32, OTHER.public_key.hex()]))
    with pytest.raises(VerificationFailed, match=f"signed by {both}, got {PUBLIC.hex()}"):
        verify(done, None, [OTHER.public_key, b"\xab" * 32])


def test_signatures_are_read_as_they_are_written(done: StudyExport, tmp_path: Path) -> None:
    done.write(tmp_path / "study.json")
    assert StudyExport.read(tmp_path / "study.json").counts == done.counts
    content = json.loads((tmp_path / "study.json").read_text())
    for wrong in ("x", {"public_key": "00"}, {"public_key": 1, "signature": "00"}):
        (tmp_path / "wrong.json").write_text(json.dumps({**content, "counts": wrong}))
        with pytest.raises(InvalidRecord, match="counts"):
            StudyExport.read(tmp_path / "wrong.json")
    short = {"public_key": "00", "signature": "00"}
    (tmp_path / "wrong.json").write_text(json.dumps({**content, "counts": short}))
    with pytest.raises(VerificationFailed, match="counts: expected their aggregator's signature"):
        verify_export(tmp_path / "wrong.json")


def test_a_signature_of_another_size_is_no_answer() -> None:
    part = pb.ExportPart(counts=pb.CountsSignature(public_key=bytes(32), signature=bytes(63)))
    with pytest.raises(RemoteProtocolError, match="signature of 64, got 32 and 63"):
        counts_of(part)
    assert counts_of(pb.ExportPart()) is None
    assert not CountsSignature(bytes(32), bytes(64)).holds(bytes(32), 0, [])


def test_the_command_takes_the_aggregators_key(
    done: StudyExport, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done.write(tmp_path / "study.json")
    command = ["study", "verify", str(tmp_path / "study.json"), "--aggregator-key"]
    assert main([*command, PUBLIC.hex()]) == 0
    assert "the aggregator's signature" in capsys.readouterr().out
    assert main([*command, OTHER.public_key.hex()]) == 1
    assert f"signed by {OTHER.public_key.hex()}, got {PUBLIC.hex()}" in capsys.readouterr().err


def test_an_analyst_pins_the_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By another key nothing is written; without any the export is as it was."""
    pem, file = tmp_path / "analyst.pem", tmp_path / "study.json"
    form = Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    pem.write_bytes(KEY.private_bytes(*form))
    signer = CountsSigner(ENROLMENT_KEY)
    with serving(devices=True, counts_signer=signer) as served, served.connected() as aggregator:
        handle = aggregator.submit(served.study())
        handle.result(timeout_s=60)
        command = ["study", "result", handle.id, "--aggregator", served.address]
        command += ["--key", str(pem), "--out", str(file), "--aggregator-key"]
        assert main([*command, OTHER.public_key.hex()]) == 1
        assert f"signed by {OTHER.public_key.hex()}, got {PUBLIC.hex()}" in capsys.readouterr().err
        assert not file.exists()
        assert main([*command, PUBLIC.hex()]) == 0
        with connect(served.address, key=KEY, counts_keys=[OTHER.public_key, PUBLIC]) as pinned:
            assert pinned.study(handle.id).fetch() == StudyExport.read(file)


def test_an_analyst_who_pins_a_key_takes_no_unsigned_export() -> None:
    with serving(devices=True) as served, served.connected() as aggregator:
        handle = aggregator.submit(served.study())
        handle.result(timeout_s=60)
        with (
            connect(served.address, key=KEY, counts_keys=[PUBLIC]) as pinned,
            pytest.raises(RemoteProtocolError, match=f"signed by {PUBLIC.hex()}, got no sig"),
        ):
            pinned.study(handle.id).fetch()


class Forger(CountsSigner):
    """Signs another epoch than the one that is asked for."""

    def sign(self, study_digest: bytes, epoch: int, transcript: bytes) -> CountsSignature:
        return super().sign(study_digest, epoch + 1, transcript)


def test_an_analyst_who_pins_a_key_takes_no_wrong_signature() -> None:
    signer = Forger(ENROLMENT_KEY)
    with serving(devices=True, counts_signer=signer) as served, served.connected() as aggregator:
        handle = aggregator.submit(served.study())
        handle.result(timeout_s=60)
        with (
            connect(served.address, key=KEY, counts_keys=[PUBLIC]) as pinned,
            pytest.raises(RemoteProtocolError, match="a signature that holds, got a wrong one"),
        ):
            pinned.study(handle.id).fetch()


def test_the_key_is_pinned_for_other_callers_of_the_connection_too() -> None:
    with connect("127.0.0.1:1", key=KEY, counts_keys=[PUBLIC]) as pinned:
        assert pinned.for_token(lambda: "a token").counts_keys == {PUBLIC}
