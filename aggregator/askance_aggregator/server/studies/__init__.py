"""Submitted studies: checked, run and concluded.

Its rules: a study is checked whole before it is accepted, and is durable before its analyst is
answered. It runs in a thread of its own, a session over the service's devices, and what it needs to
go on is in the store: after a crash every open study is replayed from its transcript and continued.
It ends once, and its end is durable before it is reported. A disk that fails ends no study: it is
tried again, and the devices wait. An analyst sees its own studies and no others.

`submissions` checks what may be submitted, `manager` manages the studies, `runs` runs one.
"""

from askance_aggregator.server.studies.manager import StudyManager, StudyStatus, UnknownStudy
from askance_aggregator.server.studies.submissions import SubmissionLimits
from askance_aggregator.studies.submitted import SubmissionRefused

__all__ = [
    "StudyManager",
    "StudyStatus",
    "SubmissionLimits",
    "SubmissionRefused",
    "UnknownStudy",
]
