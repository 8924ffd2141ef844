"""Fields that a model can afford: by their widths, the users and the noise, and by no record.

Each field costs twice: what is asked about it has errors of its own, and its questions take users
from all others. So a model of many columns from few users is worse than the constant. Fields are
kept in the order of their widths, the narrowest first, equal ones in the schema's order, as long as
the model's noise is within a limit. Widths come from the schema and the noise from the planner, so
the choice is known before any user is asked and costs no privacy. It cannot see which fields
matter: name those that are known to matter (`columns`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


def narrowest(
    widths: Sequence[int], affordable: Callable[[Sequence[int]], bool]
) -> tuple[int, ...]:
    """Keep fields as long as the model of those kept is affordable, the narrowest first.

    Of more fields a model never becomes affordable again. The places are increasing: at least one,
    and all if they are affordable.
    """
    kept: list[int] = []
    for place in sorted(range(len(widths)), key=lambda place: (widths[place], place)):
        if kept and not affordable([*kept, place]):
            break
        kept.append(place)
    return tuple(sorted(kept))
