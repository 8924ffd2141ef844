"""Trees and lists of rules as diagrams."""

from __future__ import annotations

from typing import Any

from askance_aggregator.learners.shapes import Branch, RuleList, Tree
from askance_simulation.plots import style
from askance_simulation.plots.content import Content
from askance_simulation.plots.picture import Picture, fitted_figure

_LINE, _INDENT = 0.3, 0.035  # inches per line; part of the width per level
_MAX_LINES = 80
_TEXT = 62  # characters of a condition
_CHARACTER = 0.0145  # part of the width


def tree(shape: Tree, content: Content) -> Picture:
    """Draw a tree from the left: a line per node, its children below it and further right."""
    lines: list[tuple[int, str, Branch]] = []
    _collect(shape.root, 0, "", lines)
    drawn = lines[:_MAX_LINES]
    figure = fitted_figure(_LINE * len(drawn) + 1.6)
    axes = _blank(figure, len(drawn))
    parents: dict[int, int] = {}
    for up, (level, edge, branch) in enumerate(drawn):
        left = level * _INDENT
        if level:
            _connect(axes, (level - 1) * _INDENT, parents[level - 1], left, up)
        parents[level] = up
        _node(axes, left, up, edge, branch)
    leaves = sum(branch.outcome is not None for _, _, branch in lines)
    told = [f"{leaves} leaves, each with its class, its share of users and the class's share of it"]
    if len(drawn) < len(lines):
        told.append(f"the first {len(drawn)} of {len(lines):,} nodes")
    _titled(axes, content, f"Decision tree for {shape.label}")
    style.remark(figure, "; ".join([*told, *([content.remark] if content.remark else [])]))
    return Picture(figure)


def rule_list(shape: RuleList, content: Content) -> Picture:
    """Draw a list of rules from the top: a condition that holds leads to the right."""
    rules = shape.rules[: _MAX_LINES - 1]
    figure = fitted_figure(0.42 * (len(rules) + 1) + 1.5)
    axes = _blank(figure, len(rules) + 1)
    right = 0.08 + _CHARACTER * max(len("otherwise"), *(8 + len(rule[0]) for rule in rules), 0)
    for up, (condition, outcome, index) in enumerate(rules):
        word = "if" if up == 0 else "else if"
        _box(axes, 0.02, up, f"{word} {condition}", "#ffffff")
        _arrow(axes, (right, up), (right + 0.12, up))
        _box(axes, right + 0.14, up, f"{shape.label} = {outcome}", _colour(index))
        _arrow(axes, (0.1, up + 0.32), (0.1, up + 0.68))
    _box(axes, 0.02, len(rules), "otherwise" if rules else "always", "#ffffff")
    _arrow(axes, (right, len(rules)), (right + 0.12, len(rules)))
    _box(
        axes,
        right + 0.14,
        len(rules),
        f"{shape.label} = {shape.default}",
        _colour(shape.default_index),
    )
    _titled(axes, content, f"Rules for {shape.label}, read from the top")
    of_all = len(shape.rules)
    told = f"the first {len(rules)} of {of_all:,}" if len(rules) < of_all else ""
    style.remark(figure, "; ".join(part for part in (told, content.remark) if part))
    return Picture(figure)


def _collect(branch: Branch, level: int, edge: str, lines: list[tuple[int, str, Branch]]) -> None:
    """List nodes in the order of the drawing, with the answer that leads to each."""
    lines.append((level, edge, branch))
    for answer, child in zip(("then", "else"), branch.children, strict=False):
        _collect(child, level + 1, answer, lines)


def _node(axes: Any, left: float, up: int, edge: str, branch: Branch) -> None:
    answer = f"{edge} " if edge else ""
    if branch.outcome is None:
        text = style.name(f"if {branch.text} is {branch.detail}:", _TEXT - 3 * int(left / _INDENT))
        axes.text(left + 0.012, up, f"{answer}{text}", va="center", fontsize=9.5, color=style.INK)
        return
    axes.text(
        left + 0.012, up, f"{answer}{style.name(branch.text)}  ({branch.detail})", va="center",
        fontsize=9.5, color=style.INK,
        bbox={"facecolor": _colour(branch.outcome), "edgecolor": "none", "pad": 2},
    )  # fmt: skip


def _connect(axes: Any, parent_left: float, parent_up: int, left: float, up: int) -> None:
    across = parent_left + 0.018
    axes.plot([across, across, left + 0.008], [parent_up + 0.35, up, up], color=style.QUIET, lw=1)


def _box(axes: Any, left: float, up: int, text: str, colour: str) -> None:
    axes.text(
        left, up, style.name(text), va="center", fontsize=10, color=style.INK,
        bbox={"facecolor": colour, "edgecolor": style.QUIET, "boxstyle": "round,pad=0.35"},
    )  # fmt: skip


def _arrow(axes: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": style.QUIET})


def _colour(index: int) -> str:
    return style.PALE[index % len(style.PALE)]


def _blank(figure: Any, lines: int) -> Any:
    axes = figure.add_subplot()
    axes.set_xlim(0, 1)
    axes.set_ylim(lines - 0.4, -0.6)
    axes.set_axis_off()
    return axes


def _titled(axes: Any, content: Content, heading: str) -> None:
    style.head(axes.figure, content.title(heading))
