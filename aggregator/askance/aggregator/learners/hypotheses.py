"""Hypotheses as data."""

from __future__ import annotations

import json
from typing import Any


def hypothesis_json(hypothesis: Any) -> Any:
    """A hypothesis as JSON: by its own `to_json`, as it is, or as its text."""
    if hasattr(hypothesis, "to_json"):
        return hypothesis.to_json()
    try:
        json.dumps(hypothesis, allow_nan=False)
    except (TypeError, ValueError):
        return str(hypothesis)
    return hypothesis
