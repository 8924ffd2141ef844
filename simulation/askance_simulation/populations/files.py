"""Files of records as tables: CSV by the code that devices read it by, and Parquet."""

from __future__ import annotations

from pathlib import Path

from askance_client.errors import InvalidParameter, InvalidRecord
from askance_client.records import Table, read_csv
from askance_simulation.populations.arrow_tables import table_of
from askance_simulation.populations.formats import check_format, remedy

PARQUET = ".parquet"


def read_file(path: Path, delimiter: str = ",") -> Table:
    """Read the records of a file: .parquet for a Parquet file, else CSV.

    A malformed row, which a device's owner is only warned of, is an error: a population is the
    whole file, and a result must not depend on a row that was lost.

    Args:
      path: the file.
      delimiter: the character between two cells of a CSV file.

    Raises:
      InvalidRecord: see `read_csv` and `read_parquet`; or a row of a CSV file is malformed. The
        message says what helps.
    """
    if path.suffix.lower() == PARQUET:
        return read_parquet(path)
    check_format(path, delimiter)
    people = read_csv(path, delimiter)
    for problem in people.malformed.values():
        more = len(people.malformed) - 1
        others = f"; {more:,} more rows are malformed" if more else ""
        raise InvalidRecord(f"{path}: {problem}{remedy(problem, delimiter)}{others}")
    return people


def read_parquet(path: Path) -> Table:
    """Read the users of a Parquet file, one per row; a cell has the text of a CSV file's."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise InvalidParameter(
            f"{path}: expected pyarrow installed to read it (pip install 'askance[frames]')"
        ) from None
    try:
        with path.open("rb") as file:
            people = parquet.ParquetFile(file).read()
    except OSError as error:
        reason = error.strerror or "it breaks off, or is damaged"  # pyarrow's own have none
        raise InvalidRecord(f"{path}: cannot be read: {reason}") from None
    except (ValueError, NotImplementedError):  # what pyarrow's ArrowInvalid and others are
        raise InvalidRecord(f"{path}: expected a Parquet file, got another format") from None
    return table_of(people, path)
