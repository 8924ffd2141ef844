"""`askance study`: the analyst's commands, for studies on an aggregator that is served."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from askance.cli import output, submission
from askance.cli.aggregator.common import add_command
from askance.cli.arguments import (
    add_aggregator,
    add_out,
    add_text,
    check_new,
    connected,
    count,
    day,
    setting,
)
from askance.cli.epochs import add_csv, check_series_options, epoch_text, epochs_json, print_series
from askance.cli.parameters import first_positional
from askance.cli.progress import progress
from askance_aggregator.names import names_of
from askance_aggregator.reports.figures import risk_line, risk_notes
from askance_aggregator.reports.outcomes import verification_report
from askance_aggregator.reports.report import CommandReport, Grid
from askance_aggregator.reports.texts import counted, population_text
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_client.printable import printable, value_text

if TYPE_CHECKING:
    from askance_aggregator.analyst import StudyDefinition, StudyEvent, StudyHandle, StudyResult
    from askance_aggregator.store import StudyState
    from askance_aggregator.studies.series import EpochStatus, StudySeries
    from askance_protos.v1.analyst_pb2 import StudyApproval
    from askance_simulation.plots import Picture

Adding = Callable[[str, str, Callable[[argparse.Namespace], int]], argparse.ArgumentParser]


def add_templates(add: Adding) -> None:
    """Add both commands."""
    add("templates", "list the studies that new writes", _templates)
    new = add("new", "print a study's definition, to change and submit", _new)
    new.add_argument("template", metavar="TEMPLATE", help="a name that templates lists")
    new.add_argument(
        "--set",
        action="append",
        default=[],
        type=setting,
        metavar="NAME=VALUE",
        help="a value by its key in the file, schema=FILE.toml, or tags=TAG,TAG; may be repeated",
    )


def _templates(arguments: argparse.Namespace) -> int:
    from askance_aggregator.analyst.templates import list_templates

    found = list_templates()
    rows = [
        {"template": one.name, "summary": one.summary, "settings": list(one.settings)}
        for one in found
    ]
    lines = (f"{one.name:<17} {one.summary}" for one in found)
    return output.print_answer(arguments, {"templates": rows}, *lines)


def _new(arguments: argparse.Namespace) -> int:
    from askance_aggregator.analyst.templates import find_template

    text = find_template(arguments.template).filled(dict(arguments.set))
    if arguments.json:
        output.print_json({"template": arguments.template, "definition": text})
    else:
        sys.stdout.write(text)
    return 0


NAME = "study"
SUMMARY = "submit studies to an aggregator, get their results, verify them"
DESCRIPTION = "The commands of an analyst. An ID is a study's digest, or 8 or more digits of it."

_BAD_INPUT = ("malformed", "unknown-learner", "unknown-study", "unknown-epoch", "missing-fields")
_KEY_BYTES = 32
_AWAITING = "awaiting-approval"
_HELD = ("paused", _AWAITING)  # reasons of open studies that stand in place of the state
# By which studies are listed.
STATES = ("open", *_HELD, "done", "failed", "cancelled")
ORDERS = ("submitted", "ended", "users", "title")
_ID_DIGITS = 12  # of a list: enough to name a study by
_DAY_S = 86_400


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the analyst's commands."""
    commands = parser.add_subparsers(dest="study_command", metavar="COMMAND", required=True)

    def add(name: str, summary: str, run_command: Callable[..., int]) -> argparse.ArgumentParser:
        description = f"{summary[0].upper()}{summary[1:]}."
        return add_command(commands, name, run_command, summary, description)

    submit = add("submit", "sign a study and submit it", _submit)
    submission.add_study(submit)
    _add_wait(submit)
    listed = add("list", "list your studies with their titles and states", _list)
    _add_filters(listed)
    schemas = add("schemas", "print schemas that devices have, for a study's definition", _schemas)
    show = add("show", "print a study's state", _show)
    watch = add("watch", "follow a study to its end, and print its result", _watch)
    result = add("result", "print a study's result and its cost", _result)
    _add_wait(result)
    _add_aggregator_key(result)
    add_out(
        result,
        "FILE",
        "write a table of the result, as .csv or .parquet; as any other name the study's export,"
        " for study verify; and print no text",
    )
    result.add_argument(
        "--plot", type=Path, metavar="FILE", help="a picture of the result: .png or .svg"
    )
    _add_epochs(result)
    cancel = add("cancel", "end a study; its answers stay charged", _cancel)
    delete = add("delete", "delete the reports of a study that has ended", _delete)
    delete.add_argument(
        "--results", action="store_true", help="delete its results and transcripts as well"
    )
    pause = add("pause", "ask nothing new until it is resumed; deadlines stand still", _pause)
    resume = add("resume", "let a paused study go on", _resume)
    approve = add("approve", "sign a study as its approver, and let it begin", _approve)
    refuse = add("refuse", "end a study as its approver, approved or not", _refuse)
    refuse.add_argument(
        "--reason", required=True, metavar="TEXT", help="for its analyst, up to 200 characters"
    )
    named = (show, watch, result, cancel, pause, resume, delete, approve, refuse)
    for sub in named:
        sub.add_argument(
            "id", metavar="ID", help="the study's identifier, as submit and list print it"
        )
    for sub in (submit, listed, schemas, *named):
        add_aggregator(sub)
    for sub in (submit, watch, result):
        add_text(sub)
    _add_verify(add)
    add_templates(add)
    key = add("key", "make an analyst's key; never overwrites a file", _key)
    key.add_argument("file", type=Path, metavar="FILE.pem", help="the file to write")


def add_parameters(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Add the parameters of the learner that `submit` names."""
    if first_positional(parser, words) == "submit":
        (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
        submission.add_study_parameters(
            commands.choices["submit"], words[words.index("submit") + 1 :]
        )


def run(arguments: argparse.Namespace) -> int:
    """Run one of them."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what fails comes back with the call, once
    from askance_aggregator.analyst import CallRefused, VerificationFailed

    try:
        code: int = arguments.run_command(arguments)
    except CallRefused as error:
        bad = error.reason in _BAD_INPUT
        raise output.Failure(2 if bad else 1, error.reason, " ".join(str(error).split())) from error
    except VerificationFailed as error:
        raise output.Failure(1, "not-verified", " ".join(str(error).split())) from error
    return code


def _add_filters(listed: argparse.ArgumentParser) -> None:
    """Add the options that choose and sort studies."""
    listed.add_argument(
        "--state", choices=STATES, help="those of a state; a scheduled study is open (default: all)"
    )
    listed.add_argument(
        "--search",
        default="",
        metavar="WORDS",
        help="those of which each word begins a word of the purpose, the learner or a column",
    )
    listed.add_argument(
        "--since", type=day, default=0, metavar="DAY", help="those that had not ended before a day"
    )
    listed.add_argument(
        "--until", type=day, default=None, metavar="DAY", help="those submitted on a day or before"
    )
    listed.add_argument(
        "--sort",
        choices=ORDERS,
        default="submitted",
        help="rising; by ended, those that have ended alone (default: submitted)",
    )
    listed.add_argument(
        "--limit", type=count, metavar="N", help="the last N of the list (default: all)"
    )


def _add_verify(add: Adding) -> None:
    verify = add("verify", "replay an export offline, and compare its result", _verify)
    verify.add_argument(
        "file", type=Path, metavar="FILE", help="the export: study result --out FILE writes it"
    )
    verify.add_argument(
        "--analyst",
        action="append",
        type=_public_key,
        metavar="HEX",
        help="the public key that must have signed it; may be repeated (default: any)",
    )
    _add_aggregator_key(verify)
    add_text(verify, rows=False)


def _add_aggregator_key(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--aggregator-key",
        action="append",
        type=_public_key,
        metavar="HEX",
        help="the public key that must have signed the counts of an export: counts.pub of the"
        " aggregator's folder, as aggregator status prints it; may be repeated (default: any, or"
        " none)",
    )


def _add_epochs(parser: argparse.ArgumentParser) -> None:
    """Add the options of the results of a repeated study."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--epoch",
        type=count,
        metavar="N",
        help="of a repeated study: epoch N, from 1 (default: the latest with a result)",
    )
    which.add_argument(
        "--epochs", action="store_true", help="of a repeated study: all epochs that have ended"
    )
    add_csv(parser)


def _add_wait(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--wait", action="store_true", help="wait until the study has ended")


def _submit(arguments: argparse.Namespace) -> int:
    definition = submission.definition_of(arguments)
    study = definition.study
    if arguments.plan_only and arguments.key is None and arguments.bearer_token_file is None:
        plan = study.plan().to_json()
        return submission.print_plan(
            study, {**plan, "notes": [*plan["notes"], submission.PLANNED_ALONE]}, arguments
        )
    with connected(arguments) as aggregator:
        if arguments.plan_only:
            plan = names_of(study.schema).in_json(aggregator.plan(definition))
            return submission.print_plan(study, plan, arguments)
        handle = aggregator.submit_definition(definition)
        waits = handle.status().reason == _AWAITING
        opened = _opened(handle, definition, waits=waits)
        if arguments.wait:
            # At once: a caller who stops waiting needs the study's name to ask for it later.
            print(opened, file=sys.stderr, flush=True)
            return _ended(_followed(handle), arguments)
    submitted = {
        "study": handle.id,
        "state": "open",
        "learner": study.learner.name,
        "epsilon": study.epsilon,
        "fields": [names_of(study.schema).in_text(name) for name in study.fields],
        **({"tags": sorted(definition.tags)} if definition.tags else {}),
        **({"reason": _AWAITING} if waits else {}),
    }
    return output.print_answer(arguments, submitted, opened)


def _opened(handle: StudyHandle, definition: StudyDefinition, *, waits: bool) -> str:
    """Return the study's name, what it may ask and what its budget means for a user."""
    epsilon = definition.study.epsilon
    opened = f"study {handle.id} is open, {submission.may_ask(definition)}."
    if waits:
        opened += (
            f" It asks no device before an approver has signed it (study approve {handle.id[:12]})."
        )
    return " ".join(
        [opened, risk_line(epsilon), *(f"Note: {note}." for note in risk_notes(epsilon))]
    )


def _list(arguments: argparse.Namespace) -> int:
    from askance_aggregator.analyst import state_of
    from askance_aggregator.store import ListedState, ListOrder

    state = None if arguments.state is None else ListedState(arguments.state)
    with connected(arguments) as aggregator:
        found = [
            {
                "study": one.study_digest.hex(),
                "title": one.facts.title,
                "learner": one.learner,
                "state": state_of(one).name.lower(),
                "submitted": _time(one.facts.submitted_unix_s),
                "ended": _time(one.facts.ended_unix_s),
                "users": one.facts.users or None,
                "rounds_closed": one.rounds_closed,
                "reason": one.reason,
                **epochs_json(one),
            }
            for one in aggregator.studies(
                state,
                arguments.limit,
                words=arguments.search,
                order=ListOrder(arguments.sort),
                since_unix_s=arguments.since,
                until_unix_s=0 if arguments.until is None else arguments.until + _DAY_S,
            )
        ]
    if arguments.json:
        output.print_json({"studies": found})
    elif found:
        output.print_report(_listed(found), verbose=False)
    elif arguments.search or arguments.since or arguments.until is not None:
        print("no study fits")
    else:
        print("no studies yet" if state is None else f"no study is {state}")
    return 0


def _listed(found: Sequence[Mapping[str, Any]]) -> CommandReport:
    """Return a list of studies as a table."""
    heads = ("study", "state", "submitted", "ended", "users", "rounds", "title")
    grid = Grid(heads, left=tuple({*heads} - {"users", "rounds"}), long=("title",))
    for row in found:
        closed = str(row["rounds_closed"])
        if "epochs" in row:
            closed = f"{row['epochs_ended']} of {counted(row['epochs'], 'epoch')} ended"
        grid.add_row(
            row["study"][:_ID_DIGITS],
            row["reason"] if row["reason"] in _HELD else row["state"],
            *((row[key] or "-")[: len("2026-11-20")] for key in ("submitted", "ended")),
            f"{row['users']:,}" if row["users"] else "-",
            closed,
            row["title"] or row["learner"],
        )
    return CommandReport(counted(len(found), "study"), [grid])


def _schemas(arguments: argparse.Namespace) -> int:
    with connected(arguments) as aggregator:
        found = aggregator.schemas()
    names = ("name", "version", "registered", "toml")
    content = {"schemas": [{name: getattr(one, name) for name in names} for one in found]}
    lines = []
    for one in found:
        of = "registered by the operator" if one.registered else "of an earlier study"
        lines.append(f"# {of}\n{one.toml}")
    none = "no schema: the operator has registered none, and there is no study"
    return output.print_answer(arguments, content, *(lines or [none]))


def _time(unix_s: int) -> str | None:
    """Return a time in UTC as JSON has it; None: it is not known."""
    from askance_aggregator.studies.schedule import time_text

    return time_text(unix_s) if unix_s else None


def _show(arguments: argparse.Namespace) -> int:
    from askance_aggregator.analyst import epochs_of, state_of

    with connected(arguments) as aggregator:
        handle = aggregator.study(arguments.id)
        event = handle.status()
    if arguments.json:
        output.print_json({"study": handle.id, **_plain(event), **epochs_json(event)})
        return 0
    if event.facts.title:
        print(printable(event.facts.title))
    state, epochs = state_of(event).name, epochs_of(event)
    if state == "OPEN":
        stands = f"round {event.round + 1}, {event.answered:,} of {event.asked:,} have answered"
    else:
        stands = f"after {counted(event.round, 'round')}"
    if epochs is not None:
        stands = _epoch_stands(state, epochs, stands)
    is_held = state == "OPEN" and event.reason in _HELD
    print(f"study {handle.id} is {event.reason if is_held else state.lower()}: {stands}")
    for line in approval_lines(event):
        print(line)
    if event.HasField("population"):
        print(f"population: {population_text(_population(event))}")
    times = (
        (word, _time(getattr(event.facts, f"{word}_unix_s"))) for word in ("submitted", "ended")
    )
    if known := ", ".join(f"{word} {time}" for word, time in times if time):
        print(known + (f", {counted(event.facts.users, 'user')}" if event.facts.users else ""))
    if event.message:
        print(printable(f"{event.reason}: {event.message}"))
    return 0


def _epoch_stands(state: str, epochs: EpochStatus, stands: str) -> str:
    """Say how far a repeated study has come."""
    if state != "OPEN":
        return f"after {counted(epochs.ended, 'epoch')}"
    if not epochs.open:
        return f"{epoch_text(epochs)} begins on {epochs.first_day}"
    return f"{epoch_text(epochs)}, {stands}"


def _watch(arguments: argparse.Namespace) -> int:
    with connected(arguments) as aggregator:
        return _ended(_followed(aggregator.study(arguments.id)), arguments)


def _result(arguments: argparse.Namespace) -> int:
    from askance.operations import check_output

    check_new(arguments)
    check_output(arguments.plot, (".png", ".svg"))
    as_table = arguments.out is not None and arguments.out.suffix in _TABLES
    if as_table:
        check_output(arguments.out, _TABLES)
    check_series_options(arguments)
    with connected(arguments) as aggregator:
        handle = aggregator.study(arguments.id)
        _check_epoch(handle, arguments.epoch)
        epoch = arguments.epoch if arguments.wait else _ended_epoch(handle, arguments)
        if arguments.epochs:
            if arguments.wait:
                _followed(handle)
            series = handle.series()
        else:
            result = _followed(handle, epoch)
        if as_table:
            unwritten = _table_written(series if arguments.epochs else result, arguments.out)
        else:
            unwritten = output.written(arguments.out, lambda path: handle.export(path, epoch=epoch))
        # The file has the result: it is printed only where it was not written, or a program reads
        # it. The text of a poor result asks the aggregator for the terms.
        quiet = arguments.out is not None and unwritten is None
        if arguments.epochs:
            code = print_series(series, arguments, quiet=quiet)
        else:
            code = _ended(result, arguments, arguments.plot, quiet=quiet)
    return code if unwritten is None else output.fail(unwritten, as_json=False)


def _table_written(of: StudyResult | StudySeries, path: Path) -> output.Failure | None:
    """Write a result or a series as a table; return why the file cannot be written."""
    # A study that has failed has no file: its end is printed.
    from askance_aggregator.analyst import StudyResult
    from askance_simulation.frames import write_table

    if isinstance(of, StudyResult) and of.state.name != "DONE":
        return None
    rows = of.to_rows()
    return output.written(path, lambda to: write_table(rows, to))


def _check_epoch(handle: StudyHandle, number: int | None) -> None:
    """Refuse the number of an epoch that the study does not have."""
    if number is None:
        return
    event = handle.status()
    if not event.HasField("epochs"):
        raise output.Failure(
            2, "usage", f"--epoch: expected none, because the study does not repeat, got {number}"
        )
    most = event.epochs.repeat.epochs
    if number > most:
        raise output.Failure(
            2, "usage", f"--epoch: expected an epoch from 1 to {most}, got {number}"
        )


def _ended_epoch(handle: StudyHandle, arguments: argparse.Namespace) -> int | None:
    """Return the number of the epoch whose result is asked for; None: the study's, or all."""
    from askance_aggregator.analyst import state_of

    event = handle.status()
    number: int | None = arguments.epoch
    if state_of(event).name != "OPEN":
        return number
    if arguments.epochs:
        if arguments.out is not None and event.HasField("epochs") and not event.epochs.ended:
            raise output.Failure(1, "open", "no epoch has ended yet, so --out has nothing to write")
        return number
    if not event.HasField("epochs"):
        raise output.Failure(1, "open", "the study has not ended yet; --wait waits until it has")
    if number is None:
        latest = handle.series().latest
        number = None if latest is None else latest.number
    if number is None or number > event.epochs.ended:
        which = "no epoch has ended" if number is None else f"epoch {number} has not ended"
        raise output.Failure(1, "open", f"{which} yet; --wait waits until it has")
    return number


def _cancel(arguments: argparse.Namespace) -> int:
    with connected(arguments) as aggregator:
        handle = aggregator.study(arguments.id)
        return _print_state(handle, handle.cancel().name.lower(), arguments)


def _pause(arguments: argparse.Namespace) -> int:
    with connected(arguments) as aggregator:
        handle = aggregator.study(arguments.id)
        return _print_state(handle, _still_open(handle.pause(), "paused"), arguments)


def _resume(arguments: argparse.Namespace) -> int:
    with connected(arguments) as aggregator:
        handle = aggregator.study(arguments.id)
        return _print_state(handle, _still_open(handle.resume(), "open"), arguments)


def approval_lines(event: StudyEvent) -> list[str]:
    """Return lines of who has approved and refused a study, and when."""
    from askance_aggregator.studies.schedule import time_text

    if not event.HasField("approval"):
        return []
    found, lines = event.approval, []
    if found.approver:
        at = time_text(found.approved_unix_s)
        key = found.public_key.hex()[:16]
        lines.append(printable(f"approved by {found.approver} (key {key}) at {at}"))
    if found.refused_by:
        word = "approval withdrawn" if found.approver else "refused"
        at = time_text(found.refused_unix_s)
        lines.append(printable(f"{word} by {found.refused_by} at {at}: {found.reason}"))
    return lines


def _approve(arguments: argparse.Namespace) -> int:
    from askance_aggregator.encoding import read_terms

    with connected(arguments) as aggregator:
        handle = aggregator.study(arguments.id)
        signed = handle.approve()
    terms = read_terms(signed.study)
    facts = {"learner": terms.learner, "analyst": signed.public_key.hex()}
    nats = terms.budget_nano_nats / NANO_NATS_PER_NAT
    return output.print_answer(
        arguments,
        {"study": handle.id, "state": "open", "approved": True, **facts},
        f"study {handle.id} is approved, and begins: {printable(terms.learner)}, {nats:.9g} nats",
        f"purpose: {printable(terms.purpose) or 'none is stated'}",
    )


def _refuse(arguments: argparse.Namespace) -> int:
    with connected(arguments) as aggregator:
        handle = aggregator.study(arguments.id)
        state = handle.refuse(arguments.reason)
        if state.name in ("DONE", "FAILED"):  # before it could be refused
            _still_open(state, "refused")
        return _print_state(handle, state.name.lower(), arguments)


def _still_open(state: StudyState, word: str) -> str:
    """Return the word for a study that was open, else raise Failure."""
    if state.name != "OPEN":
        ended = state.name.lower()
        raise output.Failure(
            1, "ended", f"study: expected one that is open, got one that is {ended}"
        )
    return word


def _print_state(handle: StudyHandle, state: str, arguments: argparse.Namespace) -> int:
    """Print a study's state after it was changed."""
    content = {"study": handle.id, "state": state}
    return output.print_answer(arguments, content, f"study {handle.id} is {state}")


def _delete(arguments: argparse.Namespace) -> int:
    with connected(arguments) as aggregator:
        handle = aggregator.study(arguments.id)
        if arguments.results:
            handle.delete_results()
        else:
            handle.delete_reports()
    deleted = ["reports", "results", "transcripts"] if arguments.results else ["reports"]
    content = {"study": handle.id, "deleted": deleted}
    text = f"study {handle.id}: {', '.join(deleted)} deleted"
    return output.print_answer(arguments, content, text)


def _verify(arguments: argparse.Namespace) -> int:
    import askance as ask

    found = ask.verify_export(arguments.file, arguments.analyst, arguments.aggregator_key).to_json()
    return output.print_result(arguments, found, lambda: verification_report(found))


def _key(arguments: argparse.Namespace) -> int:
    import askance as ask

    public = ask.new_analyst_key(arguments.file)
    return output.print_answer(
        arguments,
        {"file": str(arguments.file), "public_key": public},
        f"{arguments.file}: the private key; keep it to yourself",
        f"public key {public}",
    )


def _followed(handle: StudyHandle, epoch: int | None = None) -> StudyResult:
    """Return the result of a study or of an epoch once it has ended; show its progress."""
    with progress() as bar:
        for event in handle.watch():
            if event.asked:  # no user is asked between rounds and after the last one
                bar.round_stands(event.round, event.asked, event.answered)
            if epoch is not None and event.HasField("epochs") and event.epochs.ended >= epoch:
                break
        return handle.result(epoch=epoch)


def _ended(
    result: StudyResult,
    arguments: argparse.Namespace,
    plot: Path | None = None,
    *,
    quiet: bool = False,
) -> int:
    """Print a result; a failure is also reported on stderr and by the exit code."""
    # result: of a study that has ended, or of an epoch.
    # arguments: the options of the text and of JSON.
    # plot: the file of a picture; None: no picture is drawn.
    # quiet: whether the text is left out.
    content, failure = result.to_json(), None
    if "epochs_signed" in content:  # a repeated study that ended before its first epoch did
        message = f"the study {_ENDED[result.state.name]}: {result.message or result.reason}"
        raise output.Failure(1, result.reason, message)
    if result.state.name != "DONE":
        code = 3 if result.reason == "plan-refused" else 1
        message = f"the study {_ENDED[result.state.name]}: {result.message or result.reason}"
        failure = output.Failure(code, result.reason, message)
        content["failure"] = {"reason": failure.reason, "message": failure.message}
    elif plot is not None:
        failure = output.plotted(plot, lambda: _picture(result.content))
    if arguments.json:
        output.print_json(content)
    elif not quiet:
        report = _report(result, every=arguments.all, verbose=arguments.verbose)
        output.print_report(report, verbose=arguments.verbose)
    return 0 if failure is None else output.fail(failure, as_json=False)


def _report(result: StudyResult, *, every: bool, verbose: bool) -> CommandReport:
    """Make the report of a result."""
    with _of_another_program():
        return result.report(every=every, verbose=verbose)


def _picture(content: Mapping[str, Any]) -> Picture:
    """Draw a result."""
    from askance_simulation.plots import result_picture

    with _of_another_program():
        return result_picture(content)


@contextmanager
def _of_another_program() -> Iterator[None]:
    """Report parts of a result that are absent, or of another form, as the aggregator's error."""
    from askance_client.errors import AskanceError, RemoteProtocolError

    try:
        yield
    except AskanceError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise RemoteProtocolError(
            "aggregator: expected the parts of a result that this version prints, got another"
            " form (--json prints it as it came)"
        ) from error


_TABLES = (".csv", ".parquet")
_ENDED = {"FAILED": "has failed", "CANCELLED": "was cancelled", "OPEN": "is open"}


def _plain(event: StudyEvent) -> dict[str, Any]:
    from askance_aggregator.analyst import state_of

    return {
        "title": event.facts.title,
        "state": state_of(event).name.lower(),
        "submitted": _time(event.facts.submitted_unix_s),
        "ended": _time(event.facts.ended_unix_s),
        "users": event.facts.users or None,
        "round": event.round,
        "asked": event.asked,
        "answered": event.answered,
        "reason": event.reason,
        "message": event.message,
        **({"population": _population(event)} if event.HasField("population") else {}),
        **({"approval": _approval(event.approval)} if event.HasField("approval") else {}),
    }


def _approval(found: StudyApproval) -> dict[str, Any]:
    """Return the decisions of approvers for programs."""
    approved = {
        "approver": found.approver,
        "public_key": found.public_key.hex(),
        "signature": found.signature.hex(),
        "approved_unix_s": found.approved_unix_s,
    }
    refused = {
        "refused_by": found.refused_by,
        "reason": found.reason,
        "refused_unix_s": found.refused_unix_s,
    }
    return {**(approved if found.approver else {}), **(refused if found.refused_by else {})}


def _population(event: StudyEvent) -> dict[str, Any]:
    return {"tags": list(event.population.tags), "devices": event.population.devices}


def _public_key(text: str) -> bytes:
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != _KEY_BYTES:
        raise argparse.ArgumentTypeError(
            f"expected a public key of {2 * _KEY_BYTES} hexadecimal digits, got {value_text(text)}"
        )
    return found
