"""Durable state of the aggregator: devices, studies, transcripts and reports.

Its rules: what an operation returned is durable; a batch of reports is one transaction, and a
report counts exactly once by (request, device). The same bytes again are a duplicate; other bytes
are a conflict, refused and kept as evidence. Bytes are kept as they arrived, never serialised
again. Tokens are kept as digests. A store that is missing, damaged, in use or of a newer version
refuses to open; `create` is the operator's decision.

Every operation blocks and may be called from any thread. `sql_store` has the operations, in
SQL, over a `dialect` of each database: `sqlite` for a service of one process,
`postgresql` for an organisation that runs that database. `locations` has their addresses.
"""

from askance_aggregator.store.audit import (
    AuditBroken,
    AuditEntry,
    AuditEvent,
    AuditLog,
    NonceKnown,
    entry_of_json,
    every_entry,
    verify_entries,
)
from askance_aggregator.store.backups import Manifest, RestoreNote, open_backup
from askance_aggregator.store.certificates import CertificateHolder, StoredCertificate
from askance_aggregator.store.inspection import StoreFacts
from askance_aggregator.store.listing import (
    MAX_STUDIES,
    ListedState,
    ListOrder,
    StudyEntry,
    StudyExtent,
    StudyList,
    StudyQuery,
    StudyState,
)
from askance_aggregator.store.locations import (
    PostgresqlLocation,
    SqliteLocation,
    StoreLocation,
    check_backup,
    move_store,
    store_location,
)
from askance_aggregator.store.management import SubmissionNote
from askance_aggregator.store.moves import MOVE_ID_BYTES, MoveContext, Moved
from askance_aggregator.store.outer import KeptAccount, OuterRelease
from askance_aggregator.store.replicas import (
    COUNTED_S,
    LEASE_S,
    LeaseLost,
    ReplicaCounts,
    ReplicaEntry,
    RoundAnswers,
    SharedStudy,
    TakingRound,
    sum_answers,
    sum_counts,
)
from askance_aggregator.store.retention import KeptStudy, StudyNotEnded
from askance_aggregator.store.sql_store import Store
from askance_aggregator.store.sqlite import SqliteStore
from askance_aggregator.store.tagged_population import TaggedPopulation
from askance_aggregator.store.values import (
    MAX_EVIDENCE,
    AskedRequest,
    Conclusion,
    Deadline,
    Enrolled,
    EnrolledDevice,
    EnrolledGateway,
    EnrolmentRefused,
    EpochEntry,
    OpenRounds,
    RoundNote,
    StoredReport,
)
from askance_aggregator.store.watch import StoreWatch
from askance_aggregator.store.webhooks import Receiving, WebhookClaim, WebhookFigures, WebhookQueue

__all__ = [
    "COUNTED_S",
    "LEASE_S",
    "MAX_EVIDENCE",
    "MAX_STUDIES",
    "MOVE_ID_BYTES",
    "AskedRequest",
    "AuditBroken",
    "AuditEntry",
    "AuditEvent",
    "AuditLog",
    "CertificateHolder",
    "Conclusion",
    "Deadline",
    "Enrolled",
    "EnrolledDevice",
    "EnrolledGateway",
    "EnrolmentRefused",
    "EpochEntry",
    "KeptAccount",
    "KeptStudy",
    "LeaseLost",
    "ListOrder",
    "ListedState",
    "Manifest",
    "MoveContext",
    "Moved",
    "NonceKnown",
    "OpenRounds",
    "OuterRelease",
    "PostgresqlLocation",
    "Receiving",
    "ReplicaCounts",
    "ReplicaEntry",
    "RestoreNote",
    "RoundAnswers",
    "RoundNote",
    "SharedStudy",
    "SqliteLocation",
    "SqliteStore",
    "Store",
    "StoreFacts",
    "StoreLocation",
    "StoreWatch",
    "StoredCertificate",
    "StoredReport",
    "StudyEntry",
    "StudyExtent",
    "StudyList",
    "StudyNotEnded",
    "StudyQuery",
    "StudyState",
    "SubmissionNote",
    "TaggedPopulation",
    "TakingRound",
    "WebhookClaim",
    "WebhookFigures",
    "WebhookQueue",
    "check_backup",
    "entry_of_json",
    "every_entry",
    "move_store",
    "open_backup",
    "store_location",
    "sum_answers",
    "sum_counts",
    "verify_entries",
]
