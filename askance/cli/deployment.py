"""Report of `askance plan --deployment`."""

from __future__ import annotations

from askance.cli.output import print_json

_FEWEST_CORES = 0.1  # that are shown as a number
_SEED = 0  # of the arrivals that are drawn: the same command prints the same figures


def print_deployment(text: str, *, as_json: bool) -> int:
    """Size a deployment, simulate it and print both.

    Raises:
        InvalidParameter: not a load.
    """
    import numpy as np

    from askance_aggregator.reports.figures import bytes_text, rate_text
    from askance_simulation.deployments import parse_load, report_of

    report = report_of(parse_load(text), np.random.default_rng(_SEED))
    content = report.to_json()
    if as_json:
        print_json(content)
        return 0
    hour, day = content["busiest_hour"], content["day"]
    rows = [
        (
            "check-ins",
            f"{rate_text(content['check_ins'])},"
            f" {rate_text(content['busiest_check_ins'])} in the busiest hour",
        ),
        (
            "replicas",
            f"{content['replicas']:,} ({_cores_text(content['busy_cores'])} cores busy in the"
            " busiest hour; one may be down)",
        ),
        ("database", bytes_text(content["database_bytes"])),
        ("write-ahead log", rate_text(content["wal_bytes"], bytes_text)),
        ("bandwidth", rate_text(content["wire_bytes"], bytes_text)),
        ("cost", f"{content['cost_per_month']:,.0f} per month"),
        (
            "busiest hour",
            f"waits of {1000 * hour['mean_wait_s']:.2f} ms, p99 {1000 * hour['p99_wait_s']:.2f} ms",
        ),
        (
            "day with a burst",
            f"queue of at most {day['longest_queue']:,.0f},"
            f" p99 of waits {day['p99_wait_s']:.1f} s, {day['turned_away']:,.0f} calls tried again",
        ),
    ]
    for name, value in rows:
        print(f"{name:<17} {value}")
    return 0


def _cores_text(number: float) -> str:
    return f"{number:.1f}" if number >= _FEWEST_CORES else f"less than {_FEWEST_CORES}"
