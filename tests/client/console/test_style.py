"""Colours of both consoles have the contrast of WCAG 2.2, level AA, in both schemes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import askance_client.console

STYLE = Path(askance_client.console.__file__).with_name("style.css").read_text(encoding="utf-8")
SCHEMES = [
    dict(re.findall(r"--([\w-]+): (#\w{6})", block))
    for block in re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
]
GROUNDS = ("ground", "panel")
TEXTS = [f"{text} {ground}" for text in ("text", "faint", "accent", "bad") for ground in GROUNDS]
TONES = [f"{tone} {tone}-ground" for tone in ("accent", "good", "bad", "warn")]
EDGES = [f"control {ground}" for ground in GROUNDS] + ["accent line"]


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG defines it."""
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_texts_and_edges_have_contrast(scheme: int) -> None:
    colours = SCHEMES[scheme]
    for pairs, least in ((TEXTS + TONES + ["on-accent accent"], 4.5), (EDGES, 3)):
        for pair in pairs:
            dark, light = sorted(luminance(colours[name]) for name in pair.split())
            assert (light + 0.05) / (dark + 0.05) >= least, pair
