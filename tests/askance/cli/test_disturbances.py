"""`askance simulate` with absent or lying devices and lost messages.

Bad input is one clear line.
"""

import json

import pytest

from askance.cli import main
from askance_simulation.disturbances import ATTACKS

RUN = ["simulate", "masked-parity", "--users", "200", "--epsilon", "8", "--set", "d=2"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--absent", "2"], "absent: expected a chance from 0 to 1, got 2"),
        (["--dropout", "x"], "dropout expects a finite number"),
        (["--attack", "ria"], "expected --liars with --attack and --attack-target, got none"),
        (["--attack-target", "1"], "expected --liars with --attack and --attack-target, got none"),
        (["--liars", ".1", "--attack", "dos"], "expected one of rpa, ria, mga, extreme, got 'dos'"),
        (["--liars", ".1", "--attack-target", "-1"], "expected"),
        (["--faults", "lost=.1"], "expected the fleet 'grpc'"),
        (["--faults", "lost=.1", "--fleet", "columns"], "expected the fleet 'grpc'"),
        (["--faults", "lost", "--fleet", "grpc"], "expected NAME=P, got 'lost'"),
        (["--faults", "lost=.1,lost=.2", "--fleet", "grpc"], "expected each name once"),
        (["--faults", "loss=.1", "--fleet", "grpc"], "expected one of lost, duplicate"),
        (["--faults", "lost=1", "--fleet", "grpc"], "at most 9/10"),
    ],
)
def test_bad_input(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main([*RUN, *options])
    except SystemExit as left:
        status = int(str(left.code))
    assert status == 2
    told = capsys.readouterr()
    assert message in told.err
    assert "Traceback" not in told.err
    assert told.out == ""


def test_help_names_every_attack(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["simulate", "--help"])
    assert "{" + ",".join(ATTACKS) + "}" in capsys.readouterr().out


@pytest.mark.parametrize(("options", "stated"), [([], True), (["--liars", ".3"], False)])
def test_liars_are_not_assumed_away(
    options: list[str], stated: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Readers are promised nothing where more users lie than the promise assumes."""
    run = ["simulate", "mean", "--users", "3000", "--epsilon", "1", "--json", *options]
    assert main(run) == 0
    assert ("outer" in json.loads(capsys.readouterr().out)) is stated
