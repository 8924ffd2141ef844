"""A scripted aggregator that speaks Connect, and a device in TypeScript that a test leads."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from askance_aggregator.exchange import decode_check_in, encode_response
from askance_client.codec import decode_report
from askance_client.messages import AckStatus
from askance_client.service import SERVICE, CheckIn, Response

PACKAGE = Path(__file__).parents[2] / "devices" / "typescript"
PROTO = "application/proto"
Answer = bytes | Response | tuple[int, str]
"""A message, or a status of HTTP and a code of Connect."""

Json = dict[str, Any]


def missing() -> str | None:
    """Return why the package cannot be built here; None if it can."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return "needs node and npm"
    if not (PACKAGE / "node_modules" / "esbuild").is_dir():
        return "needs `npm ci` in devices/typescript"
    return None


def build() -> Path:
    """Compile the package, tests included, and return where it is."""
    subprocess.run(["npm", "run", "--silent", "build"], cwd=PACKAGE, check=True)
    return PACKAGE / "dist"


class Script:
    """Messages received, and the answer to each in turn; then every report is accepted."""

    def __init__(self, *answers: Answer) -> None:
        self.answers: list[Answer] = list(answers)
        self.heard: list[CheckIn] = []
        self.headers: list[Mapping[str, str]] = []
        self.url = ""
        self._lock = Lock()

    def next(self, data: bytes) -> Answer:
        """Return the answer to a message."""
        message = decode_check_in(data)
        with self._lock:
            self.heard.append(message)
            if self.answers:
                return self.answers.pop(0)
        digests = (decode_report(report).request_digest for report in message.reports)
        return Response(acks=tuple((digest, AckStatus.ACCEPTED) for digest in digests))


@contextmanager
def served(
    script: Script, pages: Callable[[str], tuple[str, bytes] | None] = lambda path: None
) -> Iterator[Script]:
    """Serve a script on loopback, and pages from the same origin: by path, a type and bytes."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found = pages(self.path.partition("?")[0])
            self._reply(404 if found is None else 200, *(found or ("text/plain", b"")))

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            script.headers.append(dict(self.headers))
            assert self.path == f"/{SERVICE}/CheckIn", self.path
            answer = script.next(data)
            if isinstance(answer, tuple):
                body = json.dumps({"code": answer[1], "message": "scripted"}).encode()
                self._reply(answer[0], "application/json", body)
            else:
                whole = encode_response(answer) if isinstance(answer, Response) else answer
                self._reply(200, PROTO, whole)

        def _reply(self, status: int, kind: str, body: bytes) -> None:
            try:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                self.close_connection = True  # the caller was killed

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Print nothing of a caller that was killed."""

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    script.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield script
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Led:
    """A device in a process of Node, which does what it is told by lines."""

    def __init__(self, built: Path) -> None:
        self._process = subprocess.Popen(
            ["node", built / "tests" / "device_program.js"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def do(self, what: str, **given: Any) -> Json:
        """Do a command and return its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"do": what, **given}), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, f"{what}: expected an answer, got the end of the device"
        answer: Json = json.loads(line)
        return answer

    def state(self) -> Json:
        """Return what the device knows."""
        return self.do("state")

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=20)
        if self._process.stdout is not None:
            self._process.stdout.close()
