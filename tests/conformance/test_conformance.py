"""The kit, run against the client and against the independent verifier."""

from __future__ import annotations

import ast
import gzip
import hashlib
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.conformance import run
from tests.conformance.make.__main__ import FILES

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAMS = {
    "client": [
        sys.executable,
        "-c",
        "import runpy, sys; sys.modules['numpy'] = None  # which a device need not have\n"
        "runpy.run_module('tests.conformance.client_adapter', run_name='__main__')",
    ],
    "verifier": [sys.executable, "-m", "tests.conformance.verifier"],
}
ALLOWED = {"cryptography", "tests.conformance.verifier"} | sys.stdlib_module_names


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *sys.path]))


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_sample_of_the_kit_is_answered(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    status = run.main(["--sample", "25", "--", *PROGRAMS[program]])
    assert status == 0, capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_whole_kit_is_answered(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    status = run.main(["--", *PROGRAMS[program]])
    shown = capsys.readouterr().out
    assert status == 0, shown
    assert shown.split()[-1] == "0"  # unsupported


def test_the_kit_has_ten_thousand_programs_and_every_kind() -> None:
    kinds = Counter(case["kind"] for case in run.load())
    assert kinds["evaluate"] >= 10_000
    least = {"query": 1000, "loss": 1000, "draw": 100, "level": 500, "ledger": 100, "record": 200}
    assert {kind: kinds[kind] for kind, count in least.items() if kinds[kind] < count} == {}
    assert len(kinds) == 16


def test_a_case_is_accepted_or_refused_in_every_kind_that_can_refuse() -> None:
    outcomes = Counter(
        (case["kind"], "refused" in case["expected"])
        for case in run.load()
        if case["kind"] not in ("loss", "record", "signature", "ledger")
    )
    for kind in ("schema", "query", "randomizer", "study", "request", "report", "check_in"):
        assert outcomes[kind, True] >= 5, kind
        assert outcomes[kind, False] >= 2, kind


def test_every_rule_of_the_ledger_occurs() -> None:
    words = Counter(
        word
        for case in run.load()
        if case["kind"] == "ledger"
        for step in case["expected"]["steps"]
        for word, _ in step.get("reports", [])
    )
    assert {"charged", "resent", "reused", "silent"} <= set(words)
    reasons = {word for word in words if word.isupper()}
    assert reasons >= {
        *("MALFORMED", "UNKNOWN_STUDY", "EXPIRED", "FIELD_NOT_ALLOWED", "INVALID_QUERY"),
        *("INVALID_RANDOMIZER", "LEVELS_MISMATCH", "OVER_STUDY_BUDGET", "OVER_DAY_BUDGET"),
        *("OVER_LIFE_BUDGET", "CLOCK_MOVED_BACK"),
    }


def test_the_verifier_shares_no_code_with_the_client() -> None:
    """Allowed imports: the standard library, `cryptography`, and the verifier itself."""
    for path in sorted((HERE / "verifier").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0
                names = [node.module or ""]
            for name in names:
                package = name.split(".")[0]
                whole = ".".join(name.split(".")[:3])
                assert package in ALLOWED or whole in ALLOWED, (path.name, name)


def test_the_verifier_loads_no_module_of_askance() -> None:
    code = (
        "import sys, tests.conformance.verifier.kinds;"
        "print([m for m in sys.modules if m.startswith(('askance', 'google', 'numpy'))])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_the_generator_gives_these_cases(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.conformance.make", "--folder", str(tmp_path), name]
    subprocess.run(command, check=True)
    made = gzip.decompress((tmp_path / f"{name}.jsonl.gz").read_bytes())
    sums = (run.CASES / "SHA256SUMS").read_text("ascii")
    assert f"{hashlib.sha256(made).hexdigest()}  {name}.jsonl\n" in sums


class TestRunner:
    def test_a_changed_file_is_not_used(self, tmp_path: Path) -> None:
        (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  a.jsonl\n")
        (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b"{}\n"))
        with pytest.raises(ValueError, match=r"a\.jsonl: expected SHA-256 0000"):
            list(run.load(tmp_path))

    def test_a_wrong_answer_is_counted_and_shown(self) -> None:
        case = {"kind": "loss", "name": "a", "input": {}, "expected": {"nano_nats": "1"}}
        tally = run.compare([case], lambda kind, given: {"nano_nats": "2"})
        assert tally.failed == {"loss": 1}
        assert tally.failures == ['loss, a: expected {"nano_nats": "1"}, got {"nano_nats": "2"}']

    @pytest.mark.parametrize(
        "code",
        ["pass", "input(); print('no json')", 'input(); print(\'{"id": 7, "answer": {}}\')'],
    )
    def test_a_program_that_does_not_answer_ends_the_run(
        self, code: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run.main(["--sample", "1", "--", sys.executable, "-c", code]) == 2
        assert "case 1: expected" in capsys.readouterr().err

    def test_an_unsupported_kind_is_no_failure(self, capsys: pytest.CaptureFixture[str]) -> None:
        code = (
            "import json, sys\n"
            "for line in sys.stdin:\n"
            "    q = json.loads(line)\n"
            "    a = {'unsupported': q['kind']}\n"
            "    print(json.dumps({'id': q['id'], 'answer': a}), flush=True)"
        )
        assert run.main(["--sample", "1", "--", sys.executable, "-c", code]) == 0
        assert capsys.readouterr().out.split()[-3:] == ["0", "0", "16"]
