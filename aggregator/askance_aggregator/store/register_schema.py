"""Tables of the register, as one step of each store's schema.

A change of a state has a number, `changed`: the standing that it led to. Processes that serve poll
the standing. A forgotten device's row goes; its ordinal stays, as an empty place. Tags are compared
by their bytes, whatever a database's collation.
"""

from __future__ import annotations

SQLITE_REGISTER = """
ALTER TABLE devices ADD COLUMN state INTEGER NOT NULL DEFAULT 0 CHECK (state IN (0, 1));
ALTER TABLE devices ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE devices ADD COLUMN enrolled_day INTEGER;
ALTER TABLE devices ADD COLUMN seen_day INTEGER;
CREATE INDEX devices_changed ON devices (changed) WHERE changed > 0;
CREATE INDEX devices_revoked ON devices (ordinal) WHERE state = 1;
ALTER TABLE gateways ADD COLUMN state INTEGER NOT NULL DEFAULT 0 CHECK (state IN (0, 1));
ALTER TABLE gateways ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE enrolment_tokens ADD COLUMN most INTEGER;
ALTER TABLE enrolment_tokens ADD COLUMN ends_unix_s INTEGER;
ALTER TABLE enrolment_tokens ADD COLUMN revoked INTEGER NOT NULL DEFAULT 0;
CREATE INDEX devices_by_gateway ON devices (gateway) WHERE gateway IS NOT NULL;
CREATE TABLE empty_places (
  ordinal INTEGER PRIMARY KEY CHECK (ordinal >= 0),
  changed INTEGER NOT NULL
) STRICT;
CREATE INDEX empty_places_changed ON empty_places (changed);
CREATE TABLE device_tags (
  tag TEXT NOT NULL,
  ordinal INTEGER NOT NULL REFERENCES devices (ordinal),
  PRIMARY KEY (tag, ordinal)
) STRICT, WITHOUT ROWID;
CREATE INDEX device_tags_by_ordinal ON device_tags (ordinal);
CREATE TABLE register (
  single INTEGER PRIMARY KEY CHECK (single = 1),
  standing INTEGER NOT NULL
) STRICT;
INSERT INTO register VALUES (1, 0);
CREATE TABLE study_users (
  study BLOB NOT NULL,
  epoch INTEGER NOT NULL CHECK (epoch >= 0),
  users BLOB NOT NULL,
  PRIMARY KEY (study, epoch)
) STRICT;
"""

POSTGRESQL_REGISTER = """
ALTER TABLE devices ADD COLUMN state integer NOT NULL DEFAULT 0 CHECK (state IN (0, 1));
ALTER TABLE devices ADD COLUMN changed bigint NOT NULL DEFAULT 0;
ALTER TABLE devices ADD COLUMN enrolled_day bigint;
ALTER TABLE devices ADD COLUMN seen_day bigint;
CREATE INDEX devices_changed ON devices (changed) WHERE changed > 0;
CREATE INDEX devices_revoked ON devices (ordinal) WHERE state = 1;
CREATE INDEX devices_by_gateway ON devices (gateway) WHERE gateway IS NOT NULL;
ALTER TABLE gateways ADD COLUMN state integer NOT NULL DEFAULT 0 CHECK (state IN (0, 1));
ALTER TABLE gateways ADD COLUMN changed bigint NOT NULL DEFAULT 0;
ALTER TABLE enrolment_tokens ADD COLUMN most bigint;
ALTER TABLE enrolment_tokens ADD COLUMN ends_unix_s bigint;
ALTER TABLE enrolment_tokens ADD COLUMN revoked integer NOT NULL DEFAULT 0;
CREATE TABLE empty_places (
  ordinal bigint PRIMARY KEY CHECK (ordinal >= 0),
  changed bigint NOT NULL
);
CREATE INDEX empty_places_changed ON empty_places (changed);
CREATE TABLE device_tags (
  tag text COLLATE "C" NOT NULL,
  ordinal bigint NOT NULL REFERENCES devices (ordinal),
  PRIMARY KEY (tag, ordinal)
);
CREATE INDEX device_tags_by_ordinal ON device_tags (ordinal);
CREATE TABLE register (
  single boolean PRIMARY KEY DEFAULT true CHECK (single),
  standing bigint NOT NULL
);
INSERT INTO register (standing) VALUES (0);
CREATE TABLE study_users (
  study bytea NOT NULL,
  epoch bigint NOT NULL CHECK (epoch >= 0),
  users bytea NOT NULL,
  PRIMARY KEY (study, epoch)
);
"""
