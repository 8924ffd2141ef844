"""Text on a terminal and in a file: colours and progress belong to terminals."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from tests.sources import FOLDERS

ROOT = Path(__file__).resolve().parents[3]
COLOUR = re.compile(r"\x1b\[[0-9;]*(3[0-7]|9[0-7]|38;)[0-9;]*m")
# With a note, which is coloured.
COMMAND = ("simulate", "mean", "--users", "600", "--epsilon", "2", "--absent", "0.1")


def shown(*streams: str, **settings: str) -> dict[str, str]:
    """Return the text of a command's streams, of which some are a terminal."""
    removed = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM")
    clean = {name: text for name, text in os.environ.items() if name not in removed}
    path = os.pathsep.join(str(ROOT / name) for name in FOLDERS)
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "askance", *COMMAND],
        env=clean | {"PYTHONPATH": path, "TERM": "xterm-256color"} | settings,
        stdout=slave if "stdout" in streams else subprocess.PIPE,
        stderr=slave if "stderr" in streams else subprocess.PIPE,
    )
    os.close(slave)
    read = _drained(master)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0
    found = {"stdout": out, "stderr": err} | dict.fromkeys(streams, read)
    return {name: text.decode() for name, text in found.items() if text is not None}


def _drained(master: int) -> bytes:
    """Return all that is written to a terminal until its last writer has ended."""
    found = b""
    while True:
        try:
            part = os.read(master, 65_536)
        except OSError:  # Linux reports the last writer's end as an error
            part = b""
        if not part:
            os.close(master)
            return found
        found += part


def test_a_file_has_neither_colours_nor_progress() -> None:
    told = shown()
    assert "\x1b" not in told["stdout"]
    assert told["stdout"].startswith("mean of number, 600 users, epsilon 2\n")
    assert told["stderr"] == ""


def test_colours_are_for_terminals_and_no_color_is_respected() -> None:
    assert COLOUR.search(shown("stdout")["stdout"])
    plain = shown("stdout", NO_COLOR="1")["stdout"]
    assert not COLOUR.search(plain)
    assert "note: " in plain


def test_progress_is_drawn_on_a_terminal_only() -> None:
    """FORCE_COLOR asks for colours in a file, and not for a bar."""
    told = shown("stderr")
    assert "/600" in told["stderr"]
    assert "users/s" in told["stderr"]
    assert "\x1b" not in told["stdout"]
    assert shown(FORCE_COLOR="1")["stderr"] == ""


def test_a_terminal_without_cursor_control_gets_no_bar() -> None:
    assert "\x1b" not in shown("stderr", TERM="dumb")["stderr"]
