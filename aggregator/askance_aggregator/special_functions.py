"""SciPy's special functions, loaded without the rest of `scipy.special`.

The package `scipy.special` takes .2 s to import, of which the compiled functions are a tenth: the
rest makes wrappers for other array libraries, and imports numpy's test and Fortran tools for that.
A study needs a few functions of floats. They are read from the compiled module, under the names
that they have in `scipy.special`; where that cannot be done, the package is imported.
"""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_PACKAGE = "scipy.special"
_COMPILED = f"{_PACKAGE}._ufuncs"
_lock = threading.Lock()


def __getattr__(name: str) -> Any:
    """Return a function by its name in `scipy.special`."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _lock:
        function = getattr(_functions(), name)
    globals()[name] = function
    return function


def load() -> None:
    """Load the functions now: while the process has one thread that is quicker than later."""
    with _lock:
        _functions()


def _functions() -> ModuleType:
    """Return the module that has the functions; the caller holds the lock."""
    if _PACKAGE in sys.modules:
        return import_module(_PACKAGE)
    if _COMPILED not in sys.modules and not _load_compiled():
        return import_module(_PACKAGE)
    return sys.modules[_COMPILED]


def _load_compiled() -> bool:
    """Import the compiled module beside an empty package, and return whether it was possible."""
    # The empty package must not be found by any other import, so this is done only while the
    # process has one thread; the real package, imported later, finds its compiled module loaded.
    spec = find_spec(_PACKAGE)
    if threading.active_count() > 1 or spec is None or not spec.submodule_search_locations:
        return False
    empty = ModuleType(_PACKAGE)
    empty.__path__ = list(spec.submodule_search_locations)
    sys.modules[_PACKAGE] = empty
    try:
        import_module(_COMPILED)
    except (ImportError, AttributeError):  # another version of SciPy
        return False
    finally:
        del sys.modules[_PACKAGE]
    return True
