"""What can go wrong, by whose fault it is.

A message says what was expected, what was found and which item it was; it never repeats a user's
value. An ordinary refusal of a device is a value (`askance.client.device.Refusal`), not an error.
"""

from __future__ import annotations


class AskanceError(Exception):
    """The root of every error that this project raises on purpose."""


class InvalidParameter(AskanceError, ValueError):
    """A caller's number or name is outside what is documented; nothing was done."""


class InvalidQuery(AskanceError, ValueError):
    """A query is ill-typed, too large, or could overflow; nothing was asked."""


class InvalidRecord(AskanceError, ValueError):
    """A data file or record does not have the schema's shape (a single bad value is no error)."""


class ProtocolError(AskanceError):
    """Bytes or an exchange that the protocol does not allow."""


class LocalProtocolError(ProtocolError):
    """This side was about to break the protocol: a bug or a misuse here."""


class RemoteProtocolError(ProtocolError):
    """The other side broke the protocol; its message is dropped."""


class StoreError(AskanceError):
    """A ledger or store cannot be trusted or used; it is left as it was found."""


class StoreFailed(StoreError):
    """The disk or the database failed: the same operation may succeed later."""


class UnsupportedStore(StoreError):
    """A ledger or store written by a newer version."""


class NondeterminismError(StoreError):
    """A replayed learner asked something else than what the transcript recorded."""


class PlanRefused(AskanceError):
    """A study that cannot work (too few users, too little epsilon); nothing was asked."""


class TooFewRespondents(AskanceError):
    """A round closed with fewer answers than its study asks for; what was answered is charged."""


class InvalidAnswer(AskanceError):
    """An oracle's answer that no distribution has within the tolerance that was promised."""
