"""Parts of pages: frame, budget bars, times, numbers and lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from askance_client.accounting import format_nats
from askance_client.console.markup import Markup, fill, joined

STYLE_PATH = "/style.css"
PLACES = {"": "Budgets", "history": "Questions", "studies": "Studies", "policy": "Policy"}
"""Pages of the menu, by path below the login's."""

_BUDGETS = {"life": "Whole life", "day": "Today (UTC)", "study": "Study", "epoch": "Epoch of study"}
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title} - askance</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><link rel="stylesheet" href="{style}"></head>
<body>{content}</body></html>
"""
_FRAME = """<a class="skip" href="#content">Skip to the content</a>
<header><p class="name">askance: {subject}</p><nav aria-label="Pages">{menu}</nav>
<form class="end" method="post" action="end"><input type="hidden" name="token" value="{token}">
<button type="submit">Log out</button></form></header>
<main id="content"><h1>{title}</h1>{content}</main>"""
_BAR = """<li><strong>{name}</strong>
<svg class="bar" role="img" aria-label="{share} spent" width="100%" height="16">
<rect class="whole" width="100%" height="100%" rx="4"/>
<rect class="spent" width="{share}" height="100%" rx="4"/></svg>
<span>{spent} of {of} spent, {rest} left</span></li>"""


@dataclass(frozen=True, slots=True)
class OwnersView:
    """Properties of one run of the page, the same for all its pages.

    Args:
      member: of a gateway, whose budgets and history are shown; empty: all that the device has.
      zone: of the times; None: the machine's.
    """

    form_token: str
    member: str = ""
    zone: tzinfo | None = None


def frame(view: OwnersView, title: str, current: str | None, *content: str) -> bytes:
    """Make a whole page.

    `current` is the page's path in `PLACES`, or None.
    """
    menu = joined(
        fill('<a href="{}"{}>{}</a>', path or "./", _CURRENT if path == current else "", name)
        for path, name in PLACES.items()
    )
    subject = f"member {view.member}" if view.member else "this device"
    body, token = joined(content), view.form_token
    return _document(
        title, fill(_FRAME, subject=subject, menu=menu, token=token, title=title, content=body)
    )


def plain_page(title: str, text: str) -> bytes:
    """Make a page without menu and forms, for a browser that is not logged in."""
    return _document(title, fill("<main><h1>{}</h1><p>{}</p></main>", title, text))


def _document(title: str, content: Markup) -> bytes:
    page = fill(_PAGE, title=title, style=STYLE_PATH, content=content)
    return page.encode("utf-8", "backslashreplace")


_CURRENT = Markup(' aria-current="page"')


def nats(nano_nats: int) -> str:
    """Format a cost with its unit."""
    return f"{format_nats(nano_nats)} nats"


def time_of(view: OwnersView, text: str) -> Markup:
    """Show a time in UTC, as the device writes it, in the view's zone."""
    try:
        at = datetime.fromisoformat(text).replace(tzinfo=UTC).astimezone(view.zone)
        shown = at.strftime("%Y-%m-%d %H:%M:%S %Z")
    except (ValueError, OverflowError):  # an expiry at the end of the calendar
        shown = text
    return fill('<time datetime="{}">{}</time>', text, shown)


def bars(left: Mapping[str, Mapping[str, int]], names: Iterable[str]) -> Markup:
    """Make a list of the budgets of these names, each as a bar and as numbers."""
    return fill('<ul class="bars">{}</ul>', joined(_bar(name, **left[name]) for name in names))


def _bar(name: str, *, left_nano_nats: int, of_nano_nats: int) -> Markup:
    spent = of_nano_nats - left_nano_nats
    share = spent * 10_000 // of_nano_nats if of_nano_nats else 10_000  # hundredths of a percent
    return fill(
        _BAR,
        name=_BUDGETS.get(name, f"Last {name}"),
        share=f"{share // 100}.{share % 100:02}%",
        spent=format_nats(spent),
        of=nats(of_nano_nats),
        rest=nats(left_nano_nats),
    )


def pairs(*found: tuple[str, str]) -> Markup:
    """Make a list of names and what they are; a pair without a value is left out."""
    row = "<div><dt>{}</dt><dd>{}</dd></div>"
    return fill("<dl>{}</dl>", joined(fill(row, *pair) for pair in found if pair[1]))


def cards(items: Sequence[Markup], none: str) -> Markup:
    """Make a list of items, or the text that there is none."""
    listed = joined(fill("<li>{}</li>", item) for item in items)
    return fill('<ul class="cards">{}</ul>', listed) if items else fill("<p>{}</p>", none)


def turns(path: str, page: int, *, older: bool) -> Markup:
    """Make links to the pages before and after one of a list that has the newest first."""
    there = [("Newer", page - 1)] * (page > 1) + [("Older", page + 1)] * older
    links = joined(fill('<a href="{}?page={}">{}</a>', path, str(n), name) for name, n in there)
    return fill('<p class="turns">{}</p>', links)
