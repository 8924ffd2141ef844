"""Calls of the service for operators."""

from __future__ import annotations

from askance_aggregator.analyst.calls import ServiceCall


class OperatorCall(ServiceCall):
    """A call of the service for operators."""

    FLEET = "Fleet"
    STUDIES = "Studies"
    AUDIT = "Audit"
    DEVICES = "Devices"
    TAG_DEVICES = "TagDevices"
    REVOKE_DEVICES = "RevokeDevices"
    RESTORE_DEVICES = "RestoreDevices"
    CALLER = "Caller"

    @property
    def service(self) -> str:
        """Name of the service for operators."""
        return "Operators"
