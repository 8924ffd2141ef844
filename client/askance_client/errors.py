"""Errors, by the party at fault.

A message says what was expected, what was found and which item it was; it never repeats a user's
value. An ordinary refusal of a device is a value (`askance_client.device.Refusal`), not an error.
"""

from __future__ import annotations


class AskanceError(Exception):
    """The root of every error that this project raises on purpose."""


class InvalidParameter(AskanceError, ValueError):
    """A caller's number or name is outside what is documented; that call did nothing."""


class InvalidQuery(AskanceError, ValueError):
    """A query is ill-typed, too large, or could overflow; it was not asked."""


class InvalidRecord(AskanceError, ValueError):
    """A data file or record does not have the schema's shape (a single bad value is no error)."""


class ProtocolError(AskanceError):
    """Bytes or an exchange that the protocol does not allow."""


class LocalProtocolError(ProtocolError):
    """Error because this side was about to break the protocol: a bug or misuse in this process."""


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
    """A study or release that does not fit its users or its budget; nothing was asked or charged.

    A study that turns out not to fit after users were charged raises `PlanExceeded`.
    """


class PlanExceeded(AskanceError):
    """A study stopped because its learner asked more than was planned for it and signed.

    The round that would have passed the plan was not asked. Users who were asked in the rounds
    before it stay charged; the message says how many.
    """


class TooFewRespondents(AskanceError):
    """A round closed with fewer answers than its study asks for; what was answered is charged."""


class InvalidAnswer(AskanceError):
    """An oracle's answer that no distribution has within the tolerance that was promised."""
