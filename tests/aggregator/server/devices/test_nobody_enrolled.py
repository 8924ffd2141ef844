"""A study with no users is refused, in words, before anything is recorded."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.learners import mean
from askance_aggregator.server.devices import AggregatorServer
from askance_aggregator.store import SqliteStore
from askance_aggregator.studies import MemoryLog, Session
from askance_aggregator.studies.study import Study
from askance_client.errors import InvalidParameter
from askance_client.queries import Integer, Schema

SCHEMA = Schema("people", 1, age=Integer(0, 100))


def test_a_study_with_no_users_is_refused_before_anything_is_recorded() -> None:
    study = Study(mean(SCHEMA.age), SCHEMA, epsilon=1)
    signed = study.sign(Ed25519PrivateKey.generate(), nonce=bytes(16), expires_unix_s=2**40)
    log = MemoryLog()
    with (
        AggregatorServer.start(SqliteStore.in_memory()) as server,
        pytest.raises(InvalidParameter, match="found 0"),
    ):
        Session(
            study=signed,
            learner=study.learner,
            fleet=server.fleet,
            log=log,
            cohort_seed=bytes(32),
            leaf_key=bytes(32),
        ).run()
    assert list(log.lines()) == []
