"""Studies, requests, reports and exchanges that must be refused."""

from __future__ import annotations

from typing import Any

from askance_aggregator.encoding import encode_study, sign_study
from askance_client.service import MAX_REQUESTS
from askance_protos.v1 import exchange_pb2, study_pb2
from tests.vectors.good_cases import KEY, requests, signed_bytes, terms
from tests.vectors.refusals import (
    FUTURE,
    PARAMETER,
    QUERY,
    REMOTE,
    TOO_LARGE,
    Cases,
    Change,
    case,
    changed,
    everywhere,
    long_case,
    oversize,
)


def studies() -> Cases:
    data = encode_study(terms())

    def altered(change: Change) -> bytes:
        return changed(study_pb2.Study, data, change)

    def too_many_waves(message: Any) -> None:
        message.conduct.CopyFrom(study_pb2.Conduct(beta="1/2", confidence="1/2", waves=17))

    def repeating(given: dict[str, int]) -> Change:
        return lambda message: message.repeat.CopyFrom(study_pb2.Repeat(**given))

    def unsorted(message: Any) -> None:
        message.parameters.reverse()

    return [
        *everywhere("Study"),
        oversize("Study", 256 * 1024),
        case(
            "a short nonce",
            altered(lambda m: setattr(m, "nonce", bytes(15))),
            REMOTE,
            "study: expected a nonce of 16 bytes, found 15",
        ),
        case(
            "no budget",
            altered(lambda m: m.ClearField("budget_nano_nats")),
            REMOTE,
            "study: expected a budget above 0 nano-nats, found 0",
        ),
        case(
            "no expiry",
            altered(lambda m: m.ClearField("expires_unix_s")),
            REMOTE,
            "study: expected an expiry, found none",
        ),
        case(
            "parameters out of order",
            altered(unsorted),
            REMOTE,
            "study: expected parameters sorted by name, none twice",
        ),
        case(
            "fields out of order",
            altered(lambda m: m.fields.reverse()),
            REMOTE,
            "study: expected fields sorted by name, none twice",
        ),
        case(
            "a field twice",
            altered(lambda m: m.fields.insert(0, m.fields[0])),
            REMOTE,
            "study: expected fields sorted by name, none twice",
        ),
        case(
            "a field that the schema does not have",
            altered(lambda m: m.fields.append("weight")),
            REMOTE,
            "study: expected fields of its schema, got another name",
        ),
        case(
            "one wave, told",
            altered(lambda m: setattr(m.conduct, "waves", 1)),
            REMOTE,
            "study: expected 2 waves or more, or none told, found 1",
        ),
        case(
            "too many waves",
            altered(too_many_waves),
            PARAMETER,
            "waves: expected 1 to 16, found 17",
        ),
        *(
            case(
                name,
                altered(repeating(given)),
                PARAMETER,
                f"repeat: expected {what}, got {found}",
            )
            for name, given, what, found in (
                ("epochs of no day", {"epochs": 2, "first": 9}, "every of 1 to 3660", 0),
                ("no epochs", {"every_days": 7, "first": 9}, "epochs of 1 to 1024", 0),
                ("epoch 0", {"every_days": 7, "epochs": 2}, "first epoch of 1 to 2147483648", 0),
                (
                    "too many epochs",
                    {"every_days": 7, "epochs": 1_025, "first": 9},
                    "epochs of 1 to 1024",
                    1_025,
                ),
            )
        ),
        case("no schema", altered(lambda m: m.ClearField("schema")), PARAMETER, "a printable name"),
        case(
            "a distribution without a version",
            altered(lambda m: setattr(m, "distribution", "askance-median")),
            REMOTE,
            "study: expected a distribution as name==version, found none",
        ),
    ]


def signed_studies() -> Cases:
    """Return messages that parse and whose signature does not hold."""
    good = sign_study(terms(), KEY)
    no = "the signature does not hold"

    def with_(**parts: bytes) -> bytes:
        study, key, signature = good.study, good.public_key, good.signature
        values = {"study": study, "public_key": key, "signature": signature, **parts}
        return signed_bytes(type(good)(**values))

    flipped = good.study[:-1] + bytes([good.study[-1] ^ 1])
    return [
        case("a bit of the study flipped", with_(study=flipped), "BAD_SIGNATURE", no),
        case(
            "a signature without its context",
            with_(signature=KEY.sign(good.study)),
            "BAD_SIGNATURE",
            no,
        ),
        case("another key", with_(public_key=bytes(31) + b"\x01"), "BAD_SIGNATURE", no),
        case("a short key", with_(public_key=good.public_key[:31]), "BAD_SIGNATURE", no),
        case("a short signature", with_(signature=good.signature[:63]), "BAD_SIGNATURE", no),
        case("nothing", b"", "BAD_SIGNATURE", no),
    ]


def bad_requests() -> Cases:
    data = bytes.fromhex(requests()[0]["hex"])

    def altered(change: Change) -> bytes:
        return changed(exchange_pb2.Request, data, change)

    def future(message: Any) -> None:
        message.query.nodes[0].MergeFromString(bytes.fromhex(FUTURE))

    return [
        *everywhere("Request"),
        oversize("Request", 256 * 1024),
        case(
            "an unknown field deep inside",
            altered(future),
            REMOTE,
            "Request: expected known fields only, found others",
        ),
        case(
            "a short digest",
            altered(lambda m: setattr(m, "study_digest", bytes(31))),
            REMOTE,
            "request: expected a study digest of 32 bytes, found 31",
        ),
        case(
            "no randomizer",
            altered(lambda m: m.ClearField("randomizer")),
            REMOTE,
            "randomizer: expected a family, found none",
        ),
        case("no query", altered(lambda m: m.ClearField("query")), QUERY, "a known kind"),
    ]


def reports() -> Cases:
    pb = exchange_pb2
    digest = bytes(range(32))

    def made(**fields: Any) -> bytes:
        return pb.Report(**{"request_digest": digest, **fields}).SerializeToString()

    refusal = pb.Refusal(reason=pb.Reason.ValueType(99))
    return [
        *everywhere("Report"),
        oversize("Report", 16 * 1024),
        case(
            "neither an answer nor a refusal",
            made(),
            REMOTE,
            "report: expected a symbol or a refusal, found neither",
        ),
        case(
            "a short digest",
            made(request_digest=digest[1:], symbol=b"x"),
            REMOTE,
            "report: expected a request digest of 32 bytes, found 31",
        ),
        case(
            "an unknown reason",
            made(refusal=refusal),
            REMOTE,
            "report: expected a known reason, found number 99",
        ),
        case(
            "no reason",
            made(refusal=pb.Refusal()),
            REMOTE,
            "report: expected a known reason, found number 0",
        ),
    ]


def check_ins() -> Cases:
    return [
        *everywhere("CheckInRequest"),
        oversize("CheckInRequest", 1024 * 1024, TOO_LARGE),
        long_case(
            "too many reports",
            [["0a0178", 65]],
            TOO_LARGE,
            "exchange: expected at most 64 reports, found 65",
        ),
        long_case(
            "too many known studies",
            [["1220" + "00" * 32, 257]],
            TOO_LARGE,
            "exchange: expected at most 256 known studies, found 257",
        ),
        case(
            "a short digest",
            "120178",
            REMOTE,
            "exchange: expected a digest of 32 bytes for a known study, found 1",
        ),
    ]


def responses() -> Cases:
    return [
        *everywhere("CheckInResponse"),
        oversize("CheckInResponse", 1024 * 1024, TOO_LARGE),
        long_case(
            "too many requests",
            [["1a0178", MAX_REQUESTS + 1]],
            TOO_LARGE,
            "exchange: expected at most 64 requests, found 65",
        ),
        long_case(
            "too many studies",
            [["1200", 65]],
            TOO_LARGE,
            "exchange: expected at most 64 studies, found 65",
        ),
        case(
            "an unknown status",
            "0a24" + "0a20" + "00" * 32 + "1063",
            REMOTE,
            "exchange: expected a known status, found number 99",
        ),
        case(
            "an acknowledgement of nothing",
            "0a021001",
            REMOTE,
            "exchange: expected a digest of 32 bytes for an acknowledged request, found 0",
        ),
    ]
