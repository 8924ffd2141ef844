"""Notebooks of `examples`, executed: their outputs are kept, and shown by the documentation's site.

    python tools/notebooks.py                  # all of them
    python tools/notebooks.py own_learner      # one

A notebook runs from top to bottom in a new kernel, in the folder `examples`, with the code of this
repository. Outputs hold no time: neither is execution timed, nor is metadata of the machine kept.
"""

from __future__ import annotations

import argparse
import base64
import io
import os
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples"
COLOURS = 64  # of a picture
CELL_S = 300  # at most, on a busy machine; on an idle one a notebook takes less than 60 s

_SOURCES = ("", "protos", "client", "aggregator", "simulation", "papers")
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def notebooks() -> list[Path]:
    """Return the notebooks' files, by name."""
    return sorted(FOLDER.glob("*.ipynb"))


def executed(path: Path) -> Any:
    """Execute a notebook and return it with its outputs, as an `nbformat.NotebookNode`.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell raises an error, or takes too long.
    """
    from nbclient import NotebookClient

    nbformat = import_module("nbformat")

    roots = os.pathsep.join(str(ROOT / folder) for folder in _SOURCES)
    notebook: Any = nbformat.read(path, as_version=4)
    notebook.metadata = nbformat.from_dict(METADATA)
    client = NotebookClient(
        notebook,
        timeout=CELL_S,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(FOLDER)}},
    )
    client.execute(env={**os.environ, "PYTHONPATH": roots})
    for output in outputs(notebook):
        if "image/png" in output.get("data", {}):
            output.data["image/png"] = fewer_colours(output.data["image/png"])
    notebook.metadata = nbformat.from_dict(METADATA)  # the kernel has added its versions
    return notebook


def fewer_colours(picture: str) -> str:
    """Return a PNG, as base64, with a palette of 64 colours: about a third of its size."""
    from PIL import Image

    small = io.BytesIO()
    with Image.open(io.BytesIO(base64.b64decode(picture))) as image:
        image.convert("RGB").quantize(COLOURS).save(small, format="png", optimize=True)
    return base64.b64encode(small.getvalue()).decode("ascii")


def outputs(notebook: Any) -> Iterator[Any]:
    """Yield the outputs of all cells, in order."""
    for cell in notebook.cells:
        yield from cell.get("outputs", [])


def texts(notebook: Any) -> list[str]:
    """Return all text that the cells put out, in order; pictures are left out."""
    found = []
    for output in outputs(notebook):
        if output.output_type == "stream":
            found.append(output.text)
        else:
            kept = output.get("data", {})
            found += [text for kind, text in sorted(kept.items()) if kind.startswith("text/")]
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Execute notebooks and write them with their outputs."""
    nbformat = import_module("nbformat")  # its functions have no types
    known = {path.stem: path for path in notebooks()}
    parser = argparse.ArgumentParser(description="Execute notebooks and keep their outputs.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}; all")
    names = parser.parse_args(arguments).names or list(known)
    if unknown := sorted(set(names) - set(known)):
        parser.error(f"NAME: expected one of {', '.join(known)}, got {unknown[0]!r}")
    for name in names:
        print(name, flush=True)
        nbformat.write(executed(known[name]), known[name])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
