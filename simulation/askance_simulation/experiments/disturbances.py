"""Disturbances of a run: absences, lies and faults, which a result must report."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from askance_aggregator.studies import REPORTED, Outcome, Transcript
from askance_aggregator.studies.transcript import Header
from askance_client.errors import InvalidParameter
from askance_simulation.disturbances import Behaviour, Fates, FaultRecorder, Misbehaving
from askance_simulation.fleets import FleetMaker, fleet_by
from askance_simulation.populations import Population
from askance_simulation.randomness.seeds import Seed

MakeBehaviour = Callable[[Seed], Behaviour]
"""Maker of a trial's absences and lies, from its seed (see `Misbehaviour`)."""

MakeFates = Callable[[Seed], Fates]
"""Maker of a trial's faults, from its seed (see `Faults`)."""

_CHUNK = 1 << 16
_OVER_GRPC = ("grpc", "grpc-streams")
_MOST = 5  # rounds that have a line each


def check_disturbed(fleet: str | FleetMaker, faults: MakeFates | None) -> None:
    """Refuse faults on a fleet without a network.

    Raises:
      InvalidParameter: another fleet than the one over gRPC.
    """
    if faults is not None and fleet not in _OVER_GRPC:
        raise InvalidParameter(
            "faults: expected the fleet 'grpc', where messages can be lost, found"
            f" {fleet if isinstance(fleet, str) else 'a fleet of your own'!r}"
        )


def disturbed(
    fleet: str | FleetMaker, faults: MakeFates | None, seed: Seed, recorder: FaultRecorder
) -> FleetMaker:
    """Return the fleet, with what goes wrong in it.

    Raises:
      InvalidParameter: see `check_disturbed`.
    """
    check_disturbed(fleet, faults)
    if faults is not None:
        from askance_simulation.fleets.grpc import grpc_fleet  # gRPC is imported when it is used

        return partial(grpc_fleet, fates=faults(seed / "faults"), recorder=recorder)
    return fleet_by(fleet, None) if isinstance(fleet, str) else fleet


def stayed_away(outcome: Outcome[object]) -> tuple[str, ...]:
    """List, per round, the users that were absent."""
    notes = []
    for number, tallies in enumerate(outcome.tallies, start=1):
        asked = sum(tally.asked for tally in tallies)
        came = sum(tally.answered + sum(n for _, n in tally.refusals) for tally in tallies)
        if came < asked:
            notes.append(f"round {number}: of {asked:,} requests {asked - came:,} found no device")
    more = len(notes) - _MOST
    return (*notes[:_MOST], f"and so in {more:,} more rounds") if more > 0 else tuple(notes)


def drawn(transcript: Transcript) -> tuple[str, ...]:
    """Report that no device answered, where the tallies were drawn from their law."""
    match transcript.recorded:
        case (Header(tallies=kind), *_) if kind != REPORTED:
            return (f"tallies were {kind}: no device answered",)
    return ()


def lied(behaviour: Behaviour, population: Population) -> tuple[str, ...]:
    """Report the number of lying users; if any may lie, no interval and no error bound holds."""
    if not behaviour.lies:
        return ()
    liars = 0
    for start in range(0, population.size, _CHUNK):
        chunk = np.arange(start, min(start + _CHUNK, population.size), dtype=np.int64)
        liars += int(np.count_nonzero(behaviour.lying(chunk)))
    attack = f" ({behaviour.spec.attack})" if isinstance(behaviour, Misbehaving) else ""
    return (
        f"{liars:,} of {population.size:,} users lie{attack}: intervals and error bounds hold for"
        " honest answers only",
    )


def went_wrong(faults: MakeFates | None, recorder: FaultRecorder) -> tuple[str, ...]:
    """Report the faults that took effect, and that they changed no result."""
    if faults is None:
        return ()
    return (f"faults: {recorder.summary()}; each report was counted once, and a replay agrees",)
