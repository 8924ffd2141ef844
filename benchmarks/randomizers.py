"""Distance of our randomizers from the optimum, and from peers, in one run.

    python benchmarks/randomizers.py [--quick] [--json] [--plot FOLDER] [--peers ENVS]
                                     [--adult FILE.csv] [--only SECTION ...]

Sections: `means` of bounded numbers, `frequencies` of cells and `signed` values, each as n x MSE at
epsilon .25 to 4: exact, of the integers that devices are sent, beside theory and the limit, and as
measured from every user's own report, beside peers; `limits` (`randomizer_limits.py`): plans beside
what is possible, at epsilon .01 to 16; `users` of MASKED-PARITY
(`masked_parity_users.py`); `speed` of the simulation (`simulators.py`); `devices`: milliseconds an
answer and bytes a request; `sets` (`randomizer_sets.py`): their reports as bitmaps and as they
travel. `peers_environments.py` says how ENVS is made; who is absent is left
out, with the reason. At the end stands what is claimed, and whether it holds.

Exit code 1: something that is claimed does not hold.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import masked_parity_users as parity
import randomizer_claims as claims
import randomizer_pictures as pictures
import randomizer_tables as tables
from peers_accuracy import Accuracy, peers_accuracy
from peers_environments import Skipped
from randomizer_cells import FrequencyRow, SignedRow, frequency_rows, signed_rows
from randomizer_claims import Claim
from randomizer_devices import DeviceRow, device_rows
from randomizer_limits import (
    CELLS,
    MANY_CELLS,
    CellLimit,
    MeanLimit,
    cell_limits,
    mean_limits,
)
from randomizer_means import MeanRow, mean_rows, of_adult, skewed
from randomizer_sets import SetRow, set_rows
from simulators import Row as SpeedRow
from simulators import rows_of

SECTIONS = ("means", "frequencies", "signed", "limits", "users", "speed", "devices", "sets")
SIMULATED = ("cells-2", "cells-1024")  # questions of `simulators.py`


@dataclass(frozen=True, slots=True)
class Effort:
    """Amount of measurement.

    Args:
        name: what peers' scripts know it by.
        epsilons: of means, frequencies and signed values.
        cells: of frequencies.
        values: of signed values.
        means: repetitions.
        frequencies: of 64 cells.
        signed: likewise.
        limits: epsilons of means, and of cells.
        limit_cells: numbers of cells.
        dimensions: of MASKED-PARITY.
        parity: how closely its users are found.
        processes: that a device first answers in.
    """

    name: str
    epsilons: tuple[float, ...]
    cells: tuple[int, ...]
    values: tuple[int, ...]
    means: int
    frequencies: int
    signed: int
    limits: int
    limit_cells: tuple[int, ...]
    dimensions: tuple[int, ...]
    parity: parity.Effort
    processes: int


FULL = Effort(
    name="full",
    epsilons=(0.25, 0.5, 1.0, 2.0, 3.0, 4.0),
    cells=(64, 1024, 16_384),
    values=(8, 64),
    means=1000,
    frequencies=300,
    signed=200,
    limits=60,
    limit_cells=(*CELLS, *MANY_CELLS),
    dimensions=parity.DIMENSIONS,
    parity=parity.FULL,
    processes=3,
)
QUICK = Effort(
    name="quick",
    epsilons=(1.0, 4.0),
    cells=(64, 1024),
    values=(8,),
    means=40,
    frequencies=20,
    signed=20,
    limits=3,
    limit_cells=(3, 401),
    dimensions=(8, 16),
    parity=parity.QUICK,
    processes=1,
)


@dataclass(slots=True)
class Measurements:
    """Measurements by section; a section that was not requested is empty."""

    means: list[MeanRow] = field(default_factory=list)
    frequencies: list[FrequencyRow] = field(default_factory=list)
    signed: list[SignedRow] = field(default_factory=list)
    mean_limits: list[MeanLimit] = field(default_factory=list)
    cell_limits: list[CellLimit] = field(default_factory=list)
    peers: list[Accuracy] = field(default_factory=list)
    users: list[parity.Row] = field(default_factory=list)
    speed: list[SpeedRow] = field(default_factory=list)
    devices: list[DeviceRow] = field(default_factory=list)
    sets: list[SetRow] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    @property
    def claims(self) -> list[Claim]:
        """All that can be held against what was measured."""
        return [
            *claims.of_means(self.means),
            *claims.of_frequencies(self.frequencies, self.peers),
            *claims.of_signed(self.signed),
            *claims.of_limits(self.mean_limits, self.cell_limits),
            *claims.of_users(self.users),
            *claims.of_speed(self.speed),
            *claims.of_devices(self.devices),
        ]


def measured(
    sections: Sequence[str], effort: Effort, environments: Path | None, adult: Path | None
) -> Measurements:
    """Measure the requested sections in turn, with progress on stderr."""
    found = Measurements()

    def means() -> None:
        everybody = [skewed()]
        if adult is None:
            found.skipped.append(Skipped("Adult", "no --adult FILE"))
        elif not adult.is_file():
            found.skipped.append(Skipped("Adult", "the file of --adult is not there"))
        else:
            everybody += of_adult(adult)
        found.means += mean_rows(effort.epsilons, everybody, effort.means)

    def frequencies() -> None:
        found.frequencies += frequency_rows(effort.epsilons, effort.cells, effort.frequencies)

    def signed() -> None:
        found.signed += signed_rows(effort.epsilons, effort.values, effort.signed)

    def limits() -> None:
        found.mean_limits += mean_limits(effort.limits)
        found.cell_limits += cell_limits(effort.limit_cells, effort.limits)

    def users() -> None:
        epsilons = ("1",) if effort is QUICK else parity.EPSILONS
        found.users += parity.rows(epsilons, effort.dimensions, effort.parity)

    def speed() -> None:
        rows, absent = rows_of(SIMULATED, environments, effort.name, ("columns",))
        found.speed += rows
        found.skipped += absent

    def devices() -> None:
        found.devices += device_rows(effort.processes, 9)

    work: dict[str, Callable[[], None]] = {
        "means": means,
        "frequencies": frequencies,
        "signed": signed,
        "limits": limits,
        "users": users,
        "speed": speed,
        "devices": devices,
        "sets": lambda: found.sets.extend(set_rows()),
    }
    for section in sections:
        print(f"{section} ...", file=sys.stderr, flush=True)
        work[section]()
    if {"means", "frequencies"} & set(sections):
        print("peers' means and frequencies ...", file=sys.stderr, flush=True)
        found.peers, absent = peers_accuracy(environments, effort.name)
        found.skipped += [one for one in absent if one not in found.skipped]
    return found


def story(found: Measurements) -> dict[str, Any]:
    """Return the document that `--json` prints."""
    names = ("means", "frequencies", "signed", "mean_limits", "cell_limits", "peers")
    others = ("devices", "sets", "skipped")
    told = {name: [asdict(row) for row in getattr(found, name)] for name in (*names, *others)}
    speed = [asdict(row) | {"per_s": row.per_s} for row in found.speed]
    held = [asdict(claim) | {"holds": claim.holds} for claim in found.claims]
    return told | {"speed": speed, "users": parity.story(found.users), "claims": held}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two epsilons, few repetitions")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.add_argument("--plot", type=Path, metavar="FOLDER", help="where pictures are written")
    parser.add_argument("--peers", type=Path, metavar="ENVS", help="an environment a peer")
    parser.add_argument("--adult", type=Path, metavar="FILE.csv", help="the Adult data")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, metavar="SECTION", default=SECTIONS)
    given = parser.parse_args(arguments)
    found = measured(given.only, QUICK if given.quick else FULL, given.peers, given.adult)
    if given.json:
        print(json.dumps(story(found)))
    else:
        tables.show(found)
    if given.plot is not None:
        given.plot.mkdir(parents=True, exist_ok=True)
        pictures.of_means(found.means, found.peers, given.plot / "means.png")
        pictures.of_frequencies(found.frequencies, found.peers, given.plot / "frequencies.png")
        if found.users:
            parity.plot(found.users, given.plot / "users.png")
    return 0 if all(claim.holds for claim in found.claims) else 1


if __name__ == "__main__":
    sys.exit(main())
