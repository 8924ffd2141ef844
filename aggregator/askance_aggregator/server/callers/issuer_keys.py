"""Public keys of a token's issuer: kept for a while, and fetched anew when they rotate."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable

from joserfc.errors import JoseError
from joserfc.jwk import Key, KeySet

from askance_aggregator.server.callers.key_sources import MAX_SET_BYTES, KeySource

_FRESH_S = 300  # after which a set is fetched again, so that a key which was withdrawn is forgotten
_AGAIN_S = 30  # between two fetches for a key that is not in the set, or after one that failed
_KEPT_S = 86_400  # for which a set is used while its source fails
_ASYMMETRIC = ("RSA", "EC", "OKP")

_LOGGER = logging.getLogger(__name__)


class IssuerKeys:
    """Keys of an issuer, by their ids; for any thread.

    Args:
      source: where the set is.
      now_s: the time, in whole seconds since 1970, UTC.
    """

    def __init__(self, source: KeySource, now_s: Callable[[], int]) -> None:
        self._source = source
        self.now_s = now_s
        self._fetching = threading.Lock()
        self._keys: tuple[Key, ...] = ()
        self._fetched_s: int | None = None  # when the set was fetched
        self._tried_s: int | None = None  # when the last fetch began

    def by_id(self, kid: str | None) -> Key | None:
        """Return the key of an id; None if there is none. Without an id: the only key.

        The set is fetched when it is old, and when it lacks the id, at most every 30 seconds.
        """
        if self._is_older_than(_FRESH_S):
            self._fetch()
        found = self._found(kid)
        if found is None:
            self._fetch()
            found = self._found(kid)
        return found

    def _found(self, kid: str | None) -> Key | None:
        if self._is_older_than(_KEPT_S):
            return None
        if kid is None:
            return self._keys[0] if len(self._keys) == 1 else None
        return next((key for key in self._keys if key.kid == kid), None)

    def _is_older_than(self, seconds: int) -> bool:
        return self._fetched_s is None or self.now_s() - self._fetched_s >= seconds

    def _fetch(self) -> None:
        """Fetch the set, unless it was just tried or another thread does; log what fails."""
        if not self._fetching.acquire(blocking=self._fetched_s is None):
            return
        try:
            now_s = self.now_s()
            if self._tried_s is not None and 0 <= now_s - self._tried_s < _AGAIN_S:
                return
            self._tried_s = now_s
            self._keys = _parsed(self._source.read())
            self._fetched_s = now_s
        except (OSError, ValueError, TypeError, LookupError, JoseError) as error:
            what = f"{type(error).__name__}: {error}"[:200]
            _LOGGER.warning("the issuer's keys cannot be fetched", extra={"error": what})
        finally:
            self._fetching.release()


def _parsed(content: bytes) -> tuple[Key, ...]:
    """Return the asymmetric keys of a set.

    Raises:
      ValueError: too long, or no set.
    """
    if len(content) > MAX_SET_BYTES:
        raise ValueError(f"expected at most {MAX_SET_BYTES} bytes, got more")
    found = KeySet.import_key_set(json.loads(content))
    return tuple(key for key in found.keys if key.key_type in _ASYMMETRIC)
