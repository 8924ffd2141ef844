"""Cases from the golden vectors of `tests/vectors/v1`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from askance_client.codec import parse
from askance_protos.v1 import study_pb2

VECTORS = Path(__file__).parents[2] / "vectors" / "v1"
MESSAGES = ("schema", "query", "randomizer", "study", "request", "report", "check_in", "response")
Json = dict[str, Any]


def cases_of(name: str) -> list[Json]:
    """Return the cases of a file of vectors."""
    cases: list[Json] = json.loads((VECTORS / f"{name}.json").read_text("utf-8"))["cases"]
    return cases


def schema_hex() -> str:
    """Return the bytes of the schema that all vectors refer to."""
    return str(cases_of("schema")[0]["hex"])


def case(kind: str, name: str, **given: Any) -> Json:
    """Make a case without its answer."""
    return {"kind": kind, "name": name, "input": given}


def vector_cases() -> Iterator[Json]:
    """Yield every vector as one or more cases."""
    for kind in MESSAGES:
        about = {"schema": schema_hex()} if kind in ("query", "request") else {}
        for prefix in ("", "bad_"):
            for vector in cases_of(prefix + kind):
                data = vector["hex"] if "hex" in vector else vector["parts"]
                yield case(kind, f"{prefix}{vector['name']}", bytes=data, **about)
    yield from _signatures()
    for vector in cases_of("query"):
        records = [row["record"] for row in vector["answers"]]
        yield case(
            "evaluate", vector["name"], schema=schema_hex(), query=vector["hex"], records=records
        )
    for vector in cases_of("randomizer"):
        draws = [{"level": f"{int(d['level']):x}", "coins": d["coins"]} for d in vector["draws"]]
        yield case("draw", vector["name"], randomizer=vector["hex"], draws=draws)
        reports = [draw["report"] for draw in vector["draws"]] + vector.get("no_reports", [])
        yield case("alphabet", vector["name"], randomizer=vector["hex"], reports=reports)


def _signatures() -> Iterator[Json]:
    for prefix in ("", "bad_"):
        for vector in cases_of(prefix + "signed_study"):
            signed = parse(study_pb2.SignedStudy, bytes.fromhex(vector["hex"]))
            parts = {n: getattr(signed, n).hex() for n in ("study", "public_key", "signature")}
            yield case("signature", f"{prefix}{vector['name']}", **parts)
