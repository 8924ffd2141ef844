"""The trusted base: the code that a device runs, and all that decides privacy.

Audit this folder and you have audited the privacy claim. Its rules:

- No float decides what is revealed: probabilities are integers over 2^64, budgets are integer
  nano-nats, queries are evaluated in fixed point. A test walks this folder for it.
- The device trusts no other party: it computes the privacy loss of what it is asked by itself and
  charges that; it checks the study's signature, its own policy and its ledger.
- Spend before send; never refund; a retry resends the stored bytes.
- Charges and refusals depend on the history of requests only, never on the record.

`DeviceClient` is the device within an application; its modules are imported when it is first used.

Inside, imports go ``embedding -> cli -> {console, service} -> owner -> device ->
{ledger, codec, records} -> {randomizers, queries} -> accounting``.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from askance_client.version import __version__

if TYPE_CHECKING:
    from askance_client.device import Policy
    from askance_client.embedding import DeviceClient, outside_hours
    from askance_client.records import KeptHistory, Several

_MODULES = {
    "DeviceClient": "askance_client.embedding",
    "KeptHistory": "askance_client.records",
    "Policy": "askance_client.device",
    "Several": "askance_client.records",
    "outside_hours": "askance_client.embedding",
}
"""Module of each public name; imported when the name is first used, for it loads gRPC."""

__all__ = ["DeviceClient", "KeptHistory", "Policy", "Several", "__version__", "outside_hours"]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
