"""Issuer of tokens on loopback: a small HTTP server with a real set of keys."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from joserfc import jwt
from joserfc.jwk import JWKRegistry, Key

NOW_S = 1_800_000_000
AUDIENCE = "askance"
KINDS: dict[str, tuple[Literal["RSA", "EC", "OKP"], int | str]] = {
    "RS256": ("RSA", 2048),
    "ES256": ("EC", "P-256"),
    "EdDSA": ("OKP", "Ed25519"),
}


@cache
def key_of(algorithm: str, name: str) -> Key:
    """Return a key pair; the same one for the same words, because RSA keys take long to make."""
    kind, size = KINDS[algorithm]
    return JWKRegistry.generate_key(kind, size, {"kid": f"{name} {algorithm}"})


class Issuer:
    """An issuer with a key per algorithm, which it may replace.

    `status`, `body` and `location` replace the answer to a fetch; `fetches` counts them.
    """

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.fetches = 0
        self.status = 200
        self.location = ""
        self.body: bytes | None = None
        self.keys: dict[str, Key] = {}
        self.rotate("first")

    def rotate(self, name: str) -> None:
        """Replace every key."""
        self.keys = {algorithm: key_of(algorithm, name) for algorithm in KINDS}

    def answer(self) -> bytes:
        """Return the set of public keys."""
        public = [key.as_dict(private=False) for key in self.keys.values()]
        return json.dumps({"keys": public}).encode() if self.body is None else self.body

    def token(self, algorithm: str = "ES256", key: Key | None = None, **changed: Any) -> str:
        """Return a token of an administrator, ann; a claim that is None is left out."""
        signing = key or self.keys[algorithm]
        claims = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "ann",
            "exp": NOW_S + 600,
            "roles": ["staff", "askance-admins"],
            **changed,
        }
        present = {name: value for name, value in claims.items() if value is not None}
        header = {"alg": algorithm, "kid": signing.kid}
        return jwt.encode(header, present, signing, algorithms=[algorithm])


@contextmanager
def issuing() -> Iterator[Issuer]:
    """Serve an issuer until the end of the block."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.fetches += 1
            self.send_response(issuer.status)
            if issuer.location:
                self.send_header("Location", issuer.location)
            self.end_headers()
            self.wfile.write(issuer.answer())

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    issuer = Issuer(server.server_port)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
