"""Messages of webhooks: the body, and the headers that identify and sign it.

A body has what the study's analyst may read, and nothing of a device:

    {"type": "epoch.done", "timestamp": "2026-11-27T12:00:00Z",
     "data": {"study": ..., "title": ..., "analyst": ..., "learner": ..., "state": "done",
              "reason": ..., "message": ..., "epoch": 2, "epochs": 12,
              "result": {...}, "result_left_out": null}}

`result` is the JSON that `askance study result --json` prints. It is null if it is longer than
`RESULT_BYTES` or was deleted; `result_left_out` says which.
"""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Sequence
from typing import Any

from askance_aggregator.encoding import read_terms
from askance_aggregator.names import with_own_names
from askance_aggregator.store import WebhookClaim
from askance_aggregator.titles import title_of
from askance_client.messages import StudyTerms
from askance_client.service.clock import utc_text

RESULT_BYTES = 1 << 20
"""Bytes of a result that stands in a message; receivers refuse longer bodies."""


def body_of(claim: WebhookClaim) -> bytes:
    """Return the message's body: the same bytes at each try, unless results were deleted."""
    terms = read_terms(claim.study)
    kind = "epoch" if claim.epoch else "study"
    state = claim.state.name.lower()
    result, left_out = _result(claim.result_json)
    content = {
        "type": f"{kind}.{state}",
        "timestamp": utc_text(claim.ended_unix_s),
        "data": {
            "study": claim.digest.hex(),
            "title": title_of(terms),
            "analyst": claim.analyst.hex(),
            "learner": terms.learner,
            "state": state,
            "reason": claim.reason,
            "message": claim.message,
            **_epoch(terms, claim.epoch),
            "result": result,
            "result_left_out": left_out,
        },
    }
    return json.dumps(content, ensure_ascii=False).encode()


def trial_body(now_s: int) -> bytes:
    """Return the body of a message by which an operator tries a receiver."""
    return json.dumps({"type": "webhook.test", "timestamp": utc_text(now_s), "data": {}}).encode()


def headers_of(
    message_id: str, now_s: int, body: bytes, secrets: Sequence[bytes]
) -> dict[str, str]:
    """Return the headers of a message that is sent now: its id, the time, and the signatures."""
    return {
        "content-type": "application/json",
        "user-agent": "askance",
        "webhook-id": message_id,
        "webhook-timestamp": str(now_s),
        "webhook-signature": " ".join(
            signature(secret, message_id, now_s, body) for secret in secrets
        ),
    }


def signature(secret: bytes, message_id: str, now_s: int, body: bytes) -> str:
    """Return the signature of Standard Webhooks, version 1: HMAC-SHA256 in base64."""
    signed = f"{message_id}.{now_s}.".encode() + body
    return f"v1,{base64.b64encode(hmac.digest(secret, signed, 'sha256')).decode()}"


def _result(text: str) -> tuple[Any, str | None]:
    """Return a result, and why it is left out; None: it is not."""
    if not text:
        return None, "deleted"
    if len(text.encode()) > RESULT_BYTES:
        return None, "too-long"
    return with_own_names(json.loads(text)), None


def _epoch(terms: StudyTerms, epoch: int) -> dict[str, int | None]:
    """Return the number of an epoch, from 1, and of all epochs; None: of no epoch."""
    repeat = terms.repeat
    if repeat is None or not epoch:
        return {"epoch": None, "epochs": None if repeat is None else repeat.epochs}
    return {"epoch": epoch - repeat.first + 1, "epochs": repeat.epochs}
