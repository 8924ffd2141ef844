"""SciPy's special functions are loaded quickly, and are SciPy's."""

from __future__ import annotations

import subprocess
import sys

import pytest

NAMES = (
    "bdtr", "bdtrc", "betainc", "betaincc", "betainccinv", "betaincinv", "chdtrc", "chdtri",
    "chndtr", "erf", "erfc", "gammainc", "gammaln", "ndtr", "ndtri", "stdtrit",
)  # fmt: skip


def printed(code: str) -> list[str]:
    """Return what a new process prints, word by word."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.split()


def test_the_functions_are_those_of_the_package_which_is_not_imported() -> None:
    code = f"""
import sys
from askance_aggregator import special_functions
found = [getattr(special_functions, name) for name in {NAMES!r}]
print("scipy.special" in sys.modules)
import scipy.special
print(all(getattr(scipy.special, name) is one for name, one in zip({NAMES!r}, found)))
"""
    assert printed(code) == ["False", "True"]


def test_the_package_is_imported_where_another_thread_might_see_the_empty_one() -> None:
    code = """
import sys, threading
from askance_aggregator import special_functions
done = threading.Event()
threading.Thread(target=done.wait).start()
print(special_functions.ndtr(0.0), "scipy.special" in sys.modules)
done.set()
import scipy.special
print(special_functions.ndtr is scipy.special.ndtr)
"""
    assert printed(code) == ["0.5", "True", "True"]


def test_a_name_that_scipy_lacks_is_an_attribute_error() -> None:
    from askance_aggregator import special_functions

    with pytest.raises(AttributeError):
        _ = special_functions.no_such_function
    with pytest.raises(AttributeError, match="no attribute '_hidden'"):
        _ = special_functions._hidden
