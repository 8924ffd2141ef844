"""Steps of the schema that SQLite and PostgreSQL share, written once.

Each database has its own list of numbered steps (`migrations`, `postgresql.schema`), which is only
ever appended to; the text of a step that a release has applied is never changed. A step of both
databases stands here, with the names of types and the ends of tables left open.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class SchemaWords:
    """Words of a database in a shared step: names of types, and ends of tables.

    Args:
      integer: type of a number of 64 bits.
      small: type of a number of 32 bits.
      ordered: type of a text that is compared by its bytes.
      bytes_of: function that counts the bytes of a value.
      flag: type of a truth value that is false at first, for the column before it.
      keyed: end of a table whose rows stand in the order of its key.
    """

    integer: str
    small: str
    blob: str
    text: str
    ordered: str
    bytes_of: str
    flag: str
    end: str
    keyed: str

    def step(self, shared: str) -> str:
        """Return a shared step in the database's own SQL."""
        return shared.format_map(asdict(self))


# A change of a device's state has a number, `changed`: the standing that it led to. Processes that
# serve poll the standing. A forgotten device's row goes; its ordinal stays, as an empty place. Tags
# are compared by their bytes, whatever a database's collation.
REGISTER = """
ALTER TABLE devices ADD COLUMN state {small} NOT NULL DEFAULT 0 CHECK (state IN (0, 1));
ALTER TABLE devices ADD COLUMN changed {integer} NOT NULL DEFAULT 0;
ALTER TABLE devices ADD COLUMN enrolled_day {integer};
ALTER TABLE devices ADD COLUMN seen_day {integer};
CREATE INDEX devices_changed ON devices (changed) WHERE changed > 0;
CREATE INDEX devices_revoked ON devices (ordinal) WHERE state = 1;
ALTER TABLE gateways ADD COLUMN state {small} NOT NULL DEFAULT 0 CHECK (state IN (0, 1));
ALTER TABLE gateways ADD COLUMN changed {integer} NOT NULL DEFAULT 0;
ALTER TABLE enrolment_tokens ADD COLUMN most {integer};
ALTER TABLE enrolment_tokens ADD COLUMN ends_unix_s {integer};
ALTER TABLE enrolment_tokens ADD COLUMN revoked {small} NOT NULL DEFAULT 0;
CREATE INDEX devices_by_gateway ON devices (gateway) WHERE gateway IS NOT NULL;
CREATE TABLE empty_places (
  ordinal {integer} PRIMARY KEY CHECK (ordinal >= 0),
  changed {integer} NOT NULL
){end};
CREATE INDEX empty_places_changed ON empty_places (changed);
CREATE TABLE device_tags (
  tag {ordered} NOT NULL,
  ordinal {integer} NOT NULL REFERENCES devices (ordinal),
  PRIMARY KEY (tag, ordinal)
){keyed};
CREATE INDEX device_tags_by_ordinal ON device_tags (ordinal);
CREATE TABLE study_users (
  study {blob} NOT NULL,
  epoch {integer} NOT NULL CHECK (epoch >= 0),
  users {blob} NOT NULL,
  PRIMARY KEY (study, epoch)
){end};
"""

# A row per ended study: its end, and what of it was deleted.
RETENTION = """
CREATE TABLE retention (
  study {integer} PRIMARY KEY REFERENCES studies (number),
  ended_unix_s {integer} NOT NULL,
  reports_deleted_unix_s {integer},
  results_deleted_unix_s {integer},
  rows_left {flag}
){end};
CREATE INDEX requests_by_study ON requests (study);
"""

# Entries are only appended (see `audit`); a trigger of each database refuses what a tool might try.
AUDIT = """
CREATE TABLE audit (
  number {integer} PRIMARY KEY CHECK (number >= 1),
  line {text} NOT NULL,
  digest {blob} NOT NULL CHECK ({bytes_of}(digest) = 32),
  nonce {blob} UNIQUE CHECK ({bytes_of}(nonce) = 16)
){end};
"""

MANAGEMENT = """
CREATE TABLE paused_studies (study {integer} PRIMARY KEY REFERENCES studies (number)){end};
CREATE TABLE submissions (
  study {integer} PRIMARY KEY REFERENCES studies (number),
  at_unix_s {integer} NOT NULL
){end};
"""

# A row per restoration of a backup into this store.
RESTORES = """
CREATE TABLE restores (
  restored_unix_s {integer} NOT NULL,
  backup_unix_s {integer} NOT NULL
){end};
"""

# Of a study that was approved, refused, or both; an end of the other half is empty, or 0.
APPROVALS = """
CREATE TABLE approvals (
  study {integer} PRIMARY KEY REFERENCES studies (number),
  approver {text} NOT NULL,
  public_key {blob} NOT NULL,
  signature {blob} NOT NULL,
  approved_unix_s {integer} NOT NULL,
  refused_by {text} NOT NULL,
  reason {text} NOT NULL,
  refused_unix_s {integer} NOT NULL
){end};
"""

# The highest sequence number of each user in the backup that was restored last; absent: 0.
LOSSES = """
CREATE TABLE restored_sequences (
  ordinal {integer} PRIMARY KEY CHECK (ordinal >= 0),
  sequence {integer} NOT NULL CHECK (sequence > 0)
){end};
"""

# A certificate is a device's or a gateway's; both kinds are found by fingerprint, and by holder.
CERTIFICATES = """
CREATE TABLE certificates (
  fingerprint {blob} PRIMARY KEY CHECK ({bytes_of}(fingerprint) = 32),
  gateway {integer} NOT NULL,
  ordinal {integer} NOT NULL,
  ends_unix_s {integer} NOT NULL,
  CHECK ((gateway = 0) <> (ordinal = -1))
){keyed};
CREATE INDEX certificates_by_holder ON certificates (gateway, ordinal);
"""

# The users of a study that asks tagged devices only: its tags, as its signed commitment hides them.
TAGGED_POPULATIONS = """
CREATE TABLE tagged_populations (
  study {blob} PRIMARY KEY CHECK ({bytes_of}(study) = 32),
  salt {blob} NOT NULL CHECK ({bytes_of}(salt) = 32),
  tags {text} NOT NULL
){keyed};
"""

# Lists of ended studies by state, newest first; and their costs, without the results beside them.
LISTS = "CREATE INDEX ended_studies ON conclusions (state, study, max_asked) WHERE epoch = 0;"

# When a round was first opened, by the store's clock: each process that asks it shows the same age.
# Rounds of before have none.
ROUND_AGES = """
ALTER TABLE rounds ADD COLUMN opened_unix_s {integer};
"""

# Devices by tag (empty: all) that a closed round has asked, and that have answered or refused.
COMPLETION = """
CREATE TABLE round_completion (
  study {blob} NOT NULL,
  epoch {integer} NOT NULL CHECK (epoch >= 0),
  number {integer} NOT NULL CHECK (number >= 0),
  tag {ordered} NOT NULL,
  asked {integer} NOT NULL,
  answered {integer} NOT NULL,
  PRIMARY KEY (study, epoch, number, tag)
){keyed};
"""

# Name and version of a device's program, as it stated them at its last noted call.
SOFTWARE = """
ALTER TABLE devices ADD COLUMN software {text} CHECK ({bytes_of}(software) <= 48);
"""

# Words by which studies are found, and the text by which they are sorted, follow from the signed
# study (see `titles`); `users` is noted when a study or its latest epoch begins, 0: not known.
TITLES = """
CREATE TABLE study_titles (
  study {integer} PRIMARY KEY REFERENCES studies (number),
  sorted {ordered} NOT NULL,
  users {integer} NOT NULL DEFAULT 0 CHECK (users >= 0)
){end};
CREATE INDEX study_titles_sorted ON study_titles (sorted, study);
CREATE INDEX study_titles_by_users ON study_titles (users, study);
CREATE TABLE study_words (
  word {ordered} NOT NULL,
  study {integer} NOT NULL REFERENCES studies (number),
  PRIMARY KEY (word, study)
){keyed};
CREATE INDEX retention_by_end ON retention (ended_unix_s, study);
"""

# Tallies that were published, by frozen question, and whose answers they count (see `outer`).
OUTER = """
CREATE TABLE outer_account (
  single {small} PRIMARY KEY CHECK (single = 1),
  inverse_delta {integer} NOT NULL,
  began_unix_s {integer} NOT NULL,
  counted {integer} NOT NULL DEFAULT 0,
  figures {text} NOT NULL DEFAULT ''
){end};
CREATE TABLE outer_releases (
  number {integer} PRIMARY KEY,
  request {blob} NOT NULL UNIQUE CHECK ({bytes_of}(request) = 32),
  study {integer} NOT NULL REFERENCES studies (number),
  question {blob} NOT NULL CHECK ({bytes_of}(question) = 32),
  randomizer {blob} NOT NULL,
  users {blob} NOT NULL,
  again {blob} NOT NULL
){end};
CREATE TABLE outer_curves (
  randomizer {blob} NOT NULL,
  answers {integer} NOT NULL,
  points {text} NOT NULL,
  PRIMARY KEY (randomizer, answers)
){keyed};
"""

# Account of all replicas (see `outer`): `state` and `outer_questions` count the releases up to
# number `counted`, of which there were `releases`, by the accountant that `version` names.
OUTER_STATE = """
ALTER TABLE outer_account ADD COLUMN version {text} NOT NULL DEFAULT '';
ALTER TABLE outer_account ADD COLUMN releases {integer} NOT NULL DEFAULT 0;
ALTER TABLE outer_account ADD COLUMN state {blob};
CREATE TABLE outer_questions (
  question {blob} PRIMARY KEY CHECK ({bytes_of}(question) = 32),
  state {blob} NOT NULL
){end};
CREATE INDEX outer_releases_by_question ON outer_releases (question, number);
"""

# At most one row: the store is the unfinished target of a move, or was moved away (see `moves`).
MOVES = """
CREATE TABLE moves (
  id {blob} PRIMARY KEY CHECK ({bytes_of}(id) = 16),
  unfinished {small} NOT NULL CHECK (unfinished IN (0, 1)),
  other {text} NOT NULL,
  at_unix_s {integer} NOT NULL
){keyed};
"""

# Secrets of studies, from which the salts of tallies' leaves follow (see `studies.tallies`). A key
# is deleted with the reports: by a root and its salts, guesses at single reports can be checked.
LEAF_KEYS = """
CREATE TABLE leaf_keys (
  study {integer} PRIMARY KEY REFERENCES studies (number),
  secret {blob} NOT NULL CHECK ({bytes_of}(secret) = 32)
){end};
"""

# A row per receiver and end of a study or of an epoch (see `webhooks`). Titles that were noted
# without their text are noted again at the next start.
WEBHOOKS = """
CREATE TABLE webhook_deliveries (
  receiver {ordered} NOT NULL,
  study {integer} NOT NULL REFERENCES studies (number),
  epoch {integer} NOT NULL CHECK (epoch >= 0),
  message_id {text} NOT NULL,
  ended_unix_s {integer} NOT NULL,
  state {small} NOT NULL DEFAULT 1 CHECK (state BETWEEN 1 AND 3),
  attempts {integer} NOT NULL DEFAULT 0,
  due_unix_s {integer} NOT NULL,
  first_unix_s {integer},
  tried_unix_s {integer},
  error {text} NOT NULL DEFAULT '',
  PRIMARY KEY (receiver, study, epoch)
){end};
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (receiver, due_unix_s) WHERE state = 1;
ALTER TABLE study_titles ADD COLUMN title {text} NOT NULL DEFAULT '';
DELETE FROM study_words;
DELETE FROM study_titles;
"""

# Tags that devices get when they are enrolled with a token.
TOKEN_TAGS = """
CREATE TABLE token_tags (
  token_id {blob} NOT NULL REFERENCES enrolment_tokens (token_id),
  tag {ordered} NOT NULL,
  PRIMARY KEY (token_id, tag)
){keyed};
"""

# Days on which any device has called: the service could be reached. Those of before are known by
# the devices that have not called since.
CALLED_DAYS = """
CREATE TABLE called_days (
  day {integer} PRIMARY KEY
){end};
INSERT INTO called_days SELECT DISTINCT seen_day FROM devices WHERE seen_day IS NOT NULL;
"""
