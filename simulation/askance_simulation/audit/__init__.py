"""Black-box audits: the information that serialised reports carry about a record.

`askance verify` decides losses exactly, by a randomizer's integers, and so believes the code that
stands between those integers and the wire. An audit believes none of it. It asks real devices,
takes apart the bytes of their reports by the wire format's rules, and looks for

- **losses**: an event that is likelier under one record than under another by a factor of more than
  e^eps. The bound is statistical and holds from below: ln(p_low / p_high) with Clopper-Pearson's
  bounds of the two probabilities, each at its share of alpha over all events tried (Bonferroni).
  Events (a symbol, a byte, a bit, the first bit set, a length, thresholds of a likelihood ratio)
  are chosen and learned in one half of the reports and tested on the other, so that choosing costs
  nothing; the most informative event of the stated table is fixed and needs no choice. Two records
  with equal answers must have equal laws: their eps is 0;
- **departures**: a symbol or a cell that is reported more or less often than is stated (never, for
  example), by exact binomial tails. Randomizers that reveal less than they charge depart too;
- **broken promises**, in which there is no chance: bytes around the symbol that differ between
  reports, a charge that is not the announced one, other bytes when a device is asked again or
  restarted, another symbol or another charge when a question comes back in another study, and
  a report that no coins change.

Limits of an audit: it cannot show that a loss is absent. Without an alarm, no tried event had a
loss above eps that n reports prove; `detectable` is the least such loss, for an event as frequent
as the best one. A loss between records that were not asked, in events that
were not tried, or of a chance below about 1/n is not seen. The proof is `verify`; an audit is
evidence that what it proves is what runs.

Rules of the package: reports come from devices whose coins are fresh at every call; no decoder or
counter of the trusted base reads them, and what a randomizer states of its symbols is what they are
held against; an alarm is a line of text, false with a chance of at
most alpha. `audit` takes any function that returns bytes; `audit_devices` puts devices behind it.

Source: Clopper and Pearson, Biometrika 26 (1934); Ding, Wang, Wang, Zhang and Kifer, StatDP, 2018
(arXiv:1805.10559): hypothesis tests on events chosen from other samples; Bichsel, Steffen,
Bogunovic and Vechev, DP-Sniper, 2021: events from a learned likelihood ratio.
"""

from askance_simulation.audit.audit import (
    DEFAULT_EPSILONS,
    DEFAULT_REPORTS,
    Audit,
    Refused,
    audit,
    audit_as_built,
    audit_devices,
    audit_families,
    subjects,
)
from askance_simulation.audit.fleet import (
    AuditFleet,
    Case,
    FileLedgers,
    Maker,
    MemoryLedgers,
    StreamCoins,
    Subject,
    of_cells,
    subject_of,
)
from askance_simulation.audit.losses import Pair, exposures
from askance_simulation.audit.messages import Message, messages
from askance_simulation.audit.statements import compare, stated
from askance_simulation.families import of_many

__all__ = [
    "DEFAULT_EPSILONS",
    "DEFAULT_REPORTS",
    "Audit",
    "AuditFleet",
    "Case",
    "FileLedgers",
    "Maker",
    "MemoryLedgers",
    "Message",
    "Pair",
    "Refused",
    "StreamCoins",
    "Subject",
    "audit",
    "audit_as_built",
    "audit_devices",
    "audit_families",
    "compare",
    "exposures",
    "messages",
    "of_cells",
    "of_many",
    "stated",
    "subject_of",
    "subjects",
]
