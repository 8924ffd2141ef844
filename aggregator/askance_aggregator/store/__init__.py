"""Durable state of the aggregator: devices, studies, transcripts and reports.

Its rules: what an operation returned is durable; a batch of reports is one transaction, and a
report counts exactly once by (request, device). The same bytes again are a duplicate; other bytes
are a conflict, refused and kept as evidence. Bytes are kept as they arrived, never serialised
again. Tokens are kept as digests. A store that is missing, damaged, in use or of a newer version
refuses to open; `create` is the operator's decision.

Every operation blocks and may be called from any thread. `contract` says what a store does, and one
suite of tests runs on all of them: `memory` for simulations, `sqlite` for a service of one process.
"""

from askance_aggregator.store.contract import (
    DEVICE_ID_BYTES,
    MAX_EVIDENCE,
    AskedRequest,
    Conclusion,
    Deadline,
    Enrolled,
    EnrolledDevice,
    EnrolmentRefused,
    RoundNote,
    Store,
    StoredReport,
    StudyEntry,
    StudyLog,
    StudyState,
)
from askance_aggregator.store.memory import MemoryStore
from askance_aggregator.store.sqlite import SqliteStore
from askance_aggregator.store.watch import StoreWatch

__all__ = [
    "DEVICE_ID_BYTES",
    "MAX_EVIDENCE",
    "AskedRequest",
    "Conclusion",
    "Deadline",
    "Enrolled",
    "EnrolledDevice",
    "EnrolmentRefused",
    "MemoryStore",
    "RoundNote",
    "SqliteStore",
    "Store",
    "StoreWatch",
    "StoredReport",
    "StudyEntry",
    "StudyLog",
    "StudyState",
]
