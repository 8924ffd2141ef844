"""Functions of `import askance as ask` that belong to the papers: `reproduce` and `curate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from askance.operations import check_output
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_simulation.populations import DataSource
from askance_simulation.randomness import Seed

if TYPE_CHECKING:
    from askance_papers.curate import CuratorRelease
    from askance_papers.reproduce import Reproduction


def reproduce(
    name: str,
    *,
    quick: bool = False,
    seed: int = 0,
    data: Path | None = None,
    plot: Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Reproduction:
    """Reproduce a theorem, table or figure of the papers, and compare it with the printed values.

    Args:
        name: see `askance reproduce --list`.
        quick: seconds instead of minutes: fewer trials, less data.
        seed: of all chance in it.
        data: a folder with `adult.csv` and `pima_indians_diabetes.csv`; what needs a file that is
            not there is left out, and the result says so.
        plot: where a picture goes, *.png or *.svg.
        progress: called with a short text per part.

    Raises:
        InvalidParameter: a name that there is none of, or a file that cannot be written.
    """
    from askance_papers.reproduce import Effort, Setting, find, save

    check_output(plot, (".png", ".svg"))
    if data is not None and not data.is_dir():
        raise InvalidParameter(f"data: expected a folder, got {value_text(data)}")
    effort = Effort.QUICK if quick else Effort.FULL
    found = find(name).reproduce(Setting(effort, Seed.of(seed) / name, data, progress))
    if plot is not None:
        save(found, plot)
    return found


def curate(
    learner: str,
    data: DataSource | Path | str,
    epsilon: str | float,
    *,
    label: str | None = None,
    schema: Path | None = None,
    settings: Mapping[str, str] | None = None,
    seed: int | None = None,
) -> CuratorRelease:
    """Release the result of a trusted curator's learner on a CSV or Parquet file.

    Args:
        learner: see `askance curate --list`.
        data: path of a CSV or Parquet file, or the name of a data set that ships with the package.
        epsilon: nats, for everything that is released.
        label: the column to be predicted.
        schema: a TOML file with bounds and labels.
        settings: text by name: bounds and labels, and the learner's own.
        seed: for experiments, which are no releases; None: the operating system's randomness.

    Raises:
        InvalidParameter, InvalidRecord: something is not as it is stated; nothing was released.

    Example:
        >>> bounds = {"columns": "age", "bounds": "age:0:120"}
        >>> released = ask.curate("mean", "census", 1, settings=bounds, seed=1)
        >>> released.n
        20000
    """
    from askance_papers.curate import curate as curate_file

    return curate_file(
        learner, data, epsilon, label=label, schema=schema, settings=settings, seed=seed
    )
