"""The calls of an analyst over real gRPC: what they give, and how they are refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from askance.cli import main
from askance_aggregator import learners
from askance_aggregator.analyst import CallRefused, StudyExport, connect, sign_submission, state_of
from askance_aggregator.analyst.calls import Call, call_metadata, sign_call
from askance_aggregator.analyst.connections import unreachable
from askance_aggregator.analyst.messages import REASON_KEY, SERVICE, submission
from askance_aggregator.clock import system_now_s
from askance_aggregator.families import best_for
from askance_aggregator.queries import predicate
from askance_aggregator.server.studies import SubmissionLimits
from askance_aggregator.store import SqliteStore, StudyState
from askance_aggregator.studies.study import Study
from askance_client.codec import digest_of
from askance_client.errors import InvalidParameter, PlanRefused
from askance_client.messages import SignedStudy
from askance_client.service import Metadata
from askance_protos.v1 import analyst_pb2 as pb
from askance_simulation.populations import masked_parity
from askance_simulation.randomness import Seed
from tests.aggregator.analyst.conftest import serving

if TYPE_CHECKING:
    from tests.aggregator.analyst.conftest import ServedManager

OpenHouse = Callable[..., AbstractContextManager["ServedManager"]]
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))  # the deployment's
Code = grpc.StatusCode
UNKNOWN_KEY = Ed25519PrivateKey.from_private_bytes(bytes([7]) * 32)


def test_a_study_from_its_submission_to_its_end(open_served: OpenHouse, tmp_path: Path) -> None:
    """The right mask is found, but for one study in 10^7: coins are of a random nonce."""
    people = masked_parity(300, Seed.of(11), 2)
    with (
        open_served(devices=True, population=people) as served,
        served.connected() as aggregator,
    ):
        handle = aggregator.submit(served.study(beta="1/10000000"))
        events = list(handle.watch(timeout_s=60))
        assert state_of(events[-1]) is StudyState.DONE
        assert events[-1].round == 2
        assert {state_of(event) for event in events[:-1]} <= {StudyState.OPEN}
        result = handle.result()
        target = served.population.target
        assert isinstance(target, learners.MaskedParity)
        assert result.hypothesis == target.to_json()
        assert (result.state, result.reason, result.message) == (StudyState.DONE, "done", "")
        assert result.epsilon["max_spent"] <= result.epsilon["budget"] == 4.0
        assert result.verify().transcript == result.transcript
        export = handle.export(tmp_path / "study.json")
        assert StudyExport.read(tmp_path / "study.json") == export
        assert export.result == result.to_json()
        (summary,) = aggregator.studies()
        assert (summary.study_digest.hex(), state_of(summary)) == (handle.id, StudyState.DONE)
        assert aggregator.study(handle.id[:8]).id == handle.id
        assert aggregator.study(handle.id.upper()).status() == events[-1]
        assert handle.cancel() is StudyState.DONE


def test_the_same_signed_study_is_taken_in_once(quiet_served: ServedManager) -> None:
    with quiet_served.connected() as aggregator:
        signed = sign_submission(
            quiet_served.study(), Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
        )
        first, second = aggregator.submit_signed(signed), aggregator.submit_signed(signed)
        assert first.id == second.id
        assert len(aggregator.studies()) == 1
        assert aggregator.submit(quiet_served.study()).id != first.id


def test_an_open_study_can_be_watched_and_cancelled(quiet_served: ServedManager) -> None:
    with quiet_served.connected() as aggregator:
        handle = aggregator.submit(quiet_served.study())
        with pytest.raises(CallRefused, match="got it open") as caught:
            handle.result(timeout_s=0.3)
        assert caught.value.reason == "timeout"
        assert state_of(handle.status()) is StudyState.OPEN
        assert handle.fetch().result is None
        assert handle.cancel() is StudyState.CANCELLED
        result = handle.result()
        assert (result.reason, result.hypothesis) == ("cancelled", None)
        assert result.verify().state == "cancelled"


def test_another_analysts_study_is_unknown(
    quiet_served: ServedManager, other_key: Ed25519PrivateKey
) -> None:
    with quiet_served.connected() as mine, quiet_served.connected(other_key) as others:
        handle = mine.submit(quiet_served.study())
        assert others.studies() == []
        stolen = others.study(handle.id)
        for call in (stolen.status, stolen.result, stolen.fetch, stolen.cancel):
            with pytest.raises(CallRefused) as caught:
                call()
            assert caught.value.reason == "unknown-study"
        with pytest.raises(InvalidParameter, match="got none"):
            others.study(handle.id[:10])


def test_a_stranger_is_refused(quiet_served: ServedManager) -> None:
    with quiet_served.connected() as mine, quiet_served.connected(UNKNOWN_KEY) as unknown:
        handle = mine.submit(quiet_served.study())
        with pytest.raises(CallRefused) as caught:
            unknown.submit(quiet_served.study())
        assert caught.value.reason == "untrusted-key"
        for call in (unknown.studies, unknown.study(handle.id).cancel):
            with pytest.raises(CallRefused) as caught:
                call()
            assert caught.value.reason == "untrusted-key"


def test_what_cannot_work_is_refused_before_anybody_is_asked(quiet_served: ServedManager) -> None:
    with quiet_served.connected() as aggregator:
        with pytest.raises(PlanRefused, match="the plan needs"):
            aggregator.submit(quiet_served.study(epsilon="0.5"))
        assert aggregator.studies() == []


def test_limits_of_the_study_manager(open_served: OpenHouse) -> None:
    limits = SubmissionLimits(open_studies=1, user_nano_nats=8 * 10**9)
    with open_served(devices=False, limits=limits) as served, served.connected() as aggregator:
        with pytest.raises(PlanRefused, match="what other studies leave"):
            aggregator.submit(served.study(epsilon="9"))
        aggregator.submit(served.study())
        with pytest.raises(CallRefused) as caught:
            aggregator.submit(served.study())
        assert caught.value.reason == "too-many-studies"


def test_a_learner_or_design_of_ones_own_is_not_signed(quiet_served: ServedManager) -> None:
    schema = quiet_served.population.schema

    @learners.adaptive("mine")
    def mine() -> learners.Learning[None]:
        yield learners.Batch([learners.Question(predicate(schema["b"] == 1))])

    with quiet_served.connected() as aggregator:
        asked = quiet_served.study(design=lambda levels, nano_nats: best_for(levels, nano_nats))
        with pytest.raises(InvalidParameter, match="found a design of its own"):
            aggregator.submit(asked)
        with pytest.raises(InvalidParameter, match="no learner 'mine'"):
            aggregator.submit(Study(mine(), schema, epsilon=1))


def calling(call: Call, study: bytes, key: Ed25519PrivateKey, now_s: int | None = None) -> Metadata:
    """Return the metadata of a call that is signed now."""
    return call_metadata(sign_call(call, study, key, system_now_s() if now_s is None else now_s))


def submitting(data: bytes, study: bytes = bytes(32)) -> tuple[Metadata, bytes]:
    """Return a submission that the analyst has signed, whatever is in it."""
    return calling(Call("Analysts/Submit"), study, KEY), data


FORGED = SignedStudy(b"", UNKNOWN_KEY.public_key().public_bytes_raw(), bytes(64))
Bad = tuple[str, tuple[Metadata, bytes], grpc.StatusCode, str]


def bad() -> dict[str, Bad]:
    """Calls that are refused, signed now: a signature of some minutes ago is stale."""
    return {
        "no submission": ("Submit", submitting(b"\xff"), Code.INVALID_ARGUMENT, "malformed"),
        "an empty submission": ("Submit", submitting(b""), Code.INVALID_ARGUMENT, "malformed"),
        "too long a submission": (
            "Submit",
            submitting(bytes(300_000)),
            Code.INVALID_ARGUMENT,
            "malformed",
        ),
        "another study than was signed for": (
            "Submit",
            submitting(submission(FORGED).SerializeToString()),
            Code.UNAUTHENTICATED,
            "bad-signature",
        ),
        "a forged study": (
            "Submit",
            submitting(submission(FORGED).SerializeToString(), digest_of(b"")),
            Code.PERMISSION_DENIED,
            "untrusted-key",
        ),
        "a unknown's submission": (
            "Submit",
            (
                calling(Call("Analysts/Submit"), digest_of(b""), UNKNOWN_KEY),
                submission(FORGED).SerializeToString(),
            ),
            Code.PERMISSION_DENIED,
            "untrusted-key",
        ),
        **{
            f"no call to {method}": (method, ((), b""), Code.INVALID_ARGUMENT, "malformed")
            for method in pb.DESCRIPTOR.services_by_name["Analysts"].methods_by_name
        },
        "a list of another's studies": (
            "List",
            (calling(Call("Analysts/List"), UNKNOWN_KEY.public_key().public_bytes_raw(), KEY), b""),
            Code.UNAUTHENTICATED,
            "bad-signature",
        ),
        "a stale call": (
            "Watch",
            (calling(Call("Analysts/Watch"), bytes(32), KEY, 1_000), b""),
            Code.UNAUTHENTICATED,
            "stale-call",
        ),
    }


@pytest.fixture(scope="module")
def unchanged() -> Iterator[ServedManager]:
    """For all calls that must leave nothing behind."""
    with serving(devices=False) as served:
        yield served


def parts_of(stream: Any) -> Callable[..., list[bytes]]:
    return lambda data, **how: list(stream(data, **how))


@pytest.mark.parametrize("what", bad())
def test_bad_bytes_have_a_clean_status(unchanged: ServedManager, what: str) -> None:
    method, (metadata, data), code, reason = bad()[what]
    with grpc.insecure_channel(unchanged.address) as channel:
        path = f"/{SERVICE}/{method}"
        call: Any = channel.unary_unary(path)
        if method in ("Watch", "Export"):
            call = parts_of(channel.unary_stream(path))
        with pytest.raises(grpc.RpcError) as caught:
            call(data, timeout=10, metadata=metadata)
    error: Any = caught.value
    assert error.code() is code
    assert dict(error.trailing_metadata())[REASON_KEY] == reason
    assert "\n" not in error.details()
    with unchanged.connected() as aggregator:
        assert aggregator.studies() == []


def test_a_list_shows_a_pause_to_clients_that_know_it(
    quiet_served: ServedManager, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The request of an older client is empty, and its answer has no field that it would refuse."""
    file = tmp_path / "analyst.pem"
    file.write_bytes(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with quiet_served.connected() as aggregator:
        handle = aggregator.submit(quiet_served.study())
        assert [one.reason for one in aggregator.studies()] == [""]
        handle.pause()
        assert [one.reason for one in aggregator.studies()] == ["paused"]
        older = aggregator.unary(
            Call("Analysts/List"),
            aggregator.subject,
            pb.ListStudiesRequest(),
            pb.ListStudiesResponse,
        )
        assert not older.HasField("extent")
        assert [(one.reason, one.public_key) for one in older.studies] == [("", b"")]
    where = ["--aggregator", quiet_served.address, "--key", str(file)]
    assert main(["study", "list", *where]) == 0
    row = capsys.readouterr().out.splitlines()[-1].split()
    assert (row[:2], row[3:6]) == ([handle.id[:12], "paused"], ["-", "300", "0"])


def test_an_open_study_outlives_its_aggregator(open_served: OpenHouse) -> None:
    store = SqliteStore.in_memory()
    with open_served(devices=False, store=store) as served, served.connected() as aggregator:
        name = aggregator.submit(served.study()).id
    with open_served(devices=True, store=store) as served, served.connected() as aggregator:
        assert aggregator.study(name).result(timeout_s=60).reason == "done"


def test_nobody_listens(tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    with connect("127.0.0.1:9", key=key) as aggregator:
        with pytest.raises(CallRefused, match="cannot be reached") as caught:
            aggregator.studies()
        assert caught.value.reason == "unreachable"
    for address in ("127.0.0.1", "", "here:port"):
        with pytest.raises(InvalidParameter, match="expected HOST:PORT"):
            connect(address, key=key)
    with pytest.raises(InvalidParameter, match="got both"):
        connect("127.0.0.1:9", key=key, ca=tmp_path / "ca.pem", plaintext=True)
    with pytest.raises(InvalidParameter, match="cannot be read"):
        connect("127.0.0.1:9", key=key, ca=tmp_path / "ca.pem")
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(InvalidParameter, match=r"expected a certificate \(PEM\), got other bytes"):
        connect("127.0.0.1:9", key=key, ca=tmp_path / "ca.pem")


@pytest.mark.parametrize(
    ("details", "ca", "told"),
    [
        (
            "x CERTIFICATE_VERIFY_FAILED",
            Path("ca.pem"),
            "expected a certificate that the ca signed",
        ),
        ("x WRONG_VERSION_NUMBER", Path("ca.pem"), "expected TLS, got plain text"),
        ("x Socket closed", None, "if it speaks TLS, name its authority"),
        ("x Connection refused", Path("ca.pem"), "cannot be reached"),
        ("x Connection refused", None, "cannot be reached"),
    ],
)
def test_why_it_was_not_reached(details: str, ca: Path | None, told: str) -> None:
    assert told in unreachable(details, ca)
    assert unreachable(details, ca).endswith(f": {details}")


def test_a_result_is_one_json_object(done: StudyExport) -> None:
    assert done.result is not None
    assert json.loads(json.dumps(done.result)) == done.result


def test_a_poor_result_is_printed_with_what_would_help_and_without_a_connection(
    served: ServedManager, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The interval is the whole range, but for one study in 10^6: coins are of a random nonce."""
    key = tmp_path / "key.pem"
    key.write_bytes(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    schema = served.population.schema
    learner = learners.mean(schema["b"])
    study = Study(learner, schema, epsilon="0.1", least_answers=1, confidence="0.999999")
    with served.connected() as aggregator:
        handle = aggregator.submit(study)
        result = handle.result()
        assert "What would help, by the planner: " in str(result)
    where = ["--aggregator", served.address, "--key", str(key)]
    assert main(["study", "result", handle.id, *where]) == 0
    assert "What would help, by the planner: " in capsys.readouterr().out
    text = str(result)  # the connection is closed
    assert "300 users" in text
    assert "What would help" not in text
