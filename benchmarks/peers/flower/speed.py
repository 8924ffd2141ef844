"""Client tasks per second of Flower's simulation engine: JSON on stdout; argv "full" or "quick".

Run in an environment of its own as `peers.flower.speed` (see `peers.measuring`). A task is one
message to one client, who answers with one randomized bit. Clients run in Ray's actors (one per
core). Starting Ray and a first round of all clients are not timed; a round is timed from the first
message pushed to the last reply pulled, and replies are asked for more often than Flower's own loop
does.
"""

from __future__ import annotations

import importlib
import logging
import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from peers.measuring import Speed, bits, speed, tell

EPS = 1.0
CLIENTS = {"full": (200, 2_000), "quick": (20,)}
POLL_S = 0.05
WITHIN_S = 120.0  # of one round


def main(effort: str) -> list[Speed]:
    """Simulate at each number of clients; the speed falls where each of more clients costs more."""
    os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    logging.disable(logging.WARNING)
    return [simulated(clients) for clients in CLIENTS[effort]]


def simulated(clients: int) -> Speed:
    """Time one simulation and its rounds."""
    flower: Any = importlib.import_module("flwr.simulation")
    serverapp: Any = importlib.import_module("flwr.serverapp")
    ray: Any = importlib.import_module("ray")
    found: list[Speed] = []
    server = serverapp.ServerApp()

    @server.main()  # type: ignore[untyped-decorator]  # of a package that is not there
    def ask(grid: Any, context: Any) -> None:
        nodes = _nodes(grid, clients)
        found.append(speed("predicate", "one randomized bit", bits(clients), _asked(grid, nodes)))

    try:
        flower.run_simulation(
            server_app=server,
            client_app=_client(),
            num_supernodes=clients,
            backend_config={
                "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
                "init_args": {"num_cpus": os.cpu_count() or 1, "include_dashboard": False},
            },
        )
    finally:
        ray.shutdown()
    return found[0]


def _truthful() -> float:
    return math.exp(EPS) / (1 + math.exp(EPS))


def _client() -> Any:
    """Return the client: a bit comes with the message, and goes back by Warner's response."""
    clientapp: Any = importlib.import_module("flwr.clientapp")
    app: Any = importlib.import_module("flwr.app")
    truthful = _truthful()
    client = clientapp.ClientApp()

    @client.query()  # type: ignore[untyped-decorator]  # of a package that is not there
    def answer(message: Any, context: Any) -> Any:
        import random

        value = message.content["asked"]["bit"]
        told = value if random.random() < truthful else 1 - value
        content = app.RecordDict({"told": app.MetricRecord({"bit": told})})
        return app.Message(content=content, reply_to=message)

    return client


def _nodes(grid: Any, clients: int) -> list[int]:
    deadline = time.perf_counter() + WITHIN_S
    while len(nodes := list(grid.get_node_ids())) < clients:
        if time.perf_counter() > deadline:
            raise TimeoutError(f"expected {clients} clients, found {len(nodes)}")
        time.sleep(POLL_S)
    return nodes


def _asked(grid: Any, nodes: list[int]) -> Callable[[list[int]], list[float]]:
    """Run a round: a message to each client, and all replies."""
    app: Any = importlib.import_module("flwr.app")
    truthful = _truthful()

    def answer(values: list[int]) -> list[float]:
        told = 0
        messages = [
            app.Message(
                content=app.RecordDict({"asked": app.ConfigRecord({"bit": value})}),
                message_type="query",
                dst_node_id=node,
            )
            for node, value in zip(nodes, values, strict=True)
        ]
        waiting = set(grid.push_messages(messages))
        deadline = time.perf_counter() + WITHIN_S
        while waiting:
            for reply in grid.pull_messages(waiting):
                told += int(reply.content["told"]["bit"])
                waiting.discard(reply.metadata.reply_to_message_id)
            if time.perf_counter() > deadline:
                raise TimeoutError(f"expected every reply, found {len(waiting)} missing")
            time.sleep(POLL_S)
        return [(told / len(values) - (1 - truthful)) / (2 * truthful - 1)]

    answer([0] * len(nodes))
    return answer


if __name__ == "__main__":
    tell("flwr", main(sys.argv[1]))
