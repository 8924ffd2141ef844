"""Ledger of a device: its charges and its answers.

Its rules: a charge and its randomized report are one durable transaction, made before a byte leaves
(spend before send); nothing is ever refunded; a request once answered is answered again with the
stored bytes; a question once answered is frozen, and the same question under another request costs
nothing and reveals nothing new. The ledger gets the budget's limits and decides atomically, so
that two threads or two studies cannot both spend the last nano-nat. A ledger that is missing,
damaged, in use or of a newer version refuses to open: `create` is the owner's decision.

A gateway's members each have a ledger of their own, all in one `LedgerFile`: budgets, frozen
answers and totals are a member's, the disk is waited for together (`group_commit`). A file is
bound to facts about its members' names, once (`LedgerFile.bind`).
"""

from askance_client.ledger.contract import (
    MAX_ANSWERS,
    SECONDS_PER_DAY,
    Charge,
    Entry,
    Ledger,
    Limits,
    Overrun,
    Span,
    Standing,
    Totals,
)
from askance_client.ledger.mark import mark_path
from askance_client.ledger.marked import LedgerBehind
from askance_client.ledger.postings import LOSS_STEP, NO_HASH, Posting, PostingKind
from askance_client.ledger.sqlite import LedgerFile, SqliteLedger

__all__ = [
    "LOSS_STEP",
    "MAX_ANSWERS",
    "NO_HASH",
    "SECONDS_PER_DAY",
    "Charge",
    "Entry",
    "Ledger",
    "LedgerBehind",
    "LedgerFile",
    "Limits",
    "Overrun",
    "Posting",
    "PostingKind",
    "Span",
    "SqliteLedger",
    "Standing",
    "Totals",
    "mark_path",
]
