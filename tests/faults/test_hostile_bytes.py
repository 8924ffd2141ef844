"""Whatever bytes are sent to whichever call: a clean status, and nothing else happens."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from askance_client.codec import digest_of, encode_report
from askance_client.messages import Report
from askance_client.service import SERVICE as DEVICES
from askance_client.service import CheckIn, device_metadata, encode_check_in
from tests.faults.ammunition import LONG, Ammunition
from tests.faults.hostile import ALLOWED, ENDED_EARLY, INSIDER, Code, Shot, Target

STEADY = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("rounds", [25, pytest.param(100, marks=pytest.mark.nightly)])
def test_twenty_inputs_a_round(tmp_path: Path, rounds: int) -> None:
    with Target(tmp_path) as target:

        @settings(STEADY, max_examples=rounds)
        @given(Ammunition(target).shots(20))
        def fire(shots: list[Shot]) -> None:
            target.fire(shots)

        fire()
        for call in ALLOWED:
            codes = {code for called, code in target.statuses if called == call}
            assert codes - {Code.OK.name}, f"nothing was refused by {call}"
        target.check()


def test_messages_beyond_every_limit(tmp_path: Path) -> None:
    long = b"\x0a" + b"\xff\xff\x7f" + bytes(2 * LONG - 1)
    with Target(tmp_path) as target:
        target.fire([Shot(call, (long,)) for call in sorted(ALLOWED)])
        mine = device_metadata(INSIDER)
        target.fire(
            [Shot(f"{DEVICES}/{call}", (long,), mine) for call in ("CheckIn", "Participate")]
        )
        codes = {code for _, code in target.statuses}
        assert codes <= {
            Code.RESOURCE_EXHAUSTED.name,
            Code.INVALID_ARGUMENT.name,
            Code.FAILED_PRECONDITION.name,  # no credentials: the message was not read
            ENDED_EARLY,
        }
        target.check()


@pytest.mark.parametrize("then", [(), (b"\xff",)], ids=["nothing", "noise"])
def test_reports_in_a_first_message_and_then(tmp_path: Path, then: tuple[bytes, ...]) -> None:
    """The acknowledgement was called off while it was under way, and the stream never ended."""
    with Target(tmp_path) as target:
        report = encode_report(Report(digest_of(target.request), b"\x01", 0, 0))
        greeting = encode_check_in(CheckIn(reports=(report,)))
        for _ in range(20):
            shot = Shot(f"{DEVICES}/Participate", (greeting, *then), device_metadata(INSIDER))
            target.fire([shot])
        target.check()
