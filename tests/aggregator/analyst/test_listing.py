"""Lists of studies as a client reads them."""

from __future__ import annotations

import pytest

from askance_aggregator.analyst import Aggregator
from askance_aggregator.store import StudyQuery
from askance_client.errors import RemoteProtocolError
from askance_protos.v1 import analyst_pb2 as pb


class Answering(Aggregator):
    """Aggregator that answers each query with the same studies, and says that one fits."""

    def __init__(self, *digests: bytes, more: bool = False) -> None:
        self._digests, self._more = digests, more

    def studies_page(self, query: StudyQuery) -> pb.ListStudiesResponse:
        return pb.ListStudiesResponse(
            studies=[
                pb.StudySummary(study_digest=digest, learner="mean", state=pb.STUDY_STATE_OPEN)
                for digest in self._digests
            ],
            extent=pb.StudyExtent(fitting=1, total=1, more=self._more),
        )


def test_a_study_is_taken_by_the_digits_that_begin_it_alone() -> None:
    """Else an aggregator could have another study cancelled than the one that was named."""
    digest = bytes(range(32))
    assert Answering(digest).study("00010203").id == digest.hex()
    for lie in ((), (bytes(32),), (digest, bytes(32))):
        with pytest.raises(RemoteProtocolError, match="begins with 00010203"):
            Answering(*lie).study("00010203")


def test_a_list_that_never_ends_is_an_error_and_a_long_part_is_cut() -> None:
    digests = tuple(bytes([number]) * 32 for number in range(4))
    with pytest.raises(RemoteProtocolError, match="expected 1 in all, got 2 or more"):
        Answering(*digests[:2], more=True).studies()
    listed = Answering(*digests).studies(limit=3)
    assert [study.study_digest for study in listed] == list(digests[2::-1])
