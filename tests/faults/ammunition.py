"""Hostile input to a service: noise, damaged valid messages, and valid ones that lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import strategies as st

from askance_aggregator.analyst.calls import (
    CALL_KEY,
    METHODS,
    Call,
    SignedCall,
    call_metadata,
    sign_call,
)
from askance_aggregator.analyst.messages import PACKAGE, submission
from askance_aggregator.analyst.messages import SERVICE as ANALYSTS
from askance_aggregator.encoding import sign_study
from askance_aggregator.server.process.tokens import EnrolmentTokens
from askance_client.codec import decode_study, digest_of, encode_report
from askance_client.messages import Reason, Refusal, Report, SignedStudy
from askance_client.service import SERVICE as DEVICES
from askance_client.service import CheckIn, Metadata, device_metadata, encode_check_in
from askance_client.service.credentials import (
    DEVICE_KEY,
    PROTOCOL_KEY,
    TOKEN_KEY,
    enrolment_metadata,
)
from askance_client.service.exchange import PROTOCOL, Enrol, encode_enrol
from askance_protos.v1 import analyst_pb2, exchange_pb2
from tests.faults.hostile import ALLOWED, ALONE, HEALTH, INSIDER, STREAMED, Shot, Target
from tests.faults.people import KEY, NOW_S, PUBLIC

STRANGER = Ed25519PrivateKey.from_private_bytes(bytes(32))
LONG = 1 << 20  # bytes, and a little more than a message may have
_WHOLE = st.one_of(st.sampled_from([0, 1, 2**31, 2**32 - 1]), st.integers(0, 2**32 - 1))
_TIME = st.one_of(
    st.sampled_from([0, -1, NOW_S, -(2**63), 2**63 - 1]), st.integers(NOW_S - 400, NOW_S + 400)
)
_BYTES = st.one_of(
    st.binary(max_size=80),
    st.sampled_from([b"", bytes(32), bytes(64), INSIDER.device_id, INSIDER.token, PUBLIC]),
)


_OTHERS = [name for name in METHODS if name.startswith("Analysts/") and name != "Analysts/Submit"]


class Ammunition:
    """Inputs for every call of a target."""

    def __init__(self, target: Target) -> None:
        self._study, self._payload = target.study, target.request
        self._valid = {
            f"{DEVICES}/Enrol": self._enrolments(),
            f"{DEVICES}/CheckIn": self._check_ins(),
            f"{DEVICES}/Participate": self._check_ins(),
            f"{ANALYSTS}/Submit": self._submissions(),
            **{f"{PACKAGE}.{name}": [b""] for name in _OTHERS},
            f"{HEALTH}/Check": [b"", b"\x0a\x07nowhere"],
            f"{HEALTH}/Watch": [b"", b"\x0a\x07nowhere"],
        }

    def shots(self, size: int) -> st.SearchStrategy[list[Shot]]:
        """Generate up to `size` inputs for one moment."""
        return st.lists(
            st.sampled_from(sorted(ALLOWED)).flatmap(self._shot), min_size=size, max_size=size
        )

    def _shot(self, call: str) -> st.SearchStrategy[Shot]:
        valid = self._valid[call]
        message = st.one_of(
            st.binary(max_size=200),
            st.sampled_from(valid),
            st.builds(damaged, st.sampled_from(valid), st.lists(_damages(valid), max_size=4)),
            self._lies(call),
        )
        count = (
            st.lists(message, min_size=1, max_size=3) if call in STREAMED else st.tuples(message)
        )
        return st.builds(Shot, st.just(call), count.map(tuple), self._metadata(call))

    def _metadata(self, call: str) -> st.SearchStrategy[Metadata]:
        """Credentials that hold, that do not, and values of any bytes under their keys."""
        if call.startswith(HEALTH):
            return st.just(())
        if call == f"{DEVICES}/Enrol":
            return st.one_of(st.sampled_from(self._tokens()), _BYTES).map(enrolment_metadata)
        if call.startswith(DEVICES):
            valid: Metadata = device_metadata(INSIDER)
            others = st.builds(_identity, _BYTES, _BYTES)
            return st.one_of(st.just(valid), st.just(valid), others, st.just(()))
        named = Call(call.removeprefix(f"{PACKAGE}."))
        return st.one_of(
            st.sampled_from([call_metadata(one) for one in self._calls(named)]),
            st.builds(_signed_call, _BYTES, _BYTES, _TIME, _BYTES),
            st.binary(max_size=300).map(lambda data: ((CALL_KEY, data),)),
        )

    def _lies(self, call: str) -> st.SearchStrategy[bytes]:
        """Messages of the right kind with fields of any value."""
        if call.startswith(HEALTH):
            return st.text(max_size=40).map(lambda name: b"\x0a%c" % len(name.encode()[:120]))
        if call == f"{DEVICES}/Enrol":
            return st.builds(_enrolment, st.lists(st.tuples(_BYTES, _BYTES)))
        if call.startswith(DEVICES):
            reports = st.lists(st.one_of(_BYTES, self._reports()), max_size=5)
            return st.builds(_check_in, reports, st.lists(_BYTES, max_size=3))
        if call == f"{ANALYSTS}/Submit":
            return st.builds(
                self._resigned, st.lists(_damages([ALONE.signed(0).study]), max_size=3)
            )
        return st.binary(max_size=10)  # the messages of these calls are empty

    def _reports(self) -> st.SearchStrategy[bytes]:
        outcome = st.one_of(
            _BYTES, st.builds(Refusal, st.sampled_from(Reason), st.text(max_size=10))
        )
        digest = st.sampled_from([digest_of(self._payload), self._study, bytes(32)])
        number = st.sampled_from([0, 1, 2**63, 2**64 - 1])
        return st.builds(Report, digest, outcome, number, number, number).map(encode_report)

    def _resigned(self, damages: Sequence[Damage]) -> bytes:
        """A damaged study under the analyst's own, valid signature."""
        study = damaged(ALONE.signed(0).study, damages)
        signature = KEY.sign(b"askance study v1\0" + study)
        return submission(SignedStudy(study, PUBLIC, signature)).SerializeToString()

    def _enrolments(self) -> list[bytes]:
        devices = ((b"nobody", bytes(32)), (b"no one", bytes(32)))
        return [encode_enrol(Enrol(devices))]

    def _tokens(self) -> list[bytes]:
        past = EnrolmentTokens(bytes(32), lambda: NOW_S - 10 * 86_400).issue(5, 1)
        forged = EnrolmentTokens(b"\1" * 32, lambda: NOW_S).issue(5, 30)
        return [past.text.encode(), forged.text.encode(), b""]

    def _check_ins(self) -> list[bytes]:
        report = encode_report(Report(digest_of(self._payload), b"\x01", 10**9, 10**9))
        return [
            encode_check_in(CheckIn()),
            encode_check_in(CheckIn(reports=(report, report))),
            encode_check_in(CheckIn(known_studies=(self._study,))),
            encode_check_in(CheckIn(reports=(report,))),
        ]

    def _submissions(self) -> list[bytes]:
        terms = decode_study(ALONE.signed(0).study)
        return [
            submission(ALONE.signed(0)).SerializeToString(),  # which is known
            submission(sign_study(terms, STRANGER)).SerializeToString(),
            submission(
                sign_study(replace(terms, expires_unix_s=NOW_S - 1), KEY)
            ).SerializeToString(),
            submission(
                sign_study(replace(terms, nonce=b"another's nonce."), KEY)
            ).SerializeToString(),
        ]

    def _calls(self, call: Call) -> list[SignedCall]:
        """Calls that are valid, but for those that would cancel the study or submit another."""
        subject = PUBLIC if call == Call("Analysts/List") else self._study
        signed = [
            sign_call(call, subject, STRANGER, NOW_S),
            sign_call(call, bytes(32), KEY, NOW_S),
            sign_call(call, subject, KEY, NOW_S - 3_600),
            sign_call(Call("Analysts/Result"), subject, KEY, NOW_S),
        ]
        if call != Call("Analysts/Cancel"):
            signed.append(sign_call(call, subject, KEY, NOW_S))
        return signed


Damage = tuple[str, int, int, bytes]


def _damages(others: Sequence[bytes]) -> st.SearchStrategy[Damage]:
    """Generate damages to bytes: a kind, position and extent, and other messages."""
    kinds = ("flip", "truncate", "splice", "repeat", "length", "nest", "pad", "zero")
    return st.tuples(
        st.sampled_from(kinds),
        st.integers(0, 400),
        st.integers(0, 255),
        st.one_of(st.sampled_from(others), st.binary(max_size=20)),
    )


def damaged(data: bytes, damages: Sequence[Damage]) -> bytes:
    """The bytes after all of these have happened to them, bounded in length."""
    for kind, where, what, other in damages:
        at = where % (len(data) + 1)
        match kind:
            case "flip":
                data = (
                    data[:at]
                    + bytes([(byte ^ (what or 1)) for byte in data[at : at + 1]])
                    + (data[at + 1 :])
                )
            case "truncate":
                data = data[:at]
            case "splice":
                data = data[:at] + other[what % (len(other) + 1) :]
            case "repeat":
                data = data + data[at:] * (what % 16)
            case "length":  # a field that claims to be four thousand million bytes long
                data = data[:at] + b"\x0a\xff\xff\xff\xff\x0f" + data[at:]
            case "nest":
                for _ in range(what):
                    data = b"\x22" + _varint(len(data)) + data
            case "zero":
                data = data[:at] + bytes(what) + data[at:]
            case _ if what == 255:
                data = data + bytes(LONG)
        data = data[: 2 * LONG]
    return data


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _enrolment(devices: list[tuple[bytes, bytes]]) -> bytes:
    return exchange_pb2.EnrolRequest(
        devices=[
            exchange_pb2.Enrolment(device_id=name, token_digest=digest) for name, digest in devices
        ],
    ).SerializeToString()


def _check_in(reports: list[bytes], known: list[bytes]) -> bytes:
    return exchange_pb2.CheckInRequest(reports=reports, known_studies=known).SerializeToString()


def _identity(device: bytes, token: bytes) -> Metadata:
    return ((PROTOCOL_KEY, str(PROTOCOL)), (DEVICE_KEY, device), (TOKEN_KEY, token))


def _signed_call(public_key: bytes, subject: bytes, at_unix_s: int, signature: bytes) -> Metadata:
    message = analyst_pb2.SignedCall(
        public_key=public_key, subject=subject, at_unix_s=at_unix_s, signature=signature
    )
    return ((CALL_KEY, message.SerializeToString()),)
