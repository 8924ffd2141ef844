"""Client tasks per second of Flower's simulation engine: JSON on stdout.

Run in an environment of its own as `peers.flower.speed` (see `peers.questions`); argv is the effort
and the questions. A task is one message to one client, who answers with one randomized bit, which
is written here, or with numbers to which Flower's own local mechanism (Gaussian, of epsilon and
delta) was applied. Clients run in Ray's actors (one per core). Starting Ray and a first round of
all clients are not timed; a round is timed from the first message pushed to the last reply pulled,
and replies are asked for more often than Flower's own loop does. There are 200 clients: with more
of them, each task takes longer.
"""

from __future__ import annotations

import importlib
import logging
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from peers.measuring import Shares, tell
from peers.questions import EPS, QUESTIONS, Answer, Question, Speed, speeds

CLIENTS = 200
DELTA = 1e-6
POLL_S = 0.05
WITHIN_S = 120.0  # of one round
Ask = Callable[[str, Sequence[list[float]]], list[list[float]]]


def main(arguments: Sequence[str]) -> list[Speed]:
    """Measure every question for which a client has an answer, each in a simulation of its own."""
    os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    logging.disable(logging.WARNING)
    effort, *names = arguments
    found: list[Speed] = []
    for name in names:
        if QUESTIONS[name].mean or QUESTIONS[name].values == 2:
            found += simulated(effort, name)
    return found


def simulated(effort: str, name: str) -> list[Speed]:
    """Time one simulation and its rounds."""
    flower: Any = importlib.import_module("flwr.simulation")
    serverapp: Any = importlib.import_module("flwr.serverapp")
    ray: Any = importlib.import_module("ray")
    clients = CLIENTS if effort == "full" else CLIENTS // 10
    found: list[Speed] = []
    server = serverapp.ServerApp()

    @server.main()  # type: ignore[untyped-decorator]  # of a package that is not there
    def ask(grid: Any, context: Any) -> None:
        asked = _round(grid, _nodes(grid, clients))
        asked("query", [[0.0]] * clients)
        told = [effort, name]
        found.extend(speeds(lambda question: offered(question, asked), told, clients, clients))

    try:
        flower.run_simulation(
            server_app=server,
            client_app=_client(QUESTIONS[name]),
            num_supernodes=clients,
            backend_config={
                "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
                "init_args": {"num_cpus": os.cpu_count() or 1, "include_dashboard": False},
            },
        )
    finally:
        ray.shutdown()
    return found


def offered(question: Question, asked: Ask) -> Iterator[tuple[str, Answer]]:
    """Yield the one way for a question."""
    truthful = _truthful()

    def bits(values: list[int]) -> list[float]:
        told = asked("query", [[float(value)] for value in values])
        share = (np.mean(told) - (1 - truthful)) / (2 * truthful - 1)
        return [float(1 - share), float(share)]

    def means(values: Any) -> Shares:
        records = np.reshape(values, (len(values), -1)).tolist()
        found: Shares = np.mean(asked("train", records), axis=0)
        return found

    if question.mean:
        yield f"LocalDpMod, delta = {DELTA:g}", means
    else:
        yield "one bit, written here", bits


def _truthful() -> float:
    return math.exp(EPS) / (1 + math.exp(EPS))


def _client(question: Question) -> Any:
    """Return the client: numbers come with the message, and go back randomized."""
    clientapp: Any = importlib.import_module("flwr.clientapp")
    mods: Any = importlib.import_module("flwr.clientapp.mod")
    app: Any = importlib.import_module("flwr.app")
    truthful = _truthful()
    client = clientapp.ClientApp()
    length = math.sqrt(question.values)  # of a vector, at most
    local = mods.LocalDpMod(length, 2 * length, EPS, DELTA)

    @client.query()  # type: ignore[untyped-decorator]  # of a package that is not there
    def bit(message: Any, context: Any) -> Any:
        import random

        (value,) = message.content["asked"]["numbers"]
        told = value if random.random() < truthful else 1 - value
        return _reply(app, message, np.array([told]))

    @client.train(mods=[local])  # type: ignore[untyped-decorator]  # as above
    def numbers(message: Any, context: Any) -> Any:
        return _reply(app, message, np.array(message.content["asked"]["numbers"]))

    return client


def _reply(app: Any, message: Any, told: Shares) -> Any:
    logging.disable(logging.WARNING)  # in the actor: the mod has two lines per message
    content = app.RecordDict({"vector": app.ArrayRecord({"told": app.Array(told)})})
    return app.Message(content=content, reply_to=message)


def _nodes(grid: Any, clients: int) -> list[int]:
    deadline = time.perf_counter() + WITHIN_S
    while len(nodes := list(grid.get_node_ids())) < clients:
        if time.perf_counter() > deadline:
            raise TimeoutError(f"expected {clients} clients, found {len(nodes)}")
        time.sleep(POLL_S)
    return nodes


def _round(grid: Any, nodes: list[int]) -> Ask:
    """Make a round: a message to each of the first clients, and all replies."""
    app: Any = importlib.import_module("flwr.app")

    def content(numbers: list[float]) -> Any:
        # What the local mechanism compares with is sent along, as a model would be.
        sent = app.ArrayRecord({"told": app.Array(np.zeros(len(numbers)))})
        return app.RecordDict({"asked": app.ConfigRecord({"numbers": numbers}), "vector": sent})

    def asked(kind: str, records: Sequence[list[float]]) -> list[list[float]]:
        messages = [
            app.Message(content=content(numbers), message_type=kind, dst_node_id=node)
            for node, numbers in zip(nodes, records, strict=False)
        ]
        told: list[list[float]] = []
        waiting = set(grid.push_messages(messages))
        deadline = time.perf_counter() + WITHIN_S
        while waiting:
            for reply in grid.pull_messages(waiting):
                told.append(reply.content["vector"]["told"].numpy().tolist())
                waiting.discard(reply.metadata.reply_to_message_id)
            if time.perf_counter() > deadline:
                raise TimeoutError(f"expected every reply, found {len(waiting)} missing")
            time.sleep(POLL_S)
        return told

    return asked


if __name__ == "__main__":
    tell("flwr", main(sys.argv[1:]))
