"""The studies that an aggregator was given: taken in, run, and concluded.

Its rules: a study is checked whole before it is taken in, and is durable when its analyst hears so.
It runs in a thread of its own, a session over the service's devices, and what it needs to go on is
in the store: after a crash every open study is replayed from its transcript and continued. It ends
once, and its end is durable before anybody is told. A disk that fails ends no study: it is tried
again, and the devices wait. An analyst sees its own studies and no others.

`submissions` says what may come in, `desk` runs it, `results` says what came of it.
"""

from askance.aggregator.desk.desk import Desk, StudyStatus, UnknownStudy
from askance.aggregator.desk.results import cohort_seed
from askance.aggregator.desk.submissions import DeskLimits, SubmissionRefused

__all__ = [
    "Desk",
    "DeskLimits",
    "StudyStatus",
    "SubmissionRefused",
    "UnknownStudy",
    "cohort_seed",
]
