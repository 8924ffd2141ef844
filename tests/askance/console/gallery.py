"""A store with a study of every kind that a page can show, and the pages to look at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from askance_aggregator.analyst.submission import Every, sign_submission
from askance_aggregator.learners import find
from askance_aggregator.learners.decision_tree import decision_tree
from askance_aggregator.learners.frequency import frequency
from askance_aggregator.learners.k_means import k_means
from askance_aggregator.learners.masked_parity import masked_parity
from askance_aggregator.server.callers import Role
from askance_aggregator.store import AuditEvent, SqliteStore, StudyState
from askance_aggregator.store.register import DeviceSelection
from askance_aggregator.studies import Transcript
from askance_aggregator.studies.results import End, unrun
from askance_aggregator.studies.study import Study
from askance_client.codec import decode_study, digest_of
from askance_client.queries import Category, Integer, Label, Schema
from askance_simulation.populations import Population, clusters
from askance_simulation.populations import masked_parity as parity_people
from askance_simulation.randomness import Seed
from tests.aggregator.server.callers.role_server import KEYS, NOW_S, served
from tests.askance.console.consoles import Visitor, console_of
from tests.askance.console.ended_studies import add_poor, add_run

LONG = (
    "Which language people speak at home, so that the next version of the keyboard has the layouts"
    " that they need; asked once, of every device that has the keyboard, and of no one else"
)
_ANALYST = KEYS[Role.ANALYST]
_LANGUAGES = (
    *("Albanian", "Bosnian / Croatian / Montenegrin / Serbian", "Czech", "Danish", "Dutch"),
    *("English", "French", "German", "Greek", "Hungarian", "Italian", "Polish", "Portuguese"),
    *("Romanian", "Spanish", "another"),
)


@dataclass(frozen=True, slots=True)
class Gallery:
    """An administrator's console, and an analyst's and an operator's of one aggregator.

    Args:
      admin: who sees every page.
      operator: who sees no result.
      pages: paths by names, for the administrator.
    """

    admin: Visitor
    operator: Visitor
    pages: dict[str, str]


@contextmanager
def gallery() -> Iterator[Gallery]:
    """Serve two consoles of an aggregator with everything that a page can show."""
    store = SqliteStore.in_memory()
    studies = _fill(store)
    with (
        served(store) as (address, waiting),
        console_of(Role.ADMIN, aggregator=address) as admin,
        console_of(Role.OPERATOR, aggregator=address) as operator,
    ):
        pages = {
            "overview": "/",
            "studies": "/studies",
            "studies of none": "/studies?state=failed&analyst=ffff",
            **{name: f"/studies/{digest.hex()}" for name, digest in studies.items()},
            "open": f"/studies/{digest_of(waiting.study).hex()}",
            "plan": f"/studies/{studies['parity'].hex()}/plan",
            "new study": "/studies/new",
            "new study of k-means": "/studies/new?learner=k-means",
            "devices": "/devices",
            "silence": "/silence",
            "device": f"/devices?id={b'device 7'.hex()}",
            "devices of none": "/devices?tags=site%3Dnowhere",
            "last devices": "/devices?start=1990",
            "audit": "/audit",
            "first entries": "/audit?to=9",
            "bad address": "/studies?state=nonsense",
            "no such study": f"/studies/{'ab' * 32}",
            "no such page": "/nothing",
        }
        yield Gallery(admin, operator, pages)


def _fill(store: SqliteStore) -> dict[str, bytes]:
    """Add devices, audit entries and studies; return the studies' digests by names."""
    store.enrol((b"device %d" % n, bytes([n % 256]) * 32) for n in range(2_000))
    for place, tag in enumerate(("site=berlin", "v2.14", "keyboard-of-the-north-building")):
        chosen = tuple(b"device %d" % n for n in range(place, 60, place + 2))
        store.register.tag(DeviceSelection(ids=chosen), [tag], [])
    for n in range(60):
        outcome = ("done", "refused: not-permitted", "begun")[n % 3]
        begun = AuditEvent(
            NOW_S - 977 * (60 - n),
            ("Ada Lovelace", "night-shift@ops.example.org")[n % 2],
            "operator",
            ("device revoke", "study cancel")[n % 4 // 2],
            ("devices with tag keyboard-of-the-north-building", f"study {n:064x}")[n % 4 // 2],
            f"2001:db8:85a3::8a2e:370:{7000 + n}",
            "begun",
        )
        began = store.audit.append(begun).number
        if outcome != "begun":
            changed = 1_200 + n if n % 4 < 2 and outcome == "done" else None
            end = replace(begun, outcome=outcome, changed=changed, began=began)
            store.audit.append(end)
    return {
        "shares": _shares(store),
        "parity": add_run(
            store,
            masked_parity((people := parity_people(2_000, Seed.of(5), 16)).schema),
            people,
            _ANALYST,
            purpose="Which mask the class has",
        ),
        "tree": _tree(store),
        "clusters": add_run(
            store,
            k_means((people := clusters(20_000, Seed.of(3))).schema),
            people,
            _ANALYST,
            purpose="Groups of households by their use",
        ),
        **add_poor(store),
        "repeated": _repeated(store),
        "failed": _ended_without_result(store, StudyState.FAILED),
        "cancelled": _ended_without_result(store, StudyState.CANCELLED),
    }


def _shares(store: SqliteStore) -> bytes:
    schema = Schema("keyboards", 1, language=Category(_LANGUAGES))
    people = Population.from_columns(schema, {"language": _by_zipf(4_000)})
    return add_run(store, frequency(schema.language), people, _ANALYST, purpose=LONG)


def _by_zipf(size: int, turn: int = 0) -> list[str]:
    rank = np.minimum(np.random.default_rng(1).zipf(1.6, size), len(_LANGUAGES)) - 1
    return [_LANGUAGES[(n + turn) % len(_LANGUAGES)] for n in rank]


def _tree(store: SqliteStore) -> bytes:
    rng = np.random.default_rng(4)
    age, town = rng.integers(17, 91, 20_000), rng.integers(0, 3, 20_000)
    buys = ((age > 40) & (town != 1)) | ((age <= 40) & (town == 1))
    schema = Schema(
        "shoppers",
        1,
        age=Integer(17, 90),
        town=Category(("village", "small town", "city")),
        buys=Label(("never", "weekly")),
    )
    columns = {
        "age": age.tolist(),
        "town": [("village", "small town", "city")[n] for n in town],
        "buys": [("never", "weekly")[int(n)] for n in buys],
    }
    people = Population.from_columns(schema, columns)
    return add_run(store, decision_tree(schema), people, _ANALYST, purpose="Who buys weekly")


def _repeated(store: SqliteStore) -> bytes:
    """Add a study of four epochs, of which two have ended."""
    schema = Schema("keyboards", 1, language=Category(_LANGUAGES))
    digest = b""
    for place in range(2):
        people = Population.from_columns(schema, {"language": _by_zipf(3_000, place)})
        digest = add_run(
            store,
            frequency(schema.language),
            people,
            _ANALYST,
            purpose="Languages by the week",
            every=Every(7, 4),
            place=place,
        )
    return digest


def _ended_without_result(store: SqliteStore, state: StudyState) -> bytes:
    schema = Schema("people", 1, habit=Category(("yes", "no")))
    study = Study(
        find("frequency").build(schema, {"column": "habit"}), schema, epsilon=1, purpose="Habits"
    )
    signed = sign_submission(
        study, _ANALYST, now_s=lambda: NOW_S, nonce=lambda size: bytes([state]) * size
    )
    digest = digest_of(signed.study)
    store.add_study(digest, signed)
    end = End(
        state,
        "plan-refused" if state is StudyState.FAILED else "cancelled",
        "plan: expected 2,204 users or more for tau = 0.02, got 2,000"
        if state is StudyState.FAILED
        else "study: cancelled by its analyst",
    )
    terms = decode_study(signed.study)
    store.conclude(digest, unrun(digest, terms, Transcript(store.log(digest)), end))
    return digest
