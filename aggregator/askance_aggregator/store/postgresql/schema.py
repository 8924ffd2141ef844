"""The PostgreSQL store's schema, as numbered steps that are only ever appended to."""

from __future__ import annotations

import psycopg
from psycopg import sql

from askance_aggregator.store import schema_steps as steps
from askance_aggregator.store.schema_steps import SchemaWords
from askance_client.errors import StoreError, UnsupportedStore

SCHEMA = "askance"
_MIGRATING = 0x61736B61  # "aska": the advisory lock of a migration; one runs at a time
_HELP = "run: askance aggregator migrate"

# A study's reports are a partition: to delete them is to drop a table. Part 0 holds the reports to
# requests that no study asked. `reports` has no foreign key to `requests`: it would be looked up
# for each report. Devices leave room in their pages: a raised sequence number then moves no index.
# A repeated study has a transcript, rounds and a conclusion per epoch; epoch 0 is the study's own.
_FIRST = """
CREATE TABLE holder (
  single boolean PRIMARY KEY DEFAULT true CHECK (single),
  token bigint NOT NULL
);
INSERT INTO holder (token) VALUES (0);
CREATE TABLE population (
  single boolean PRIMARY KEY DEFAULT true CHECK (single),
  devices bigint NOT NULL
);
INSERT INTO population (devices) VALUES (0);
CREATE TABLE gateways (
  number bigint PRIMARY KEY CHECK (number >= 1),
  gateway_id bytea NOT NULL UNIQUE CHECK (octet_length(gateway_id) BETWEEN 1 AND 64),
  token_digest bytea NOT NULL CHECK (octet_length(token_digest) = 32)
);
CREATE TABLE devices (
  ordinal bigint PRIMARY KEY CHECK (ordinal >= 0),
  device_id bytea NOT NULL UNIQUE CHECK (octet_length(device_id) BETWEEN 1 AND 64),
  token_digest bytea NOT NULL CHECK (octet_length(token_digest) = 32),
  acknowledged_sequence bigint NOT NULL DEFAULT 0 CHECK (acknowledged_sequence >= 0),
  gateway bigint REFERENCES gateways (number)
) WITH (fillfactor = 80);
CREATE TABLE enrolment_tokens (
  token_id bytea PRIMARY KEY CHECK (octet_length(token_id) = 16),
  devices bigint NOT NULL CHECK (devices >= 0)
);
CREATE TABLE studies (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  digest bytea NOT NULL UNIQUE CHECK (octet_length(digest) = 32),
  study bytea NOT NULL,
  public_key bytea NOT NULL,
  signature bytea NOT NULL
);
CREATE INDEX studies_by_key ON studies (public_key);
CREATE TABLE transcript_lines (
  study bigint NOT NULL REFERENCES studies (number),
  epoch bigint NOT NULL CHECK (epoch >= 0),
  number bigint NOT NULL CHECK (number >= 0),
  line text NOT NULL,
  PRIMARY KEY (study, epoch, number)
);
CREATE TABLE rounds (
  study bigint NOT NULL REFERENCES studies (number),
  epoch bigint NOT NULL CHECK (epoch >= 0),
  number bigint NOT NULL CHECK (number >= 0),
  boot text,
  at_ms bigint,
  left_ms bigint,
  closed boolean NOT NULL DEFAULT false,
  PRIMARY KEY (study, epoch, number)
);
CREATE TABLE requests (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  digest bytea NOT NULL UNIQUE CHECK (octet_length(digest) = 32),
  study bigint REFERENCES studies (number),
  epoch bigint NOT NULL DEFAULT 0,
  round bigint,
  part bigint NOT NULL
);
CREATE TABLE reports (
  part bigint NOT NULL,
  request bigint NOT NULL,
  ordinal bigint NOT NULL CHECK (ordinal >= 0),
  data bytea NOT NULL,
  PRIMARY KEY (part, request, ordinal)
) PARTITION BY LIST (part);
CREATE TABLE reports_0 PARTITION OF reports FOR VALUES IN (0);
CREATE TABLE evidence (
  request bigint NOT NULL REFERENCES requests (number),
  ordinal bigint NOT NULL,
  place integer NOT NULL CHECK (place BETWEEN 0 AND 3),
  data bytea NOT NULL,
  PRIMARY KEY (request, ordinal, place)
);
CREATE TABLE conclusions (
  study bigint NOT NULL REFERENCES studies (number),
  epoch bigint NOT NULL CHECK (epoch >= 0),
  state integer NOT NULL CHECK (state BETWEEN 2 AND 4),
  reason text NOT NULL,
  message text NOT NULL,
  result_json text NOT NULL,
  max_asked bigint NOT NULL,
  PRIMARY KEY (study, epoch)
);
CREATE TABLE probe (filler bytea NOT NULL);
ALTER TABLE probe ALTER COLUMN filler SET STORAGE EXTERNAL;
"""

# A study's lease is never deleted: its token only rises. A round that is closed or ended takes no
# reports. `arrived` is the transaction that stored a report: what a snapshot does not see has a
# transaction of its oldest one at least. Reports of before have none: they are read whole.
_REPLICAS = """
CREATE TABLE replicas (
  name text PRIMARY KEY,
  address text NOT NULL,
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  seen_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE leases (
  study bigint PRIMARY KEY REFERENCES studies (number),
  replica text NOT NULL,
  token bigint NOT NULL CHECK (token >= 1),
  expires_at timestamptz NOT NULL
);
ALTER TABLE studies ADD COLUMN cancelling boolean NOT NULL DEFAULT false;
ALTER TABLE rounds ADD COLUMN ended boolean NOT NULL DEFAULT false;
UPDATE rounds SET ended = true FROM conclusions
  WHERE conclusions.study = rounds.study AND conclusions.epoch IN (0, rounds.epoch);
ALTER TABLE reports ADD COLUMN arrived xid8;
ALTER TABLE reports ALTER COLUMN arrived SET DEFAULT pg_current_xact_id();
CREATE INDEX reports_by_arrival ON reports (request, arrived);
"""

_WORDS = SchemaWords(
    integer="bigint",
    small="integer",
    blob="bytea",
    text="text",
    ordered='text COLLATE "C"',
    bytes_of="octet_length",
    flag="boolean NOT NULL DEFAULT false",
    end="",
    keyed="",
)

_AUDIT = """
CREATE FUNCTION audit_refuses() RETURNS trigger LANGUAGE plpgsql AS $refuses$
BEGIN
  RAISE EXCEPTION 'the audit log is only appended to';
END
$refuses$;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
  FOR EACH STATEMENT EXECUTE FUNCTION audit_refuses();
"""

_REGISTER = """
CREATE TABLE register (
  single boolean PRIMARY KEY DEFAULT true CHECK (single),
  standing bigint NOT NULL
);
INSERT INTO register (standing) VALUES (0);
"""

# Lists of an analyst's studies, newest first.
_LISTS = """
DROP INDEX studies_by_key;
CREATE INDEX studies_by_key ON studies (public_key, number);
"""

# A replica's counts of its own (see `ReplicaCounts`), as a JSON object; written with its leases.
_COUNTS = """
ALTER TABLE replicas ADD COLUMN counts text;
"""

# Results for tools that read SQL (docs/operating.md). A role that may read the view and nothing
# else sees no report and no device: a view reads with its owner's rights. A label may have U+0000,
# which no text of PostgreSQL has: U+FFFD stands for it, or one result would hide all others.
_RESULTS = r"""
CREATE VIEW results AS
SELECT encode(digest, 'hex') AS study, nullif(conclusions.epoch, 0) AS epoch,
  title,
  CASE conclusions.state WHEN 2 THEN 'done' WHEN 3 THEN 'failed' ELSE 'cancelled' END AS state,
  reason, message, encode(public_key, 'hex') AS analyst,
  to_timestamp(submissions.at_unix_s) AS submitted_at,
  CASE conclusions.epoch WHEN 0 THEN to_timestamp(ended_unix_s) END AS ended_at,
  result ->> 'learner' AS learner, (result ->> 'users')::bigint AS users,
  (result ->> 'answers')::bigint AS answers, (result ->> 'rounds')::bigint AS rounds,
  conclusions.max_asked / 1e9 AS nats_asked, result -> 'hypothesis' AS hypothesis, result
FROM conclusions JOIN studies ON studies.number = conclusions.study
LEFT JOIN study_titles ON study_titles.study = conclusions.study
LEFT JOIN submissions ON submissions.study = conclusions.study
LEFT JOIN retention ON retention.study = conclusions.study
CROSS JOIN LATERAL (SELECT nullif(CASE strpos(result_json, '\u0000') WHEN 0 THEN result_json
  ELSE regexp_replace(result_json, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')
  END, '')::jsonb AS result) AS parsed;
"""

# Devices of open rounds by tag, as a replica sees them (see `RoundAnswers`), as a JSON list.
_ANSWERS = """
ALTER TABLE replicas ADD COLUMN answers text;
"""

# Rule of a replica's configuration: whether studies need an approver. Null: of a version before.
_RULES = """
ALTER TABLE replicas ADD COLUMN needs_approval boolean;
"""

STEPS = (
    _FIRST,
    _REPLICAS,
    _WORDS.step(steps.RETENTION),
    _WORDS.step(steps.AUDIT) + _AUDIT,
    _WORDS.step(steps.REGISTER) + _REGISTER,
    _WORDS.step(steps.MANAGEMENT),
    _WORDS.step(steps.RESTORES),
    _WORDS.step(steps.LOSSES),
    _WORDS.step(steps.CERTIFICATES),
    _WORDS.step(steps.TAGGED_POPULATIONS),
    _LISTS + _WORDS.step(steps.LISTS),
    _WORDS.step(steps.SOFTWARE),
    _WORDS.step(steps.TITLES),
    _COUNTS + _WORDS.step(steps.ROUND_AGES),
    _WORDS.step(steps.MOVES),
    _WORDS.step(steps.WEBHOOKS) + _RESULTS,
    _WORDS.step(steps.APPROVALS),
    _ANSWERS + _WORDS.step(steps.COMPLETION),
    _WORDS.step(steps.LEAF_KEYS),
    _WORDS.step(steps.TOKEN_TAGS),
    _WORDS.step(steps.OUTER),
    _WORDS.step(steps.CALLED_DAYS),
    _WORDS.step(steps.OUTER_STATE),
    _RULES,
)
VERSION = len(STEPS)


def migrate(connection: psycopg.Connection, name: str, to: int | None = None) -> int:
    """Bring a database to a version, one transaction per step, and return the version.

    The connection is of a role that may create a schema, and in autocommit mode. The version is not
    below the database's own; None: this one.

    Raises:
      UnsupportedStore: written by a newer version; nothing was changed.
    """
    wanted = VERSION if to is None else to
    connection.execute("SELECT set_config('statement_timeout', '0', false)")  # of large tables
    connection.execute("SELECT pg_advisory_lock(%s)", (_MIGRATING,))
    try:
        before = version(connection)
        if before is None:
            with connection.transaction():
                connection.execute(
                    sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(SCHEMA))
                )
                connection.execute(
                    "CREATE TABLE schema_steps (number integer PRIMARY KEY,"
                    " applied_at timestamptz NOT NULL DEFAULT now())"
                )
        start = before or 0
        if start > VERSION:
            raise newer(name, start)
        for number, step in enumerate(STEPS[start:wanted], start + 1):
            with connection.transaction():
                connection.execute(step)
                connection.execute("INSERT INTO schema_steps (number) VALUES (%s)", (number,))
        return wanted
    finally:
        connection.execute("SELECT pg_advisory_unlock(%s)", (_MIGRATING,))


def version(connection: psycopg.Connection) -> int | None:
    """Return the version of the schema; None if the database has none."""
    there = connection.execute("SELECT to_regclass(%s)", (f"{SCHEMA}.schema_steps",)).fetchone()
    if there is None or there[0] is None:
        return None
    row = connection.execute("SELECT coalesce(max(number), 0) FROM schema_steps").fetchone()
    return 0 if row is None else int(row[0])


def check(connection: psycopg.Connection, name: str) -> None:
    """Check that the database has this version; else raise StoreError or UnsupportedStore."""
    found = version(connection)
    if found is not None and found > VERSION:
        raise newer(name, found)
    if found != VERSION:
        raise StoreError(
            f"store {name}: expected a schema of version {VERSION},"
            f" found {'none' if found is None else found} ({_HELP})"
        )


def newer(name: str, found: int) -> UnsupportedStore:
    """The refusal of a schema that a newer version has written."""
    return UnsupportedStore(
        f"store {name}: expected a schema of version {VERSION} at most, found {found} (install an"
        " askance of the version that wrote it, or a newer one)"
    )
