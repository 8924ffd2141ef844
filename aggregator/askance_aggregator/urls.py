"""URLs of other services that the program calls: receivers of webhooks, and issuers of tokens."""

from __future__ import annotations

from urllib.parse import urlsplit

from askance_client.addresses import Address
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text

URL_FORM = "https://HOST/PATH, or http:// on loopback"


def check_url(text: str, expected: str = URL_FORM) -> str:
    """Return the URL of a service."""
    try:
        parts = urlsplit(text)
        sound = bool(parts.hostname) and parts.port != 0 and not parts.fragment
    except ValueError:
        sound = False
    if not sound or not text.isascii() or not text.isprintable() or " " in text:
        raise InvalidParameter(f"expected {expected}, got {value_text(text)}")
    if "@" in parts.netloc:
        raise InvalidParameter(f"expected {expected}, got one with a user")
    is_loopback = Address(parts.hostname or "", 0).is_loopback
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback):
        raise InvalidParameter(f"expected {expected}, got {value_text(text)}")
    return text
