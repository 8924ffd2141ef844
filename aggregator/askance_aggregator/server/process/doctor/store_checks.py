"""Checks of the store: reached and fit, rights, schema, and its clock."""

from __future__ import annotations

from askance_aggregator.server.process.doctor.checks import (
    CheckVerdict,
    Surroundings,
    check,
    failed,
    passed,
    warned,
)
from askance_client.service.clock import utc_text

_FIRST_S = 1_735_689_600  # 2025-01-01: a clock before this was never set
# An analyst's signature is good for five minutes, a report's time is a second.
_SKEW_TO_WARN_S, _SKEW_TO_FAIL_S = 1.0, 30.0
_SET_CLOCK = "set the clocks of both machines by NTP (timedatectl set-ntp true)"
_MIGRATE = "stop the aggregator, back up the store, then run: askance aggregator migrate"


@check("store", "check store in the configuration, and that its database runs")
def store(surroundings: Surroundings) -> CheckVerdict:
    """Check that the store is there, and its server's version and settings."""
    facts = surroundings.store
    if facts.unfit:
        return failed(f"{facts.engine}: {'; '.join(facts.unfit)}", "change it on the server")
    held = ", in use by an aggregator" if facts.in_use else ""
    return passed(f"{surroundings.configuration.store}: {facts.engine}{held}")


@check("rights", "run as the user, or connect by the role, that owns the store")
def rights(surroundings: Surroundings) -> CheckVerdict | None:
    """Check what the user or the role may do."""
    facts = surroundings.store_if_known
    if facts is None:
        return None
    if facts.missing_rights:
        return failed(f"missing: {'; '.join(facts.missing_rights)}")
    return passed("to read and to write" if facts.folder else "the role owns the schema, or may")


@check("schema", _MIGRATE)
def schema(surroundings: Surroundings) -> CheckVerdict | None:
    """Compare the schema's version with the one that is needed."""
    facts = surroundings.store_if_known
    if facts is None or facts.missing_rights:
        return None
    if facts.schema is None and facts.in_use:
        return passed(f"version {facts.needed_schema}, or the aggregator would not serve")
    text = f"expected version {facts.needed_schema}, got {facts.schema or 'none'}"
    if facts.schema is None or (facts.schema < facts.needed_schema and not facts.updates_itself):
        return failed(text, "run: askance aggregator migrate" if facts.schema is None else "")
    if facts.schema > facts.needed_schema:
        return failed(text, "install an askance of the version that wrote it, or a newer one")
    if facts.schema < facts.needed_schema:
        return warned(
            f"{text}, and the next start brings it up to date", "back up the store before the start"
        )
    return passed(f"version {facts.schema}")


@check("clock", _SET_CLOCK)
def clock(surroundings: Surroundings) -> CheckVerdict:
    """Compare this machine's clock with the database's, or with the last change of the file."""
    now_s = surroundings.now_s()
    if now_s < _FIRST_S:
        return failed(f"expected a date after 2024, got {utc_text(int(now_s))}")
    facts = surroundings.store_if_known
    if facts is None:
        return passed(f"{utc_text(int(now_s))}; not compared with the store's")
    if facts.written_unix_s is not None and facts.written_unix_s > now_s + _SKEW_TO_FAIL_S:
        return failed(
            f"{utc_text(int(now_s))}, before the store's last change on"
            f" {utc_text(facts.written_unix_s)}",
            "set this machine's clock (timedatectl set-ntp true)",
        )
    ahead_s = facts.clock_ahead_s
    if ahead_s is None:
        return passed(utc_text(int(now_s)))
    text = f"the database's clock is {abs(ahead_s):.2f} s {'ahead' if ahead_s > 0 else 'behind'}"
    if abs(ahead_s) > _SKEW_TO_FAIL_S:
        return failed(text)
    if abs(ahead_s) > _SKEW_TO_WARN_S:
        return warned(text)
    return passed(f"{utc_text(int(now_s))}; {text}")
