"""Arguments that several commands take."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from askance.cli.output import Failure

if TYPE_CHECKING:
    from askance_aggregator.analyst import Aggregator
    from askance_simulation.populations import DataSource


_DAY_LENGTH = len("2026-11-20")
_NO_YEAR = 1970  # days after it have a number of seconds that is not 0
_BY_PLACE = {"learner": "a learner's name", "name": "a name"}  # arguments without dashes


def add_learner(parser: argparse.ArgumentParser, *, nargs: str | None = None) -> None:
    """Add the options of the learner, its users and its budget."""
    add_learner_name(
        parser,
        learner_names,
        nargs=nargs,
        help="a learner's name (see: askance simulate --list); --help after it lists its options",
    )
    parser.add_argument(
        "--beta",
        default="0.01",
        metavar="B",
        help="chance that an answer is off by more than its tolerance; default 0.01",
    )
    parser.add_argument(
        "--epsilon", metavar="E", help="each user's whole budget for the study, in nats"
    )
    parser.add_argument(
        "--users",
        type=count,
        metavar="N",
        help="number of users; with --data, so many rows are drawn at random (default: all rows)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        type=setting,
        metavar="NAME=VALUE",
        help="a parameter by its name: --set column=age is --column age (NAME is in --help after a"
        " learner's name); may be repeated, the last one holds",
    )
    parser.add_argument(
        "--randomizer",
        default="best",
        metavar="NAME",
        help="best (default), k-ary-response, subset-selection or linear-hashing",
    )
    parser.add_argument(
        "--waves",
        type=count,
        default=1,
        metavar="W",
        help="ask the users of a round in W parts, and end it when the answers are exact enough;"
        " saves users where epsilon is large and answers vary little (default: 1)",
    )
    add_people(parser)
    add_categories(parser)


def add_learner_name(
    parser: argparse.ArgumentParser, names: Callable[[], Iterable[str]], **settings: Any
) -> None:
    """Add the positional argument of the learner's name.

    `names` are the learners by name; it is called when a shell completes the argument.
    """
    action = parser.add_argument("learner", **settings)
    action.completer = (  # type: ignore[attr-defined]  # argcomplete's
        lambda prefix, **_: [name for name in names() if name.startswith(prefix)]
    )


def learner_names() -> list[str]:
    """Return the names of the catalogue's learners."""
    from askance_aggregator.learners import learners

    return [entry.name for entry in learners()]


def add_people(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the population."""
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--population", metavar="NAME", help="a generated population")
    source.add_argument(
        "--data",
        type=Path,
        metavar="FILE.csv|.parquet|NAME",
        help="a file of records, one user per row: CSV with a header line, or Parquet; an empty"
        " value, ?, NA or NaN is a missing one. Or the name of a data set that ships with askance:"
        " census",
    )
    add_delimiter(parser)
    parser.add_argument(
        "--most-outside",
        metavar="SHARE",
        help="share of a field's values outside --schema that is accepted; with more the file is"
        " refused (default: 0.5)",
    )
    parser.add_argument(
        "--schema",
        type=Path,
        metavar="FILE.toml",
        help="the schema of --data, as examples/people.toml is one; else it is inferred",
    )
    parser.add_argument(
        "--label",
        metavar="COLUMN",
        help="the category to predict",
    )


def add_categories(parser: argparse.ArgumentParser) -> None:
    """Add the option of the columns whose numbers are labels."""
    parser.add_argument(
        "--categories",
        type=columns,
        default=(),
        metavar="COLUMN,...",
        help="columns whose values are labels, even if they are numbers",
    )


def add_delimiter(parser: argparse.ArgumentParser) -> None:
    """Add the option of the character between the cells of a CSV file."""
    parser.add_argument(
        "--delimiter",
        type=delimiter,
        default=",",
        metavar="C",
        help="the character between the cells of a CSV file: , (default) ; | or tab",
    )


def add_out(parser: argparse.ArgumentParser, metavar: str, summary: str) -> None:
    """Add the options of the file that a result is written to."""
    parser.add_argument("--out", type=Path, metavar=metavar, help=summary)
    parser.add_argument("--force", action="store_true", help="replace the file of --out")


def check_new(arguments: argparse.Namespace) -> None:
    """Refuse an --out file that exists, before the work for it starts, unless --force is given."""
    if arguments.out is not None and arguments.out.exists() and not arguments.force:
        raise Failure(
            2,
            "bad-input",
            f"--out: expected a new file, got {arguments.out}, which exists: give another name, or"
            " --force to replace it",
        )


def source(arguments: argparse.Namespace) -> DataSource | None:
    """Return the records of --data, and how they are read; None: there are none."""
    from askance_aggregator.numbers import rational
    from askance_simulation.populations import DataSource

    if arguments.data is None:
        if arguments.delimiter != "," or arguments.most_outside is not None:
            name = "--most-outside" if arguments.delimiter == "," else "--delimiter"
            raise Failure(2, "usage", f"{name}: expected --data with it, got none")
        return None
    if arguments.most_outside is None:
        return DataSource(arguments.data, arguments.delimiter)
    most = rational(arguments.most_outside, "--most-outside")
    return DataSource(arguments.data, arguments.delimiter, most)


def add_workers(parser: argparse.ArgumentParser, workers: str) -> None:
    """Add the options of the workers: their number and machines."""
    parser.add_argument("--workers", type=count, metavar="W", help=workers)
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="address of a Ray cluster that --fleet ray joins (default: a Ray is started on this"
        " machine)",
    )


def add_text(parser: argparse.ArgumentParser, *, rows: bool = True) -> None:
    """Add the options of the text that is printed: --verbose and, for tables, --all."""
    parser.add_argument(
        "--verbose",
        action="store_true",
        help="add the details: raw estimates, bounds, influence, randomizers, the transcript",
    )
    if rows:
        parser.add_argument("--all", action="store_true", help="print all rows of a table")


def chosen(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `add_learner` as `ask.named` and `ask.plan` take them.

    Of a file, --label makes a column the label; of other users it is the learner's parameter.
    """
    settings, label = dict(arguments.set), arguments.label
    if label is not None and arguments.data is None:
        settings, label = {"label": label} | settings, None
    return {
        "epsilon": arguments.epsilon,
        "beta": arguments.beta,
        "users": arguments.users,
        "settings": settings,
        "population": arguments.population,
        "data": source(arguments),
        "schema": arguments.schema,
        "label": label,
        "categories": arguments.categories,
        "randomizer": arguments.randomizer,
        "waves": arguments.waves,
    }


def count(text: str) -> int:
    """Parse a whole number of 1 or more; 1e6 and 1_000_000 are accepted."""
    try:
        number = int(text)
    except ValueError:
        try:
            number = int(float(text)) if float(text).is_integer() else 0
        except (ValueError, OverflowError):
            number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of 1 or more, got {text!r}")
    return number


def days_of(every: str | None) -> int:
    """Return the days of an epoch, as --every has them; 7 if it is not given."""
    from askance_client.errors import InvalidParameter
    from askance_client.toml_tables import a_number_of_days

    try:
        return a_number_of_days(every or "7d")
    except InvalidParameter as error:
        raise Failure(2, "bad-input", f"--every: {error}") from None


def day(text: str) -> int:
    """Return the first second of a day, as 2026-11-20, since 1970, UTC; a type of argparse."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or len(text) != _DAY_LENGTH or moment.year <= _NO_YEAR:
        raise argparse.ArgumentTypeError(f"expected a day such as 2026-11-20, got {text!r}")
    return int(moment.replace(tzinfo=UTC).timestamp())


def seed(text: str) -> int:
    """Parse a whole number of 0 or more, of any size."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"expected a whole number of 0 or more, got {text!r}")
    return int(text)


def columns(text: str) -> tuple[str, ...]:
    """Parse names of columns."""
    from askance_aggregator.names import names_in

    return names_in(text)


def delimiter(text: str) -> str:
    """Parse a character between cells; a tab may be given by its name."""
    return "\t" if text == "tab" else text


def setting(text: str) -> tuple[str, str]:
    """Parse NAME=VALUE."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    return name, value


def required(arguments: argparse.Namespace, *names: str) -> None:
    """Refuse the command if one of these is missing, by the name of the first."""
    for name in names:
        if getattr(arguments, name) is None:
            what = _BY_PLACE.get(name, f"--{name}")
            help_ = "--list" if name in _BY_PLACE and "list" in arguments else "--help"
            message = f"expected {what}, got none (see {arguments.called} {help_})"
            raise Failure(2, "usage", message)


_AGGREGATOR = "127.0.0.1:7443"


def add_aggregator(parser: argparse.ArgumentParser) -> None:
    """Add the options that reach an aggregator as one caller."""
    parser.add_argument(
        "--aggregator",
        default=_AGGREGATOR,
        metavar="HOST:PORT",
        help=f"the aggregator's address; default {_AGGREGATOR}",
    )
    parser.add_argument(
        "--key",
        type=Path,
        metavar="FILE.pem",
        help="the caller's private key; signs calls if there is no token, and an analyst's studies",
    )
    parser.add_argument(
        "--bearer-token-file",
        type=Path,
        metavar="FILE",
        help="a token of the organisation's issuer, in place of signed calls; read for each call",
    )
    parser.add_argument(
        "--ca",
        type=Path,
        metavar="FILE.pem",
        help="the authority of the aggregator's certificate (default: the system's; on this"
        " machine, plain text)",
    )
    parser.add_argument("--plaintext", action="store_true", help="no TLS: readable by the network")


def connected(arguments: argparse.Namespace) -> Aggregator:
    """Connect to the aggregator that the options name."""
    import askance as ask

    if arguments.key is None and arguments.bearer_token_file is None:
        raise Failure(2, "usage", "expected --key or --bearer-token-file, got neither")
    return ask.connect(
        arguments.aggregator,
        key=arguments.key,
        bearer_token_file=arguments.bearer_token_file,
        ca=arguments.ca,
        plaintext=arguments.plaintext,
        **_pinned(arguments),
    )


def _pinned(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the keys that must have signed the counts of an export, where the command has any."""
    keys = getattr(arguments, "aggregator_key", None)
    return {} if keys is None else {"counts_keys": keys}
