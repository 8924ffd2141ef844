"""Users per second of pure-ldp: one JSON object on stdout; argv is "full" or "quick".

Run in an environment of its own as `peers.pure_ldp.speed` (see `peers.measuring`). The users are
what its clients return, one call per user; there is no faster way through its public classes.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import Any

import numpy as np
from peers.measuring import CELLS, Shares, Speed, bits, cells, speed, tell

EPS = 1.0
HASHES = 1000  # of fast local hashing; made beforehand, as the peer's own documentation advises
USERS = {"full": (1_000_000, 50_000), "quick": (20_000, 500)}


def main(effort: str) -> list[Speed]:
    """Measure one bit by direct encoding, and 1,024 cells by every fast protocol."""
    warnings.simplefilter("ignore")
    peer: Any = importlib.import_module("pure_ldp.frequency_oracles")
    one, many = (bits(USERS[effort][0]), cells(USERS[effort][1], CELLS))
    rows = [speed("predicate", "direct encoding", one, Asked(peer, "DE", 2).answer)]
    for name, kind in (
        ("direct encoding", "DE"),
        ("fast local hashing", "FastLH"),
        ("optimised unary encoding", "UE"),
        ("Hadamard response", "HadamardResponse"),
    ):
        rows.append(speed("frequency", name, many, Asked(peer, kind, CELLS).answer))
    return rows


class Asked:
    """A question about `k` cells, by one of the peer's protocols.

    What it can prepare once for all questions of that size (a matrix of hashes) is made here.
    """

    def __init__(self, peer: Any, kind: str, k: int) -> None:
        self._k = k
        named: dict[str, Any] = {"index_mapper": int}
        settings: dict[str, dict[str, Any]] = {
            "FastLH": {"k": HASHES, "use_olh": True},
            "UE": {"use_oue": True},
        }
        named |= settings.get(kind, {})
        self._server = getattr(peer, f"{kind}Server")(EPS, k, **named)
        if kind == "HadamardResponse":
            named["hash_funcs"] = self._server.get_hash_funcs()
        self._client = getattr(peer, f"{kind}Client")(EPS, k, **named)

    def answer(self, values: list[int]) -> Shares:
        """Draw and fold all users' reports one by one, and return the shares."""
        self._server.reset()
        if hasattr(self._server, "hash_counts"):
            self._server.hash_counts[:] = 0  # its own reset forgets these
        privatise, aggregate = self._client.privatise, self._server.aggregate
        for value in values:
            aggregate(privatise(value))
        found = self._server.estimate_all(range(self._k), suppress_warnings=True)
        return np.asarray(found) / len(values)


if __name__ == "__main__":
    tell("pure-ldp", main(sys.argv[1]))
