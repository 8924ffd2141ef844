"""A study with no users is refused, in words, before anything is recorded."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance.aggregator.learners import mean
from askance.aggregator.service import AggregatorServer
from askance.aggregator.session import MemoryLog, Session
from askance.aggregator.store import MemoryStore
from askance.aggregator.study import Study
from askance.client.errors import InvalidParameter
from askance.client.queries import Integer, Schema

SCHEMA = Schema("people", 1, age=Integer(0, 100))


def test_a_study_with_no_users_is_refused_before_anything_is_recorded() -> None:
    study = Study(mean(SCHEMA.age), SCHEMA, epsilon=1)
    signed = study.sign(Ed25519PrivateKey.generate(), nonce=bytes(16), expires_unix_s=2**40)
    log = MemoryLog()
    with (
        AggregatorServer.start(MemoryStore()) as server,
        pytest.raises(InvalidParameter, match="found 0"),
    ):
        Session(
            study=signed,
            learner=study.learner,
            fleet=server.fleet,
            log=log,
            cohort_seed=bytes(32),
        ).run()
    assert list(log.lines()) == []
