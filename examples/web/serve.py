"""Serve the built page on loopback, with the headers that any server of it should send.

python examples/web/serve.py [FOLDER] [PORT]
"""

from __future__ import annotations

import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

NO_FRAMES = "frame-ancestors 'none'"
HEADERS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


class PageHandler(SimpleHTTPRequestHandler):
    """Answers with files of one folder."""

    def end_headers(self) -> None:
        """Send the headers of every answer."""
        # The page states its own policy. A thread keeps that of its script's answer, and the one
        # that has the record reaches nothing.
        path = self.path.partition("?")[0] if hasattr(self, "path") else ""
        policy = f"default-src 'none'; {NO_FRAMES}" if path.endswith(".js") else NO_FRAMES
        if path.endswith("/service_worker.js"):  # it reaches the page's own files
            policy = f"default-src 'none'; connect-src 'self'; {NO_FRAMES}"
        self.send_header("Content-Security-Policy", policy)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def list_directory(self, path: object) -> None:
        """Refuse: a folder without a page is not shown."""
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Note nothing of who reads the page."""


def server(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """Return a server on loopback; port 0 takes a free one."""
    return ThreadingHTTPServer(("127.0.0.1", port), partial(PageHandler, directory=str(folder)))


def main() -> None:
    """Serve until interrupted."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "dist")
    with server(folder, int(sys.argv[2]) if len(sys.argv) > 2 else 8000) as serving:
        print(f"http://127.0.0.1:{serving.server_address[1]}/")
        serving.serve_forever()


if __name__ == "__main__":
    main()
