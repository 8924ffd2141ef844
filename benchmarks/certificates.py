"""Cost of certificates: the durable service with TLS, certificates and a valve beside plain text.

The load and its parts are those of `service.py`: round trips over shared streams, each seven
requests out and seven reports in and durable; check-ins that deliver seven reports; and devices
with a connection each, whose handshakes show. In one run on one machine, in turn, several times.
Round trips are also counted per second of the processor of the server and its children, of which
the valve is one: other programs disturb that less.

    python benchmarks/certificates.py [--quick]
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from service import Part
from service_load import CERTIFICATE

KINDS = ("durable", "certified")
TURNS = 3


@contextmanager
def serving(kind: str, devices: int, questions: int) -> Iterator[tuple[Part, str]]:
    """Provide a server process and its address; the load shows the certificate that it names."""
    server = Part("service_server.py", kind, devices, questions)
    try:
        told = server.read()
        if "certificate" in told:
            os.environ[CERTIFICATE] = told["certificate"]
        yield server, told["address"]
    finally:
        os.environ.pop(CERTIFICATE, None)
        server.close()


def processor_s(process: int) -> float:
    """Return the processor time that a process has taken, in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def family_processor_s(process: int) -> float:
    """Return the processor time that a process and its children have taken, in seconds."""
    children = Path(f"/proc/{process}/task").glob("*/children")
    found = {process, *(int(child) for file in children for child in file.read_text().split())}
    return sum(map(processor_s, found))


def rounds(kind: str, streams: int, count: int) -> tuple[float, float]:
    """Return round trips per second, the best of some, and per second of the server's processor."""
    with serving(kind, streams, 7) as (server, address):
        load = Part("service_load.py", "streams", address, 0, streams)
        server.tell(f"connected {streams}")
        server.tell("rounds 2")
        before = family_processor_s(server.pid)
        seconds = min(server.tell(f"rounds {count}")["seconds"] for _ in range(TURNS))
        taken_s = family_processor_s(server.pid) - before
        server.close()
        load.read()
        load.close()
    return streams * count / seconds, TURNS * streams * count / taken_s


def connected(kind: str, devices: int) -> float:
    """Return connections per second, each with its handshakes and its stream."""
    with serving(kind, devices, 1) as (server, address):
        load = Part("service_load.py", "connections", address, 0, devices)
        seconds = server.tell(f"connected {devices}")["seconds"]
        server.close()
        load.read()
        load.close()
    return float(devices / seconds)


def show(name: str, plain: float, certified: float) -> None:
    """Print a row."""
    row = f"| {name} | {plain:,.0f} | {certified:,.0f} | {certified / plain:.2f} |"
    print(row, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="seconds in place of minutes")
    quick = parser.parse_args(argv).quick
    streams, count, devices = (20, 5, 50) if quick else (200, 20, 1_000)
    turns = 1 if quick else TURNS
    print("| in turn | plain text | certificates | ratio |")
    print("|---|---:|---:|---:|")
    for _ in range(turns):
        plain, certified = (rounds(kind, streams, count) for kind in KINDS)
        show("round trips per second", plain[0], certified[0])
        show("per second of the server's processor", plain[1], certified[1])
    for _ in range(turns):
        show("connections per second", *(connected(kind, devices) for kind in KINDS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
