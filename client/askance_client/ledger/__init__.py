"""Ledger of a device: its charges and its answers.

Its rules: a charge and its randomized report are one durable transaction, made before a byte leaves
(spend before send); nothing is ever refunded; a request once answered is answered again with the
stored bytes; a question once answered is frozen, and the same question under another request costs
nothing and reveals nothing new. The ledger gets the budget's limits and decides atomically, so
that two threads or two studies cannot both spend the last nano-nat. A ledger that is missing,
damaged, in use or of a newer version refuses to open: `create` is the owner's decision.

A gateway's members each have a ledger of their own, all in one `LedgerFile`: budgets, frozen
answers and totals are a member's, the disk is waited for together (`sqlite.GroupCommit`). A file is
bound to facts about its members' names, once (`LedgerFile.bind`).
"""

from askance_client.ledger.contract import MAX_ANSWERS as MAX_ANSWERS
from askance_client.ledger.contract import SECONDS_PER_DAY as SECONDS_PER_DAY
from askance_client.ledger.contract import Charge as Charge
from askance_client.ledger.contract import Entry as Entry
from askance_client.ledger.contract import Ledger as Ledger
from askance_client.ledger.contract import Limits as Limits
from askance_client.ledger.contract import Overrun as Overrun
from askance_client.ledger.contract import Span as Span
from askance_client.ledger.contract import Standing as Standing
from askance_client.ledger.contract import Totals as Totals
from askance_client.ledger.mark import mark_path as mark_path
from askance_client.ledger.marked import LedgerBehind as LedgerBehind
from askance_client.ledger.postings import LOSS_STEP as LOSS_STEP
from askance_client.ledger.postings import NO_HASH as NO_HASH
from askance_client.ledger.postings import Posting as Posting
from askance_client.ledger.postings import PostingKind as PostingKind
from askance_client.ledger.sqlite import LedgerFile as LedgerFile
from askance_client.ledger.sqlite import SqliteLedger as SqliteLedger
