"""Table `[quotas]` of a configuration: what each analyst may submit.

[quotas]                      # of every analyst
open_studies = 8              # left out: 8
studies_per_day = 100         # left out: 100
epsilon_per_day = "2"         # per user, of the studies of one day together; left out: no limit
users_per_study = 100000      # left out: no limit

[[quotas.analysts]]           # of one analyst, in place of all of these; the same if left out
key = "64 hexadecimal digits"
open_studies = 20
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from askance_aggregator.numbers import at_least_one
from askance_aggregator.server.process.callers_table import public_key
from askance_aggregator.server.studies.quotas import DEFAULT_QUOTA, Quota, Quotas
from askance_client.accounting import parse_epsilon
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.toml_tables import TomlTable, a_text


def read_quotas(table: TomlTable) -> Quotas:
    """Read the table `[quotas]`.

    Raises:
      InvalidParameter: something in it does not belong there, or a key stands there twice.
    """
    default = _quota(table)
    own: dict[bytes, Quota] = {}
    for place, row in enumerate(table.get("analysts", _tables) or []):
        one = TomlTable(row, f"{table.place('analysts')}[{place}]")
        key = one.need("key", lambda value: public_key(a_text(value)))
        if key in own:
            raise InvalidParameter(
                f"{table.place('analysts')}: expected distinct keys, got {key.hex()} twice"
            )
        own[key] = _quota(one)
        one.finish()
    return Quotas(default, own)


def _quota(table: TomlTable) -> Quota:
    return Quota(
        open_studies=table.get("open_studies", at_least_one) or DEFAULT_QUOTA.open_studies,
        studies_per_day=table.get("studies_per_day", at_least_one) or DEFAULT_QUOTA.studies_per_day,
        day_nano_nats=table.get("epsilon_per_day", a_budget),
        users_per_study=table.get("users_per_study", at_least_one),
    )


def a_budget(value: object) -> int:
    """Return the nano-nats of nats that are a text or a whole number, exactly.

    Raises:
      InvalidParameter: neither, or not a budget.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return parse_epsilon(value, field="")
    return parse_epsilon(a_text(value), field="")


def _tables(value: object) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise InvalidParameter(f"expected tables [[quotas.analysts]], got {value_text(value)}")
    return value
