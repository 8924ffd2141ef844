"""A gateway's file sorted by a value: what the aggregator observes carries no rank."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from askance_client.service import Secret
from tests.client.process.conftest import make_folder

PEOPLE = 1000
SECRET = Secret(bytes(range(32)))  # fixed, so that the order of ids is
WAIT_S = 120


def test_neither_enrolment_nor_check_in_of_a_sorted_file_carries_a_rank(
    tmp_path: Path, aggregator: Any
) -> None:
    """|tau| < .1 for 1,000 users: 4.7 standard deviations, two-sided false-alarm rate 2.2e-6."""
    rows = "".join(f"person {rank},{rank % 2}\n" for rank in range(PEOPLE))
    folder = make_folder(tmp_path, aggregator.server.address, people=f"id,smokes\n{rows}")
    (folder.path / "identity.json").write_text(json.dumps({"secret": SECRET.value.hex()}))
    assert folder.run("enroll", "--token", aggregator.token(PEOPLE))[0] == 0
    enrolled = [
        aggregator.store.device(SECRET.member(f"person {rank}").device_id).ordinal
        for rank in range(PEOPLE)
    ]
    assert sorted(enrolled) == list(range(PEOPLE))
    assert abs(kendall(enrolled)) < 0.1

    round_ = aggregator.round()
    asked = aggregator.ask(round_)
    code, summary, err = folder.run("run", "--once")
    assert (code, summary["answered"]) == (0, PEOPLE), err
    asked.result(WAIT_S)
    ranks = {ordinal: rank for rank, ordinal in enumerate(enrolled)}
    arrived = [ranks[ordinal] for ordinal, _ in aggregator.store.reports(round_.groups[0].digest)]
    assert sorted(arrived) == list(range(PEOPLE))
    assert abs(kendall(arrived)) < 0.1


def kendall(ranks: list[int]) -> float:
    """Kendall's tau between a ranking and the order in which it is given."""
    array = np.asarray(ranks)
    later = np.triu(np.sign(array[np.newaxis, :] - array[:, np.newaxis]), 1)
    return float(later.sum()) / (len(array) * (len(array) - 1) / 2)
