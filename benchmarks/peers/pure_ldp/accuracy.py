"""Errors of pure-ldp's frequencies: one JSON object on stdout; argv is "full" or "quick".

Run in an environment of its own as `peers.pure_ldp.accuracy` (see `peers.measuring`). All its
protocols for a known domain; its sketches (count-mean sketch, private count sketch, RAPPOR's
regression) are for domains too large to list. Its estimates are raw by default; beside them stand
what its two normalisations make of the same reports.
"""

from __future__ import annotations

import importlib
import random
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from peers.measuring import EPSILONS, SEED, SIZES, Accuracy, Shares, Size, accuracy, cells, tell

HASHES = 1000  # of fast local hashing; the same few for all users, so its error has a floor
SMALL, LARGE, HASHED = Size(2_000, 50), Size(2_000, 10), Size(1_000, 5)
KINDS = {"raw": 0, "additive": 1, "simplex": 2}
PROTOCOLS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    # name: class, settings of both sides, settings of the server
    "direct encoding": ("DE", {}, {}),
    "symmetric unary encoding": ("UE", {}, {}),
    "optimised unary encoding": ("UE", {"use_oue": True}, {}),
    "summed histogram encoding": ("HE", {}, {}),
    "thresholded histogram encoding": ("HE", {}, {"use_the": True}),
    "optimal local hashing": ("LH", {"use_olh": True}, {}),
    "fast local hashing": ("FastLH", {"use_olh": True, "k": HASHES}, {}),
    "Hadamard response": ("HadamardResponse", {}, {}),
    "Hadamard mechanism": ("HadamardMech", {"t": 1, "use_optimal_t": True}, {}),
}


def main(effort: str) -> Iterator[Accuracy]:
    """Measure every protocol at every epsilon and number of cells."""
    warnings.simplefilter("ignore")
    random.seed(SEED)
    np.random.seed(SEED)  # what the peer draws from
    for k in SIZES[effort]:
        for eps in EPSILONS[effort]:
            for protocol in PROTOCOLS:
                yield from _measured(protocol, eps, k, effort)


def _measured(protocol: str, eps: float, k: int, effort: str) -> list[Accuracy]:
    slow = "local hashing" in protocol and k > 100
    size = (HASHED if slow else LARGE if k > 100 else SMALL).of(effort)
    values = cells(size.n, k)
    client, server = sides(protocol, eps, k)
    found = [_estimates(client, server, values.tolist(), k) for _ in range(size.repetitions)]
    return accuracy(protocol, eps, values, k, found)


def sides(protocol: str, eps: float, k: int) -> tuple[Any, Any]:
    """Return the client and the server of a protocol, with all that they prepare."""
    peer: Any = importlib.import_module("pure_ldp.frequency_oracles")
    kind, both, server_only = PROTOCOLS[protocol]
    named = {"index_mapper": int} | both
    server = getattr(peer, f"{kind}Server")(eps, k, **named, **server_only)
    if kind == "HadamardResponse":
        named["hash_funcs"] = server.get_hash_funcs()
    return getattr(peer, f"{kind}Client")(eps, k, **named), server


def _estimates(client: Any, server: Any, values: list[int], k: int) -> dict[str, Shares]:
    """Run one repetition, and return the shares by kind of estimate."""
    collect(client, server, values)
    found = {}
    for name, normalization in KINDS.items():
        told = server.estimate_all(range(k), suppress_warnings=True, normalization=normalization)
        found[name] = np.array(told, float) / len(values)
    return found


def collect(client: Any, server: Any, values: list[int]) -> None:
    """Draw all users' reports one by one, and fold them into a server that was reset."""
    server.reset()
    if hasattr(server, "hash_counts"):
        server.hash_counts[:] = 0  # its own reset forgets these
    privatise, aggregate = client.privatise, server.aggregate
    for value in values:
        aggregate(privatise(value))


if __name__ == "__main__":
    tell("pure-ldp", main(sys.argv[1]))
