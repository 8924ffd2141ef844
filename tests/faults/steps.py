"""Invariants after each operation: what was said and stored since the operation before."""

from __future__ import annotations

from askance_aggregator.store import Conclusion
from askance_client.codec import digest_of
from askance_client.messages import AckStatus
from tests.faults.deployment import Deployment
from tests.faults.invariants import is_collected


class Steps:
    """Checker of a deployment that changes."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._said = 0  # responses that were looked at
        self._requests: set[bytes] = set()  # that any device was asked
        self._accepted: set[tuple[int, bytes]] = set()
        self._rows: dict[tuple[bytes, int], bytes] = {}
        self._lines: dict[bytes, list[str]] = {}
        self._ended: dict[bytes, Conclusion] = {}
        self._out: set[int] = set()
        self._known: set[bytes] = set()  # ends that every process knew after the last operation

    def check(self) -> None:
        """Check what must hold now.

        Raises:
          AssertionError: a report that was acknowledged is gone or was accepted twice, a stored
            one has changed, a study that has ended goes on, or a device that is out takes part.
        """
        self._deployment.check()
        if not self._deployment.reachable:
            return
        out = self._out & self._deployment.out  # from the first moment of the step to its last
        self._check_said(out)
        self._check_rows(out)
        self._check_transcripts()
        self._out = set(self._deployment.out)
        self._known = self._deployment.known_ends(set(self._ended))

    def _check_said(self, out: set[int]) -> None:
        setup, store = self._deployment.setup, self._deployment.disk.store
        responses = self._deployment.recorder.responses
        for ordinal, response in responses[self._said :]:
            assert ordinal not in out, f"device {ordinal} is out and was answered"
            for payload in response.requests:
                self._requests.add(digest_of(payload))
                study = setup.request(payload).study_digest
                assert study not in self._known, "a study that has ended asks"
            for digest, status in response.acks:
                if status is AckStatus.ACCEPTED:
                    assert (ordinal, digest) not in self._accepted, "a report is accepted twice"
                    self._accepted.add((ordinal, digest))
                    asked = store.asked(digest)
                    assert asked is not None
                    stored = store.report(digest, ordinal) is not None
                    assert stored or is_collected(store, asked.study_digest), "a report is lost"
        self._said = len(responses)

    def _check_rows(self, out: set[int]) -> None:
        store = self._deployment.disk.store
        rows = {(r, ordinal): data for r in self._requests for ordinal, data in store.reports(r)}
        for key in rows.keys() | self._rows.keys():
            request, ordinal = key
            asked = store.asked(request)
            assert asked is not None
            if key not in rows:
                assert is_collected(store, asked.study_digest), "a stored report is gone"
            elif key not in self._rows:
                assert ordinal not in out, f"device {ordinal} is out and has a new report"
                assert asked.study_digest not in self._ended, "a study that has ended counts"
            else:
                assert rows[key] == self._rows[key], "a stored report has changed"
        self._rows = rows

    def _check_transcripts(self) -> None:
        store = self._deployment.disk.store
        ended = store.conclusions()
        for digest in store.studies():
            lines, before = list(store.log(digest).lines()), self._lines.get(digest, [])
            assert lines[: len(before)] == before, "a transcript has changed"
            if digest in self._ended:
                assert lines == before, "a study that has ended goes on"
                assert ended[digest] == self._ended[digest], "a study ends twice"
            self._lines[digest] = lines
        self._ended = ended
