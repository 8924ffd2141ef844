"""The clock of a device: the time of a charge, and a clock that is corrected or set back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from askance_aggregator.queries import predicate
from askance_client.messages import Reason, SignedStudy

if TYPE_CHECKING:
    from tests.client.device.conftest import DeviceSetup

DAY, HOUR = 86_400, 3_600


def labels(setup: DeviceSetup, study: SignedStudy) -> list[bytes]:
    """Payloads of three questions, of half a nat each."""
    colour = setup.schema.colour
    return [setup.payload(study, predicate(colour == label)) for label in ("red", "green", "blue")]


@pytest.mark.parametrize("step", [-60, -59, -2, -1, 0, 1, 2, 59, 60, 61, HOUR])
def test_a_charge_has_the_time_of_the_clock_or_the_last_one_s(
    step: int, setup: DeviceSetup
) -> None:
    setup.now_s -= setup.now_s % DAY - HOUR
    study = setup.study()
    device = setup.device(studies=[study])
    first, second, _ = labels(setup, study)
    setup.answer(device, first)
    start = setup.now_s
    setup.now_s += step
    setup.answer(device, second)
    times = [entry.at_s for entry in device.ledger.history()]
    assert times == [start, max(start, start + step)]


@pytest.mark.parametrize("step", [-61, -62, -63, -DAY, 1 - DAY, -1 - DAY])
def test_a_clock_that_went_back_further_is_not_believed(step: int, setup: DeviceSetup) -> None:
    study = setup.study()
    device = setup.device(studies=[study])
    first, second, _ = labels(setup, study)
    setup.answer(device, first)
    setup.now_s += step
    assert setup.refusal(device, second).reason is Reason.CLOCK_MOVED_BACK


def test_a_clock_that_is_corrected_by_seconds_stands_still(setup: DeviceSetup) -> None:
    study = setup.study()
    device = setup.device(studies=[study])
    first, second, third = labels(setup, study)
    setup.answer(device, first)
    charged_s = setup.now_s
    setup.now_s -= 60
    assert isinstance(setup.answer(device, second).outcome, bytes)
    assert [entry.at_s for entry in device.ledger.history()] == [charged_s, charged_s]
    setup.now_s -= 1
    assert setup.refusal(device, third).reason is Reason.CLOCK_MOVED_BACK


def test_a_clock_that_goes_back_over_midnight_does_not_stand_still(setup: DeviceSetup) -> None:
    """The charge would be one of a day that is over by the clock."""
    setup.now_s -= setup.now_s % DAY
    study = setup.study()
    device = setup.device(studies=[study])
    first, second, _ = labels(setup, study)
    setup.answer(device, first)
    setup.now_s -= 1
    assert setup.refusal(device, second).reason is Reason.CLOCK_MOVED_BACK
