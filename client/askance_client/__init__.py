"""The trusted base: the code that a device runs, and all that decides privacy.

Audit this folder and you have audited the privacy claim. Its rules:

- No float decides what is revealed: probabilities are integers over 2^64, budgets are integer
  nano-nats, queries are evaluated in fixed point. A test walks this folder for it.
- The device trusts no other party: it computes the privacy loss of what it is asked by itself and
  charges that; it checks the study's signature, its own policy and its ledger.
- Spend before send; never refund; a retry resends the stored bytes.
- Charges and refusals depend on the history of requests only, never on the record.

Inside, imports go ``cli -> service -> device -> {ledger, codec, records} -> {randomizers,
queries} -> accounting``.
"""

from askance_client.version import __version__

__all__ = ["__version__"]
