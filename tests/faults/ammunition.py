"""What is fired at a service: noise, valid messages that were damaged, and valid ones that lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import strategies as st
from tests.faults.hostile import ALLOWED, ALONE, HEALTH, INSIDER, STREAMED, Shot, Target
from tests.faults.people import KEY, NOW_S, PUBLIC

from askance.aggregator.analyst.calls import Call, encode_list_call, encode_study_call, sign_call
from askance.aggregator.analyst.wire import SERVICE as ANALYSTS
from askance.aggregator.analyst.wire import encode_submission
from askance.aggregator.operation.tokens import EnrolmentTokens
from askance.client.codec import decode_study, digest_of, encode_report, sign_study
from askance.client.messages import Reason, Refusal, Report, SignedStudy
from askance.client.service import SERVICE as DEVICES
from askance.client.service import CheckIn, Enrol, encode_check_in, encode_enrol
from askance.protos.v1 import analyst_pb2, exchange_pb2

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


class Ammunition:
    """Inputs for every call of a target."""

    def __init__(self, target: Target) -> None:
        self._study, self._payload = target.study, target.request
        self._valid = {
            f"{DEVICES}/Enrol": self._enrolments(),
            f"{DEVICES}/CheckIn": self._check_ins(),
            f"{DEVICES}/Participate": self._check_ins(),
            f"{ANALYSTS}/Submit": self._submissions(),
            f"{ANALYSTS}/List": [
                encode_list_call(sign_call(Call.LIST, PUBLIC, KEY, NOW_S)),
            ],
            **{
                f"{ANALYSTS}/{call}": self._calls(call)
                for call in (Call.WATCH, Call.RESULT, Call.EXPORT, Call.CANCEL)
            },
            f"{HEALTH}/Check": [b"", b"\x0a\x07nowhere"],
            f"{HEALTH}/Watch": [b"", b"\x0a\x07nowhere"],
        }

    def shots(self, size: int) -> st.SearchStrategy[list[Shot]]:
        """So many inputs at one time."""
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
        return st.builds(Shot, st.just(call), count.map(tuple))

    def _lies(self, call: str) -> st.SearchStrategy[bytes]:
        """Messages of the right kind with fields of any value."""
        if call.startswith(HEALTH):
            return st.text(max_size=40).map(lambda name: b"\x0a%c" % len(name.encode()[:120]))
        if call == f"{DEVICES}/Enrol":
            return st.builds(_enrolment, _WHOLE, _BYTES, st.lists(st.tuples(_BYTES, _BYTES)))
        if call.startswith(DEVICES):
            reports = st.lists(st.one_of(_BYTES, self._reports()), max_size=5)
            return st.builds(
                _check_in, st.one_of(st.just(1), _WHOLE), reports, st.lists(_BYTES, max_size=3)
            )
        if call == f"{ANALYSTS}/Submit":
            return st.builds(
                self._resigned, st.lists(_damages([ALONE.signed(0).study]), max_size=3)
            )
        return st.builds(_study_call, _BYTES, _TIME, _BYTES)

    def _reports(self) -> st.SearchStrategy[bytes]:
        outcome = st.one_of(
            _BYTES, st.builds(Refusal, st.sampled_from(Reason), st.text(max_size=10))
        )
        digest = st.sampled_from([digest_of(self._payload), self._study, bytes(32)])
        number = st.sampled_from([0, 1, 2**63, 2**64 - 1])
        return st.builds(Report, digest, outcome, number, number).map(encode_report)

    def _resigned(self, damages: Sequence[Damage]) -> bytes:
        """A damaged study under the analyst's own, valid signature."""
        study = damaged(ALONE.signed(0).study, damages)
        signature = KEY.sign(b"askance study v1\0" + study)
        return encode_submission(SignedStudy(study, PUBLIC, signature))

    def _enrolments(self) -> list[bytes]:
        devices = ((b"nobody", bytes(32)), (b"no one", bytes(32)))
        past = EnrolmentTokens(bytes(32), lambda: NOW_S - 10 * 86_400).issue(5, 1)
        forged = EnrolmentTokens(b"\1" * 32, lambda: NOW_S).issue(5, 30)
        texts = [past.text, forged.text, ""]
        return [encode_enrol(Enrol(text.encode(), devices)) for text in texts]

    def _check_ins(self) -> list[bytes]:
        me = CheckIn(device_id=INSIDER.device_id, token=INSIDER.token)
        report = encode_report(Report(digest_of(self._payload), b"\x01", 10**9, 10**9))
        return [
            encode_check_in(me),
            encode_check_in(replace(me, reports=(report, report))),
            encode_check_in(replace(me, known_studies=(self._study,))),
            encode_check_in(replace(me, token=bytes(32), reports=(report,))),
            encode_check_in(CheckIn(reports=(report,))),
        ]

    def _submissions(self) -> list[bytes]:
        terms = decode_study(ALONE.signed(0).study)
        return [
            encode_submission(ALONE.signed(0)),  # which is known
            encode_submission(sign_study(terms, STRANGER)),
            encode_submission(sign_study(replace(terms, expires_unix_s=NOW_S - 1), KEY)),
            encode_submission(sign_study(replace(terms, nonce=b"another's nonce."), KEY)),
        ]

    def _calls(self, call: Call) -> list[bytes]:
        """Calls that are valid, but for those that would cancel the study."""
        signed = [
            sign_call(call, self._study, STRANGER, NOW_S),
            sign_call(call, bytes(32), KEY, NOW_S),
            sign_call(call, self._study, KEY, NOW_S - 3_600),
            sign_call(Call.RESULT, self._study, KEY, NOW_S),
        ]
        if call is not Call.CANCEL:
            signed.append(sign_call(call, self._study, KEY, NOW_S))
        return [encode_study_call(one) for one in signed]


Damage = tuple[str, int, int, bytes]


def _damages(others: Sequence[bytes]) -> st.SearchStrategy[Damage]:
    """What can happen to bytes: a kind, two numbers that say where and how much, and others."""
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


def _enrolment(protocol: int, token: bytes, devices: list[tuple[bytes, bytes]]) -> bytes:
    return exchange_pb2.EnrolRequest(
        protocol=protocol,
        enrolment_token=token,
        devices=[
            exchange_pb2.Enrolment(device_id=name, token_digest=digest) for name, digest in devices
        ],
    ).SerializeToString()


def _check_in(protocol: int, reports: list[bytes], known: list[bytes]) -> bytes:
    return exchange_pb2.CheckInRequest(
        protocol=protocol,
        device_id=INSIDER.device_id,
        token=INSIDER.token,
        reports=reports,
        known_studies=known,
    ).SerializeToString()


def _study_call(subject: bytes, at_unix_s: int, signature: bytes) -> bytes:
    return analyst_pb2.StudyCall(
        study_digest=subject, at_unix_s=at_unix_s, signature=signature
    ).SerializeToString()
