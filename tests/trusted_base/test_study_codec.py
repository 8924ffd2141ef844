"""Studies on the wire: conduct in full, in one writing, and nothing lost on the way."""

from __future__ import annotations

from fractions import Fraction

import pytest

from askance_aggregator.encoding import encode_study
from askance_client.codec.studies import decode_study
from askance_client.errors import RemoteProtocolError
from askance_client.messages import Conduct, StudyTerms
from askance_client.queries import Bit, Schema
from askance_protos.v1 import study_pb2

CONDUCTS = [
    Conduct(),
    Conduct(waves=2),
    Conduct(waves=16),
    Conduct(round_deadline_s=1),  # one wave, beside something that is stated
    Conduct(round_deadline_s=(1 << 32) - 1),
    Conduct(least_answers=1),
    Conduct(least_answers=(1 << 63) - 1),
    Conduct(beta=Fraction(1, 3)),
    Conduct(confidence=Fraction(2, 3)),
]


def terms(conduct: Conduct) -> StudyTerms:
    return StudyTerms(
        nonce=bytes(16),
        learner="learner",
        learner_version=1,
        parameters=(("a", "1"), ("b", "2")),
        schema=Schema("s", 1, b=Bit()),
        budget_nano_nats=1,
        expires_unix_s=1,
        purpose="purpose",
        fields=("b",),
        conduct=conduct,
    )


@pytest.mark.parametrize("conduct", CONDUCTS)
def test_a_study_is_decoded_as_it_was_signed(conduct: Conduct) -> None:
    data = encode_study(terms(conduct))
    assert decode_study(data) == terms(conduct)
    assert study_pb2.Study.FromString(data).HasField("conduct") == (conduct != Conduct())


def test_one_wave_has_one_writing() -> None:
    message = study_pb2.Study.FromString(encode_study(terms(Conduct(waves=2))))
    message.conduct.waves = 1
    with pytest.raises(RemoteProtocolError, match="2 waves or more"):
        decode_study(message.SerializeToString())


@pytest.mark.parametrize("size", [0, 14, 15, 17, 18])
def test_a_nonce_has_16_bytes(size: int) -> None:
    message = study_pb2.Study.FromString(encode_study(terms(Conduct())))
    message.nonce = bytes(size)
    with pytest.raises(RemoteProtocolError, match="nonce of 16 bytes"):
        decode_study(message.SerializeToString())
