"""Parts of pages: frame, budget bars, times, numbers and lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from askance_client.accounting import format_nats
from askance_client.console.markup import Markup, fill, joined, template

PLACES = {"": "Budgets", "history": "Questions", "studies": "Studies", "policy": "Policy"}
"""Pages of the menu, by path below the login's."""

_BUDGETS = {"life": "Whole life", "day": "Today (UTC)", "study": "Study", "epoch": "Epoch of study"}
_MARK = Markup(template("mark.svg"))
_FRAME = template("frame.html")
_ALONE = '<main><p class="brand">{} askance</p><h1>{}</h1><p>{}</p></main>'
_EMPTY = '<div class="empty"><p>{}</p></div>'
_BAR = template("bar.html")


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
        fill('<li><a href="{}"{}>{}</a></li>', path or "./", _here(path == current), name)
        for path, name in PLACES.items()
    )
    subject = f"Member {view.member}" if view.member else "This device"
    named = {"mark": _MARK, "subject": subject, "menu": menu, "token": view.form_token}
    return _document(title, fill(_FRAME, title=title, content=joined(content), **named), "framed")


def plain_page(title: str, text: str) -> bytes:
    """Make a page without menu and forms, for a browser that is not logged in."""
    return _document(title, fill(_ALONE, _MARK, title, text), "alone")


def _document(title: str, content: Markup, kind: str) -> bytes:
    page = fill(template("page.html"), title=title, content=content, kind=kind)
    return page.encode("utf-8", "backslashreplace")


def _here(current: bool) -> Markup:
    return Markup(' aria-current="page"' if current else "")


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
    row = "<dt>{}</dt><dd>{}</dd>"
    return fill('<dl class="facts">{}</dl>', joined(fill(row, *pair) for pair in found if pair[1]))


def cards(items: Sequence[Markup], none: str) -> Markup:
    """Make a list of items, or the text that there is none."""
    listed = joined(fill('<li class="panel">{}</li>', item) for item in items)
    return fill('<ul class="cards">{}</ul>' if items else _EMPTY, listed if items else none)


def turns(path: str, page: int, *, older: bool) -> Markup:
    """Make links to the pages before and after one of a list that has the newest first."""
    there = [("Newer", page - 1)] * (page > 1) + [("Older", page + 1)] * older
    links = joined(fill('<a href="{}?page={}">{}</a>', path, str(n), name) for name, n in there)
    return fill('<p class="pages turns">{}</p>', links)
