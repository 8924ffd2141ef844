"""Consent that an application gives by a function of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable

from askance_client.device import ExaminedStudy
from askance_client.device.policy import Consent as PolicyConsent
from askance_client.messages import Reason, Refusal, StudyTerms
from askance_client.owner.consents import StudyKey

_LOGGER = logging.getLogger("askance.device")
_MAX_AGREED = 1024  # studies; more are asked about again

Consent = Callable[[StudyTerms], bool]
"""Returns whether the owner agrees to a study; independent of any record."""


class ApplicationConsent:
    """Consent by an application's function, which is asked until it agrees to a study and its key.

    Args:
      owner: the policy's own, which is asked first, for every request; None: there is none.
    """

    def __init__(self, consent: Consent, owner: PolicyConsent | None) -> None:
        self._consent = consent
        self._owner = owner
        self._agreed: set[StudyKey] = set()

    def __call__(self, study: ExaminedStudy, payload: bytes, at_s: int) -> Refusal | None:
        objection = None if self._owner is None else self._owner(study, payload, at_s)
        if objection is not None:
            return objection
        if self._agrees(study):
            return None
        name = study.digest.hex()[:16]
        return Refusal(Reason.WAITING, f"study {name} waits for the application's consent")

    def _agrees(self, study: ExaminedStudy) -> bool:
        key = (study.digest, study.public_key)
        if key in self._agreed:
            return True
        try:
            agreed = self._consent(study.terms) is True
        except Exception as failure:
            _LOGGER.warning("consent failed: %s", type(failure).__name__)
            return False
        if not agreed:
            return False
        if len(self._agreed) >= _MAX_AGREED:
            self._agreed.clear()
        self._agreed.add(key)
        return True
