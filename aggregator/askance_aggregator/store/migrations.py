"""The SQLite store's schema, as numbered steps that are only ever appended to."""

from __future__ import annotations

from askance_aggregator.store import schema_steps as steps
from askance_aggregator.store.schema_steps import SchemaWords
from askance_client.sqlite_file import FileKind

_FIRST = """
CREATE TABLE devices (
  ordinal INTEGER PRIMARY KEY CHECK (ordinal >= 0),
  device_id BLOB NOT NULL UNIQUE CHECK (length(device_id) BETWEEN 1 AND 64),
  token_digest BLOB NOT NULL CHECK (length(token_digest) = 32)
) STRICT;
CREATE TABLE studies (
  number INTEGER PRIMARY KEY,
  digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
  study BLOB NOT NULL,
  public_key BLOB NOT NULL,
  signature BLOB NOT NULL
) STRICT;
CREATE TABLE transcript_lines (
  study INTEGER NOT NULL REFERENCES studies (number),
  number INTEGER NOT NULL CHECK (number >= 0),
  line TEXT NOT NULL,
  PRIMARY KEY (study, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE requests (
  number INTEGER PRIMARY KEY,
  digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32)
) STRICT;
CREATE TABLE reports (
  request INTEGER NOT NULL REFERENCES requests (number),
  ordinal INTEGER NOT NULL CHECK (ordinal >= 0),
  data BLOB NOT NULL,
  PRIMARY KEY (request, ordinal)
) STRICT, WITHOUT ROWID;
CREATE TABLE evidence (
  request INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  place INTEGER NOT NULL CHECK (place BETWEEN 0 AND 3),
  data BLOB NOT NULL,
  PRIMARY KEY (request, ordinal, place),
  FOREIGN KEY (request, ordinal) REFERENCES reports (request, ordinal)
) STRICT, WITHOUT ROWID;
"""

_LIFE_OF_STUDIES = """
CREATE TABLE enrolment_tokens (
  token_id BLOB PRIMARY KEY CHECK (length(token_id) = 16),
  devices INTEGER NOT NULL CHECK (devices >= 0)
) STRICT, WITHOUT ROWID;
CREATE TABLE rounds (
  study INTEGER NOT NULL REFERENCES studies (number),
  number INTEGER NOT NULL CHECK (number >= 0),
  closes_unix_s INTEGER,
  PRIMARY KEY (study, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE conclusions (
  study INTEGER PRIMARY KEY REFERENCES studies (number),
  state INTEGER NOT NULL CHECK (state BETWEEN 2 AND 4),
  reason TEXT NOT NULL,
  message TEXT NOT NULL,
  result_json TEXT NOT NULL
) STRICT;
"""

_ACKNOWLEDGED = """
ALTER TABLE devices ADD COLUMN acknowledged_sequence INTEGER NOT NULL DEFAULT 0
  CHECK (acknowledged_sequence >= 0);
"""

# A round's deadline is on a clock that is never set; `closes_unix_s` of the step before is not read
# any more. A request knows its round, so that a report of a round that is not over is not late.
_STEADY_ROUNDS = """
ALTER TABLE rounds ADD COLUMN boot TEXT;
ALTER TABLE rounds ADD COLUMN at_ms INTEGER;
ALTER TABLE rounds ADD COLUMN left_ms INTEGER;
ALTER TABLE rounds ADD COLUMN closed INTEGER NOT NULL DEFAULT 0 CHECK (closed IN (0, 1));
ALTER TABLE requests ADD COLUMN study INTEGER REFERENCES studies (number);
ALTER TABLE requests ADD COLUMN round INTEGER;
ALTER TABLE conclusions ADD COLUMN max_asked INTEGER NOT NULL DEFAULT 0;
UPDATE rounds SET closed = 1 WHERE EXISTS (
  SELECT 1 FROM transcript_lines AS line
  WHERE line.study = rounds.study AND CASE WHEN json_valid(line.line)
  THEN json_extract(line.line, '$.kind') = 'closed'
  AND json_extract(line.line, '$.round') = rounds.number ELSE 0 END);
UPDATE conclusions SET max_asked = coalesce(
  json_extract(result_json, '$.epsilon.max_asked_nano_nats'), 0) WHERE json_valid(result_json);
CREATE INDEX studies_by_key ON studies (public_key);
"""

# A repeated study has a transcript, rounds and a conclusion per epoch. What was stored before is of
# studies that collect once: epoch 0.
_EPOCHS = """
ALTER TABLE requests ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
ALTER TABLE transcript_lines RENAME TO old_lines;
ALTER TABLE rounds RENAME TO old_rounds;
ALTER TABLE conclusions RENAME TO old_conclusions;
CREATE TABLE transcript_lines (
  study INTEGER NOT NULL REFERENCES studies (number),
  epoch INTEGER NOT NULL CHECK (epoch >= 0),
  number INTEGER NOT NULL CHECK (number >= 0),
  line TEXT NOT NULL,
  PRIMARY KEY (study, epoch, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE rounds (
  study INTEGER NOT NULL REFERENCES studies (number),
  epoch INTEGER NOT NULL CHECK (epoch >= 0),
  number INTEGER NOT NULL CHECK (number >= 0),
  closes_unix_s INTEGER,
  boot TEXT,
  at_ms INTEGER,
  left_ms INTEGER,
  closed INTEGER NOT NULL DEFAULT 0 CHECK (closed IN (0, 1)),
  PRIMARY KEY (study, epoch, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE conclusions (
  study INTEGER NOT NULL REFERENCES studies (number),
  epoch INTEGER NOT NULL CHECK (epoch >= 0),
  state INTEGER NOT NULL CHECK (state BETWEEN 2 AND 4),
  reason TEXT NOT NULL,
  message TEXT NOT NULL,
  result_json TEXT NOT NULL,
  max_asked INTEGER NOT NULL,
  PRIMARY KEY (study, epoch)
) STRICT;
INSERT INTO transcript_lines SELECT study, 0, number, line FROM old_lines;
INSERT INTO rounds SELECT study, 0, number, closes_unix_s, boot, at_ms, left_ms, closed
  FROM old_rounds;
INSERT INTO conclusions SELECT study, 0, state, reason, message, result_json, max_asked
  FROM old_conclusions;
DROP TABLE old_lines;
DROP TABLE old_rounds;
DROP TABLE old_conclusions;
"""

_GATEWAYS = """
CREATE TABLE gateways (
  number INTEGER PRIMARY KEY CHECK (number >= 1),
  gateway_id BLOB NOT NULL UNIQUE CHECK (length(gateway_id) BETWEEN 1 AND 64),
  token_digest BLOB NOT NULL CHECK (length(token_digest) = 32)
) STRICT;
ALTER TABLE devices ADD COLUMN gateway INTEGER REFERENCES gateways (number);
"""

_WORDS = SchemaWords(
    integer="INTEGER",
    small="INTEGER",
    blob="BLOB",
    text="TEXT",
    ordered="TEXT",
    bytes_of="length",
    flag="INTEGER NOT NULL DEFAULT 0 CHECK (rows_left IN (0, 1))",
    end=" STRICT",
    keyed=" STRICT, WITHOUT ROWID",
)

_REGISTER = """
CREATE TABLE register (
  single INTEGER PRIMARY KEY CHECK (single = 1),
  standing INTEGER NOT NULL
) STRICT;
INSERT INTO register VALUES (1, 0);
"""

_AUDIT = """
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
  BEGIN SELECT RAISE(ABORT, 'the audit log is only appended to'); END;
CREATE TRIGGER audit_is_not_cut BEFORE DELETE ON audit
  BEGIN SELECT RAISE(ABORT, 'the audit log is only appended to'); END;
"""

KIND = FileKind(
    name="store",
    application=0x61736B73,  # "asks"
    steps=(
        _FIRST,
        _LIFE_OF_STUDIES,
        _ACKNOWLEDGED,
        _STEADY_ROUNDS,
        _EPOCHS,
        _GATEWAYS,
        _WORDS.step(steps.RETENTION),
        _WORDS.step(steps.AUDIT) + _AUDIT,
        _WORDS.step(steps.REGISTER) + _REGISTER,
        _WORDS.step(steps.MANAGEMENT),
        _WORDS.step(steps.RESTORES),
        _WORDS.step(steps.LOSSES),
        _WORDS.step(steps.CERTIFICATES),
        _WORDS.step(steps.TAGGED_POPULATIONS),
        _WORDS.step(steps.LISTS),
        _WORDS.step(steps.SOFTWARE),
        _WORDS.step(steps.TITLES),
        _WORDS.step(steps.ROUND_AGES),
        _WORDS.step(steps.MOVES),
        _WORDS.step(steps.WEBHOOKS),
        _WORDS.step(steps.APPROVALS),
        _WORDS.step(steps.COMPLETION),
        _WORDS.step(steps.LEAF_KEYS),
        _WORDS.step(steps.TOKEN_TAGS),
        _WORDS.step(steps.OUTER),
        _WORDS.step(steps.CALLED_DAYS),
        _WORDS.step(steps.OUTER_STATE),
    ),
    undone="nothing was stored",
    make="make one with `aggregator init`",
)
