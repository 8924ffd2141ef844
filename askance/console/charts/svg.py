"""Elements of SVG as markup, with every attribute and text escaped, and scales of axes."""

from __future__ import annotations

from math import ceil, floor, log10

from markupsafe import Markup, escape

_SMALL = 400  # width of a chart that can be read on a telephone without scrolling


def element(name: str, *children: Markup | str, **attributes: str | float) -> Markup:
    """Return an element.

    Args:
      name: of the element.
      children: markup, or text, which is escaped.
      attributes: by name; `class_` stands for class, and an underscore for a hyphen.
    """
    # Joined as text, each part escaped: `Markup.format` takes five times as long.
    texts = [
        f' {escape(key.strip("_").replace("_", "-"))}="{escape(_text(value))}"'
        for key, value in attributes.items()
    ]
    inner, tag = "".join(map(escape, children)), escape(name)
    return Markup(f"<{tag}{''.join(texts)}>{inner}</{tag}>")


def chart(title: str, width: int, height: int, *children: Markup) -> Markup:
    """Return a whole chart, which a screen reader calls by its title; a table has its numbers."""
    return element(
        "svg",
        element("title", title),
        *children,
        class_="chart small" if width <= _SMALL else "chart",
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_label=title,
    )


def nice_ticks(top: float, count: int = 4) -> list[float]:
    """Return round numbers from 0 to the first that is not below `top`, about `count` steps."""
    step = nice_step(max(top, 1e-9) / count)
    return [step * n for n in range(ceil(top / step - 1e-9) + 1)] if top > 0 else [0.0, 1.0]


def nice_step(least: float) -> float:
    """Return the least of 1, 2, 2.5 and 5 times a power of ten that is not below `least`."""
    power = 10.0 ** floor(log10(least))
    return next(m * power for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * power >= least * (1 - 1e-9))


def _text(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
