SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA askance;
CREATE FUNCTION askance.audit_refuses() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  RAISE EXCEPTION 'the audit log is only appended to';
END
$$;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE askance.audit (
    number bigint NOT NULL,
    line text NOT NULL,
    digest bytea NOT NULL,
    nonce bytea,
    CONSTRAINT audit_digest_check CHECK ((octet_length(digest) = 32)),
    CONSTRAINT audit_nonce_check CHECK ((octet_length(nonce) = 16)),
    CONSTRAINT audit_number_check CHECK ((number >= 1))
);
CREATE TABLE askance.certificates (
    fingerprint bytea NOT NULL,
    gateway bigint NOT NULL,
    ordinal bigint NOT NULL,
    ends_unix_s bigint NOT NULL,
    CONSTRAINT certificates_check CHECK (((gateway = 0) <> (ordinal = '-1'::integer))),
    CONSTRAINT certificates_fingerprint_check CHECK ((octet_length(fingerprint) = 32))
);
CREATE TABLE askance.conclusions (
    study bigint NOT NULL,
    epoch bigint NOT NULL,
    state integer NOT NULL,
    reason text NOT NULL,
    message text NOT NULL,
    result_json text NOT NULL,
    max_asked bigint NOT NULL,
    CONSTRAINT conclusions_epoch_check CHECK ((epoch >= 0)),
    CONSTRAINT conclusions_state_check CHECK (((state >= 2) AND (state <= 4)))
);
CREATE TABLE askance.device_tags (
    tag text NOT NULL COLLATE pg_catalog."C",
    ordinal bigint NOT NULL
);
CREATE TABLE askance.devices (
    ordinal bigint NOT NULL,
    device_id bytea NOT NULL,
    token_digest bytea NOT NULL,
    acknowledged_sequence bigint DEFAULT 0 NOT NULL,
    gateway bigint,
    state integer DEFAULT 0 NOT NULL,
    changed bigint DEFAULT 0 NOT NULL,
    enrolled_day bigint,
    seen_day bigint,
    software text,
    CONSTRAINT devices_acknowledged_sequence_check CHECK ((acknowledged_sequence >= 0)),
    CONSTRAINT devices_device_id_check CHECK (((octet_length(device_id) >= 1) AND (octet_length(device_id) <= 64))),
    CONSTRAINT devices_ordinal_check CHECK ((ordinal >= 0)),
    CONSTRAINT devices_software_check CHECK ((octet_length(software) <= 48)),
    CONSTRAINT devices_state_check CHECK ((state = ANY (ARRAY[0, 1]))),
    CONSTRAINT devices_token_digest_check CHECK ((octet_length(token_digest) = 32))
)
WITH (fillfactor='80');
CREATE TABLE askance.empty_places (
    ordinal bigint NOT NULL,
    changed bigint NOT NULL,
    CONSTRAINT empty_places_ordinal_check CHECK ((ordinal >= 0))
);
CREATE TABLE askance.enrolment_tokens (
    token_id bytea NOT NULL,
    devices bigint NOT NULL,
    most bigint,
    ends_unix_s bigint,
    revoked integer DEFAULT 0 NOT NULL,
    CONSTRAINT enrolment_tokens_devices_check CHECK ((devices >= 0)),
    CONSTRAINT enrolment_tokens_token_id_check CHECK ((octet_length(token_id) = 16))
);
CREATE TABLE askance.evidence (
    request bigint NOT NULL,
    ordinal bigint NOT NULL,
    place integer NOT NULL,
    data bytea NOT NULL,
    CONSTRAINT evidence_place_check CHECK (((place >= 0) AND (place <= 3)))
);
CREATE TABLE askance.gateways (
    number bigint NOT NULL,
    gateway_id bytea NOT NULL,
    token_digest bytea NOT NULL,
    state integer DEFAULT 0 NOT NULL,
    changed bigint DEFAULT 0 NOT NULL,
    CONSTRAINT gateways_gateway_id_check CHECK (((octet_length(gateway_id) >= 1) AND (octet_length(gateway_id) <= 64))),
    CONSTRAINT gateways_number_check CHECK ((number >= 1)),
    CONSTRAINT gateways_state_check CHECK ((state = ANY (ARRAY[0, 1]))),
    CONSTRAINT gateways_token_digest_check CHECK ((octet_length(token_digest) = 32))
);
CREATE TABLE askance.holder (
    single boolean DEFAULT true NOT NULL,
    token bigint NOT NULL,
    CONSTRAINT holder_single_check CHECK (single)
);
CREATE TABLE askance.leases (
    study bigint NOT NULL,
    replica text NOT NULL,
    token bigint NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT leases_token_check CHECK ((token >= 1))
);
CREATE TABLE askance.paused_studies (
    study bigint NOT NULL
);
CREATE TABLE askance.population (
    single boolean DEFAULT true NOT NULL,
    devices bigint NOT NULL,
    CONSTRAINT population_single_check CHECK (single)
);
CREATE TABLE askance.probe (
    filler bytea NOT NULL
);
ALTER TABLE ONLY askance.probe ALTER COLUMN filler SET STORAGE EXTERNAL;
CREATE TABLE askance.register (
    single boolean DEFAULT true NOT NULL,
    standing bigint NOT NULL,
    CONSTRAINT register_single_check CHECK (single)
);
CREATE TABLE askance.replicas (
    name text NOT NULL,
    address text NOT NULL,
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    seen_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
CREATE TABLE askance.reports (
    part bigint NOT NULL,
    request bigint NOT NULL,
    ordinal bigint NOT NULL,
    data bytea NOT NULL,
    arrived xid8 DEFAULT pg_current_xact_id(),
    CONSTRAINT reports_ordinal_check CHECK ((ordinal >= 0))
)
PARTITION BY LIST (part);
CREATE TABLE askance.reports_0 (
    part bigint CONSTRAINT reports_part_not_null NOT NULL,
    request bigint CONSTRAINT reports_request_not_null NOT NULL,
    ordinal bigint CONSTRAINT reports_ordinal_not_null NOT NULL,
    data bytea CONSTRAINT reports_data_not_null NOT NULL,
    arrived xid8 DEFAULT pg_current_xact_id(),
    CONSTRAINT reports_ordinal_check CHECK ((ordinal >= 0))
);
CREATE TABLE askance.reports_1 (
    part bigint CONSTRAINT reports_part_not_null NOT NULL,
    request bigint CONSTRAINT reports_request_not_null NOT NULL,
    ordinal bigint CONSTRAINT reports_ordinal_not_null NOT NULL,
    data bytea CONSTRAINT reports_data_not_null NOT NULL,
    arrived xid8 DEFAULT pg_current_xact_id(),
    CONSTRAINT reports_ordinal_check CHECK ((ordinal >= 0))
);
CREATE TABLE askance.reports_10 (
    part bigint CONSTRAINT reports_part_not_null NOT NULL,
    request bigint CONSTRAINT reports_request_not_null NOT NULL,
    ordinal bigint CONSTRAINT reports_ordinal_not_null NOT NULL,
    data bytea CONSTRAINT reports_data_not_null NOT NULL,
    arrived xid8 DEFAULT pg_current_xact_id(),
    CONSTRAINT reports_ordinal_check CHECK ((ordinal >= 0))
);
CREATE TABLE askance.reports_3 (
    part bigint CONSTRAINT reports_part_not_null NOT NULL,
    request bigint CONSTRAINT reports_request_not_null NOT NULL,
    ordinal bigint CONSTRAINT reports_ordinal_not_null NOT NULL,
    data bytea CONSTRAINT reports_data_not_null NOT NULL,
    arrived xid8 DEFAULT pg_current_xact_id(),
    CONSTRAINT reports_ordinal_check CHECK ((ordinal >= 0))
);
CREATE TABLE askance.reports_5 (
    part bigint CONSTRAINT reports_part_not_null NOT NULL,
    request bigint CONSTRAINT reports_request_not_null NOT NULL,
    ordinal bigint CONSTRAINT reports_ordinal_not_null NOT NULL,
    data bytea CONSTRAINT reports_data_not_null NOT NULL,
    arrived xid8 DEFAULT pg_current_xact_id(),
    CONSTRAINT reports_ordinal_check CHECK ((ordinal >= 0))
);
CREATE TABLE askance.reports_7 (
    part bigint CONSTRAINT reports_part_not_null NOT NULL,
    request bigint CONSTRAINT reports_request_not_null NOT NULL,
    ordinal bigint CONSTRAINT reports_ordinal_not_null NOT NULL,
    data bytea CONSTRAINT reports_data_not_null NOT NULL,
    arrived xid8 DEFAULT pg_current_xact_id(),
    CONSTRAINT reports_ordinal_check CHECK ((ordinal >= 0))
);
CREATE TABLE askance.requests (
    number bigint NOT NULL,
    digest bytea NOT NULL,
    study bigint,
    epoch bigint DEFAULT 0 NOT NULL,
    round bigint,
    part bigint NOT NULL,
    CONSTRAINT requests_digest_check CHECK ((octet_length(digest) = 32))
);
ALTER TABLE askance.requests ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME askance.requests_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE askance.restored_sequences (
    ordinal bigint NOT NULL,
    sequence bigint NOT NULL,
    CONSTRAINT restored_sequences_ordinal_check CHECK ((ordinal >= 0)),
    CONSTRAINT restored_sequences_sequence_check CHECK ((sequence > 0))
);
CREATE TABLE askance.restores (
    restored_unix_s bigint NOT NULL,
    backup_unix_s bigint NOT NULL
);
CREATE TABLE askance.retention (
    study bigint NOT NULL,
    ended_unix_s bigint NOT NULL,
    reports_deleted_unix_s bigint,
    results_deleted_unix_s bigint,
    rows_left boolean DEFAULT false NOT NULL
);
CREATE TABLE askance.rounds (
    study bigint NOT NULL,
    epoch bigint NOT NULL,
    number bigint NOT NULL,
    boot text,
    at_ms bigint,
    left_ms bigint,
    closed boolean DEFAULT false NOT NULL,
    ended boolean DEFAULT false NOT NULL,
    CONSTRAINT rounds_epoch_check CHECK ((epoch >= 0)),
    CONSTRAINT rounds_number_check CHECK ((number >= 0))
);
CREATE TABLE askance.schema_steps (
    number integer NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE askance.studies (
    number bigint NOT NULL,
    digest bytea NOT NULL,
    study bytea NOT NULL,
    public_key bytea NOT NULL,
    signature bytea NOT NULL,
    cancelling boolean DEFAULT false NOT NULL,
    CONSTRAINT studies_digest_check CHECK ((octet_length(digest) = 32))
);
ALTER TABLE askance.studies ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME askance.studies_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE askance.study_users (
    study bytea NOT NULL,
    epoch bigint NOT NULL,
    users bytea NOT NULL,
    CONSTRAINT study_users_epoch_check CHECK ((epoch >= 0))
);
CREATE TABLE askance.submissions (
    study bigint NOT NULL,
    at_unix_s bigint NOT NULL
);
CREATE TABLE askance.tagged_populations (
    study bytea NOT NULL,
    salt bytea NOT NULL,
    tags text NOT NULL,
    CONSTRAINT tagged_populations_salt_check CHECK ((octet_length(salt) = 32)),
    CONSTRAINT tagged_populations_study_check CHECK ((octet_length(study) = 32))
);
CREATE TABLE askance.transcript_lines (
    study bigint NOT NULL,
    epoch bigint NOT NULL,
    number bigint NOT NULL,
    line text NOT NULL,
    CONSTRAINT transcript_lines_epoch_check CHECK ((epoch >= 0)),
    CONSTRAINT transcript_lines_number_check CHECK ((number >= 0))
);
ALTER TABLE ONLY askance.reports ATTACH PARTITION askance.reports_0 FOR VALUES IN ('0');
ALTER TABLE ONLY askance.reports ATTACH PARTITION askance.reports_1 FOR VALUES IN ('1');
ALTER TABLE ONLY askance.reports ATTACH PARTITION askance.reports_10 FOR VALUES IN ('10');
ALTER TABLE ONLY askance.reports ATTACH PARTITION askance.reports_3 FOR VALUES IN ('3');
ALTER TABLE ONLY askance.reports ATTACH PARTITION askance.reports_5 FOR VALUES IN ('5');
ALTER TABLE ONLY askance.reports ATTACH PARTITION askance.reports_7 FOR VALUES IN ('7');
INSERT INTO askance.audit VALUES (1, '{"number":1,"at_unix_s":1700000000,"who":"ann","role":"admin","action":"Analysts/Cancel","subject":"7","origin":"::1","outcome":"done","count":1,"nonce":""}', '\x44eeeefc0dd426f24f67f69468f1cc07261874c562f125c242ef1d6628bd154c', NULL);
INSERT INTO askance.audit VALUES (2, '{"number":2,"at_unix_s":1700000001,"who":"ann","role":"admin","action":"Analysts/Cancel","subject":"7","origin":"::1","outcome":"done","count":1,"nonce":""}', '\x9d8e29d397e466f0b2e44fd511c6129164dc27acf76695e2b6d38c35fa490e8b', NULL);
INSERT INTO askance.audit VALUES (3, '{"number":3,"at_unix_s":1700000002,"who":"ann","role":"admin","action":"Analysts/Cancel","subject":"7","origin":"::1","outcome":"done","count":1,"nonce":""}', '\x53bc111e2cbbe333f8484477f31f96622b0a54342ad8f7fba2dc5140fbafc7c0', NULL);
INSERT INTO askance.certificates VALUES ('\x0000000000000000000000000000000000000000000000000000000000000000', 0, 0, 1700604800);
INSERT INTO askance.conclusions VALUES (1, 0, 2, 'done', '', '{"study": "a8431d805c213d034fb92e353369132acfe941432e892a54bcc368f334977287", "learner": "frequency", "state": "done", "fields": ["colour", "smoker"], "reason": "done", "message": "", "hypothesis": {"red": {"estimate": 0.1045058232826684, "low": 0.0, "high": 1.0, "projected": 0.1045058232826684}, "green": {"estimate": 0.5621608433839983, "low": 0.0, "high": 1.0, "projected": 0.5621608433839983}, "blue": {"estimate": 0.3333333333333333, "low": 0.0, "high": 1.0, "projected": 0.3333333333333333}}, "confidence": 0.95, "rounds": 1, "queries": 1, "answers": 12, "refusals": {}, "fresh": 12, "reused": 0, "answers_by_round": [{"fresh": 12, "reused": 0}], "time": "Every answer describes its user at the time of this study.", "users_asked": 12, "influence": [{"round": 0, "question": 0, "answers": 12, "one_report_moves_by": 0.22882751005066493}], "bounds": [{"round": 0, "question": 0, "answers": 12, "within": 0.5, "one_report_moves_by": 0.22882751005066493, "least_users": 7}], "users": 12, "epsilon": {"budget": 1.0, "max_spent": 1.0, "mean_spent": 1.0, "max_asked_nano_nats": 1000000000, "max_spent_nano_nats": 1000000000, "total_spent_nano_nats": 12000000000}, "reconciled": true, "overspent": 0, "privacy": "Every device''s reports are 1-locally differentially private (pure, replace-one) towards everybody who sees them, by the device''s own ledger; nobody was asked for more than 1 nats by this study, and by the answers that came nobody has spent more than 1.", "transcript": "sha256:4b960d433b458da872ec60fa5b2aafd0358c7e9a2449dac3407960070aec9786"}', 1000000000);
INSERT INTO askance.conclusions VALUES (3, 0, 2, 'done', '', '{"study": "4f08ace59909d3d92bea5e6f5caefc3735d531892f99a42574449089f61e3826", "learner": "mean", "state": "done", "fields": ["colour", "smoker"], "reason": "done", "message": "", "hypothesis": {"estimate": 0.0, "low": 0.0, "high": 0.8090276718139648, "of": "population", "missing": {"share": 0.0, "low": 0.0, "high": 1.0}}, "confidence": 0.95, "rounds": 1, "queries": 1, "answers": 12, "refusals": {}, "fresh": 12, "reused": 0, "answers_by_round": [{"fresh": 12, "reused": 0}], "time": "Every answer describes its user at the time of this study.", "users_asked": 12, "influence": [{"round": 0, "question": 0, "answers": 12, "one_report_moves_by": 0.3587811750127768}], "bounds": [{"round": 0, "question": 0, "answers": 12, "within": 0.4045138359069824, "one_report_moves_by": 0.3587811750127768, "least_users": 12}], "users": 12, "epsilon": {"budget": 1.0, "max_spent": 1.0, "mean_spent": 1.0, "max_asked_nano_nats": 1000000000, "max_spent_nano_nats": 1000000000, "total_spent_nano_nats": 12000000000}, "reconciled": true, "overspent": 0, "privacy": "Every device''s reports are 1-locally differentially private (pure, replace-one) towards everybody who sees them, by the device''s own ledger; nobody was asked for more than 1 nats by this study, and by the answers that came nobody has spent more than 1.", "transcript": "sha256:a5a3800a798f13f5f8abf2bf2838460d318a84eaea0f7c142e50cea90af88513"}', 1000000000);
INSERT INTO askance.conclusions VALUES (5, 0, 4, 'cancelled', 'study: cancelled by its analyst', '{"study": "31fdc19bca9c3c785e7ed8d52dc7c4a9359805bf7feeb803f863380a28a898d4", "learner": "mean", "state": "cancelled", "fields": ["colour", "smoker"], "reason": "cancelled", "message": "study: cancelled by its analyst", "hypothesis": null, "confidence": 0.95, "rounds": 0, "queries": 0, "answers": 0, "refusals": {}, "fresh": 0, "reused": 0, "answers_by_round": [], "time": "Every answer describes its user at the time of this study.", "users_asked": 12, "influence": [], "bounds": [], "users": 12, "epsilon": {"budget": 1.0, "max_spent": 0.0, "mean_spent": 0.0, "max_asked_nano_nats": 1000000000, "max_spent_nano_nats": 0, "total_spent_nano_nats": 0}, "reconciled": true, "overspent": 0, "privacy": "Every device''s reports are 1-locally differentially private (pure, replace-one) towards everybody who sees them, by the device''s own ledger; nobody was asked for more than 1 nats by this study, and by the answers that came nobody has spent more than 0.", "transcript": "sha256:791a516499b6d6f5113dfdb30ae7bbce05bafa4807dd53432e58d42bc15617f2"}', 1000000000);
INSERT INTO askance.conclusions VALUES (7, 2811, 2, 'done', '', '{"study": "46277959653f97462ebee5d5e6948657bc0a2c99d4471e65aab8269252716afa", "learner": "mean", "state": "done", "fields": ["colour", "smoker"], "reason": "done", "message": "", "epoch": 2811, "number": 1, "epochs": 2, "every_days": 7, "first_day": "2023-11-16", "hypothesis": {"estimate": 0.0, "low": 0.0, "high": 0.906865119934082, "of": "population", "missing": {"share": 0.0, "low": 0.0, "high": 1.0}}, "confidence": 0.95, "rounds": 1, "queries": 1, "answers": 12, "refusals": {}, "fresh": 12, "reused": 0, "answers_by_round": [{"fresh": 12, "reused": 0}], "time": "Every answer describes its user at the time of this study.", "users_asked": 12, "influence": [{"round": 0, "question": 0, "answers": 12, "one_report_moves_by": 0.3587811750127768}], "bounds": [{"round": 0, "question": 0, "answers": 12, "within": 0.453432559967041, "one_report_moves_by": 0.3587811750127768, "least_users": 13}], "users": 12, "epsilon": {"budget": 1.0, "max_spent": 1.0, "mean_spent": 1.0, "max_asked_nano_nats": 1000000000, "max_spent_nano_nats": 1000000000, "total_spent_nano_nats": 12000000000}, "reconciled": true, "overspent": 0, "privacy": "Every device''s reports in one epoch are 1-locally differentially private (in all 2 epochs together, 2-locally) (pure, replace-one) towards everybody who sees them, by the device''s own ledger; nobody was asked for more than 1 nats by this epoch of the study, and by the answers that came nobody has spent more than 1.", "transcript": "sha256:2917c06aab07139b29a7acf7b72eaaeb69a421b3f424b8fc628e796c61c32ba1"}', 1000000000);
INSERT INTO askance.conclusions VALUES (7, 2812, 2, 'done', '', '{"study": "46277959653f97462ebee5d5e6948657bc0a2c99d4471e65aab8269252716afa", "learner": "mean", "state": "done", "fields": ["colour", "smoker"], "reason": "done", "message": "", "epoch": 2812, "number": 2, "epochs": 2, "every_days": 7, "first_day": "2023-11-23", "hypothesis": {"estimate": 0.0, "low": 0.0, "high": 0.906865119934082, "of": "population", "missing": {"share": 0.0, "low": 0.0, "high": 1.0}}, "confidence": 0.95, "rounds": 1, "queries": 1, "answers": 12, "refusals": {}, "fresh": 12, "reused": 0, "answers_by_round": [{"fresh": 12, "reused": 0}], "time": "Every answer describes its user at the time of this study.", "users_asked": 12, "influence": [{"round": 0, "question": 0, "answers": 12, "one_report_moves_by": 0.3587811750127768}], "bounds": [{"round": 0, "question": 0, "answers": 12, "within": 0.453432559967041, "one_report_moves_by": 0.3587811750127768, "least_users": 13}], "users": 12, "epsilon": {"budget": 1.0, "max_spent": 1.0, "mean_spent": 1.0, "max_asked_nano_nats": 1000000000, "max_spent_nano_nats": 1000000000, "total_spent_nano_nats": 12000000000}, "reconciled": true, "overspent": 0, "privacy": "Every device''s reports in one epoch are 1-locally differentially private (in all 2 epochs together, 2-locally) (pure, replace-one) towards everybody who sees them, by the device''s own ledger; nobody was asked for more than 1 nats by this epoch of the study, and by the answers that came nobody has spent more than 1.", "transcript": "sha256:1a650de293cb6b6f4d11a6c84935e04dff46cfbb87eaf9324d580b6220c92431"}', 1000000000);
INSERT INTO askance.conclusions VALUES (7, 0, 2, 'done', '', '{"study": "46277959653f97462ebee5d5e6948657bc0a2c99d4471e65aab8269252716afa", "learner": "mean", "state": "done", "fields": ["colour", "smoker"], "reason": "done", "message": "", "confidence": 0.95, "joint": "The intervals hold jointly over all estimates and all signed epochs: each epoch has its share of what may fail, fixed before the first was asked.", "every_days": 7, "first_epoch": 2811, "first_day": "2023-11-16", "epochs_signed": 2, "epochs": [{"epoch": 2811, "number": 1, "first_day": "2023-11-16", "state": "done", "reason": "done", "message": "", "rounds": 1, "answers": 12, "fresh": 12, "reused": 0, "users_asked": 12, "max_asked_nano_nats": 1000000000, "max_spent_nano_nats": 1000000000, "transcript": "sha256:2917c06aab07139b29a7acf7b72eaaeb69a421b3f424b8fc628e796c61c32ba1"}, {"epoch": 2812, "number": 2, "first_day": "2023-11-23", "state": "done", "reason": "done", "message": "", "rounds": 1, "answers": 12, "fresh": 12, "reused": 0, "users_asked": 12, "max_asked_nano_nats": 1000000000, "max_spent_nano_nats": 1000000000, "transcript": "sha256:1a650de293cb6b6f4d11a6c84935e04dff46cfbb87eaf9324d580b6220c92431"}], "fresh": 24, "reused": 0, "epsilon": {"budget_per_epoch": 1.0, "budget": 2.0, "max_asked_nano_nats": 2000000000}, "privacy": "Every device''s reports in one epoch are 1-locally differentially private (pure, replace-one), and those of 2 epochs together 2-locally, by the device''s own ledger; nobody was asked for more than 2 nats so far, by 2 of them."}', 2000000000);
INSERT INTO askance.device_tags VALUES ('site=north', 1);
INSERT INTO askance.device_tags VALUES ('site=north', 2);
INSERT INTO askance.device_tags VALUES ('test', 1);
INSERT INTO askance.device_tags VALUES ('test', 2);
INSERT INTO askance.devices VALUES (5, '\x6465766963652035', '\x45d01888ff235c8b45ae662a8128cf751844c00cbefdefc568fa18e9a2ace835', 4, NULL, 0, 0, 20784, NULL, NULL);
INSERT INTO askance.devices VALUES (6, '\x6465766963652036', '\x2f4f5d0b3324063a1a25545a2dda0bac44f6c27ae48b7919193563ccc8c53c0b', 4, NULL, 0, 0, 20784, NULL, NULL);
INSERT INTO askance.devices VALUES (7, '\x6465766963652037', '\xb07822f92855372c176a6580f9e6b631e09b1afaf42bb2822b6be6df3fbabdf8', 4, NULL, 0, 0, 20784, NULL, NULL);
INSERT INTO askance.devices VALUES (8, '\x6465766963652038', '\x3471e99cb7a76f608d33c809a69e51e15d7d292b0ff713d1ec7627c2bff13cd4', 4, NULL, 0, 0, 20784, NULL, NULL);
INSERT INTO askance.devices VALUES (9, '\x6465766963652039', '\x6b708540561c7cea5f0e0d422bc91aa34099bac20234238cb372c948401f25f6', 4, NULL, 0, 0, 20784, NULL, NULL);
INSERT INTO askance.devices VALUES (10, '\x646576696365203130', '\x64ac58d164807a6d498aadd2534c469a10332ec6bc909a6f23bc8ced36098ad8', 4, NULL, 0, 0, 20784, NULL, NULL);
INSERT INTO askance.devices VALUES (11, '\x646576696365203131', '\xfce1317a6ab48a316561dabf0b750610c047a590d5872c3a318ddea049c79048', 4, NULL, 0, 0, 20784, NULL, NULL);
INSERT INTO askance.devices VALUES (12, '\x6d656d6265722030', '\x0000000000000000000000000000000000000000000000000000000000000000', 0, 1, 1, 1, 20784, NULL, NULL);
INSERT INTO askance.devices VALUES (0, '\x6465766963652030', '\x2b3d9e0f44da2b44c1ee0314b7af9b7a5b83aedceb0dc20f88bdf33bdb73b599', 4, NULL, 0, 0, 20784, 19675, 'askance 0.1.0');
INSERT INTO askance.devices VALUES (1, '\x6465766963652031', '\x65961b9e8916d26e3053c4bcc761a35e7933a6639c978c36ad879e95ea89268d', 4, NULL, 0, 0, 20784, 19675, 'askance 0.1.0');
INSERT INTO askance.devices VALUES (2, '\x6465766963652032', '\x4fdaeb3e7d71dfa123bf707e0daa056fc05195aacc54698bfae49a6547bdc9b1', 4, NULL, 0, 0, 20784, 19675, 'askance 0.1.0');
INSERT INTO askance.devices VALUES (3, '\x6465766963652033', '\x791559d06f4eef9ab945e96c0f2acd8e371ac5d4fcc7560bba6aae5ba3b43b56', 4, NULL, 0, 0, 20784, NULL, NULL);
INSERT INTO askance.devices VALUES (4, '\x6465766963652034', '\x1a32ef364c612c16fa2cd4a7c10b84823594b970e28fef36f2fdddc4de0c5d97', 4, NULL, 0, 0, 20784, NULL, NULL);
INSERT INTO askance.empty_places VALUES (13, 2);
INSERT INTO askance.enrolment_tokens VALUES ('\x00000000000000000000000000000000', 2, 100, 1700604800, 0);
INSERT INTO askance.evidence VALUES (1, 0, 0, '\x616e6f74686572');
INSERT INTO askance.gateways VALUES (1, '\x67617465776179', '\x0000000000000000000000000000000000000000000000000000000000000000', 0, 0);
INSERT INTO askance.holder VALUES (true, 1);
INSERT INTO askance.leases VALUES (1, '', 1, '-infinity');
INSERT INTO askance.leases VALUES (3, '', 1, '-infinity');
INSERT INTO askance.leases VALUES (5, '', 1, '-infinity');
INSERT INTO askance.leases VALUES (7, '', 1, '-infinity');
INSERT INTO askance.leases VALUES (10, '', 1, '-infinity');
INSERT INTO askance.paused_studies VALUES (10);
INSERT INTO askance.population VALUES (true, 14);
INSERT INTO askance.register VALUES (true, 2);
INSERT INTO askance.reports_1 VALUES (1, 1, 0, '\x0a20fd70d3c9f5d6077236cb459fe9c46ab346ea3ddf1e9afe8d7c9239f82056bc8a120100208094ebdc03288094ebdc033001', '777');
INSERT INTO askance.reports_1 VALUES (1, 1, 1, '\x0a20fd70d3c9f5d6077236cb459fe9c46ab346ea3ddf1e9afe8d7c9239f82056bc8a120101208094ebdc03288094ebdc033001', '778');
INSERT INTO askance.reports_1 VALUES (1, 1, 2, '\x0a20fd70d3c9f5d6077236cb459fe9c46ab346ea3ddf1e9afe8d7c9239f82056bc8a120102208094ebdc03288094ebdc033001', '779');
INSERT INTO askance.reports_1 VALUES (1, 1, 3, '\x0a20fd70d3c9f5d6077236cb459fe9c46ab346ea3ddf1e9afe8d7c9239f82056bc8a120100208094ebdc03288094ebdc033001', '780');
INSERT INTO askance.reports_1 VALUES (1, 1, 4, '\x0a20fd70d3c9f5d6077236cb459fe9c46ab346ea3ddf1e9afe8d7c9239f82056bc8a120101208094ebdc03288094ebdc033001', '781');
INSERT INTO askance.reports_1 VALUES (1, 1, 5, '\x0a20fd70d3c9f5d6077236cb459fe9c46ab346ea3ddf1e9afe8d7c9239f82056bc8a120102208094ebdc03288094ebdc033001', '782');
INSERT INTO askance.reports_1 VALUES (1, 1, 6, '\x0a20fd70d3c9f5d6077236cb459fe9c46ab346ea3ddf1e9afe8d7c9239f82056bc8a120100208094ebdc03288094ebdc033001', '783');
INSERT INTO askance.reports_1 VALUES (1, 1, 7, '\x0a20fd70d3c9f5d6077236cb459fe9c46ab346ea3ddf1e9afe8d7c9239f82056bc8a120101208094ebdc03288094ebdc033001', '784');
INSERT INTO askance.reports_1 VALUES (1, 1, 8, '\x0a20fd70d3c9f5d6077236cb459fe9c46ab346ea3ddf1e9afe8d7c9239f82056bc8a120101208094ebdc03288094ebdc033001', '785');
INSERT INTO askance.reports_1 VALUES (1, 1, 9, '\x0a20fd70d3c9f5d6077236cb459fe9c46ab346ea3ddf1e9afe8d7c9239f82056bc8a120102208094ebdc03288094ebdc033001', '786');
INSERT INTO askance.reports_1 VALUES (1, 1, 10, '\x0a20fd70d3c9f5d6077236cb459fe9c46ab346ea3ddf1e9afe8d7c9239f82056bc8a120101208094ebdc03288094ebdc033001', '787');
INSERT INTO askance.reports_1 VALUES (1, 1, 11, '\x0a20fd70d3c9f5d6077236cb459fe9c46ab346ea3ddf1e9afe8d7c9239f82056bc8a120102208094ebdc03288094ebdc033001', '788');
INSERT INTO askance.reports_3 VALUES (3, 3, 0, '\x0a2020eb2717a2d9a8ef5ab86c22c750ee8fa6c52b131d5d1d66d1da8b19361f54ae120101208094ebdc03288094ebdc033002', '801');
INSERT INTO askance.reports_3 VALUES (3, 3, 1, '\x0a2020eb2717a2d9a8ef5ab86c22c750ee8fa6c52b131d5d1d66d1da8b19361f54ae120104208094ebdc03288094ebdc033002', '802');
INSERT INTO askance.reports_3 VALUES (3, 3, 2, '\x0a2020eb2717a2d9a8ef5ab86c22c750ee8fa6c52b131d5d1d66d1da8b19361f54ae120101208094ebdc03288094ebdc033002', '803');
INSERT INTO askance.reports_3 VALUES (3, 3, 3, '\x0a2020eb2717a2d9a8ef5ab86c22c750ee8fa6c52b131d5d1d66d1da8b19361f54ae120103208094ebdc03288094ebdc033002', '804');
INSERT INTO askance.reports_3 VALUES (3, 3, 4, '\x0a2020eb2717a2d9a8ef5ab86c22c750ee8fa6c52b131d5d1d66d1da8b19361f54ae120101208094ebdc03288094ebdc033002', '805');
INSERT INTO askance.reports_3 VALUES (3, 3, 5, '\x0a2020eb2717a2d9a8ef5ab86c22c750ee8fa6c52b131d5d1d66d1da8b19361f54ae120102208094ebdc03288094ebdc033002', '806');
INSERT INTO askance.reports_3 VALUES (3, 3, 6, '\x0a2020eb2717a2d9a8ef5ab86c22c750ee8fa6c52b131d5d1d66d1da8b19361f54ae120101208094ebdc03288094ebdc033002', '807');
INSERT INTO askance.reports_3 VALUES (3, 3, 7, '\x0a2020eb2717a2d9a8ef5ab86c22c750ee8fa6c52b131d5d1d66d1da8b19361f54ae120100208094ebdc03288094ebdc033002', '808');
INSERT INTO askance.reports_3 VALUES (3, 3, 8, '\x0a2020eb2717a2d9a8ef5ab86c22c750ee8fa6c52b131d5d1d66d1da8b19361f54ae12010a208094ebdc03288094ebdc033002', '809');
INSERT INTO askance.reports_3 VALUES (3, 3, 9, '\x0a2020eb2717a2d9a8ef5ab86c22c750ee8fa6c52b131d5d1d66d1da8b19361f54ae12010a208094ebdc03288094ebdc033002', '810');
INSERT INTO askance.reports_3 VALUES (3, 3, 10, '\x0a2020eb2717a2d9a8ef5ab86c22c750ee8fa6c52b131d5d1d66d1da8b19361f54ae120101208094ebdc03288094ebdc033002', '811');
INSERT INTO askance.reports_3 VALUES (3, 3, 11, '\x0a2020eb2717a2d9a8ef5ab86c22c750ee8fa6c52b131d5d1d66d1da8b19361f54ae120106208094ebdc03288094ebdc033002', '812');
INSERT INTO askance.reports_7 VALUES (7, 6, 0, '\x0a20f451077567413a8dc636d477175922f7ece9434aa824085482fb61af34bc19fc120101208094ebdc03288094ebdc033003', '836');
INSERT INTO askance.reports_7 VALUES (7, 6, 1, '\x0a20f451077567413a8dc636d477175922f7ece9434aa824085482fb61af34bc19fc120104208094ebdc03288094ebdc033003', '837');
INSERT INTO askance.reports_7 VALUES (7, 6, 2, '\x0a20f451077567413a8dc636d477175922f7ece9434aa824085482fb61af34bc19fc120101208094ebdc03288094ebdc033003', '838');
INSERT INTO askance.reports_7 VALUES (7, 6, 3, '\x0a20f451077567413a8dc636d477175922f7ece9434aa824085482fb61af34bc19fc120103208094ebdc03288094ebdc033003', '839');
INSERT INTO askance.reports_7 VALUES (7, 6, 4, '\x0a20f451077567413a8dc636d477175922f7ece9434aa824085482fb61af34bc19fc120101208094ebdc03288094ebdc033003', '840');
INSERT INTO askance.reports_7 VALUES (7, 6, 5, '\x0a20f451077567413a8dc636d477175922f7ece9434aa824085482fb61af34bc19fc120102208094ebdc03288094ebdc033003', '841');
INSERT INTO askance.reports_7 VALUES (7, 6, 6, '\x0a20f451077567413a8dc636d477175922f7ece9434aa824085482fb61af34bc19fc120101208094ebdc03288094ebdc033003', '842');
INSERT INTO askance.reports_7 VALUES (7, 6, 7, '\x0a20f451077567413a8dc636d477175922f7ece9434aa824085482fb61af34bc19fc120100208094ebdc03288094ebdc033003', '843');
INSERT INTO askance.reports_7 VALUES (7, 6, 8, '\x0a20f451077567413a8dc636d477175922f7ece9434aa824085482fb61af34bc19fc12010a208094ebdc03288094ebdc033003', '844');
INSERT INTO askance.reports_7 VALUES (7, 6, 9, '\x0a20f451077567413a8dc636d477175922f7ece9434aa824085482fb61af34bc19fc12010a208094ebdc03288094ebdc033003', '845');
INSERT INTO askance.reports_7 VALUES (7, 6, 10, '\x0a20f451077567413a8dc636d477175922f7ece9434aa824085482fb61af34bc19fc120101208094ebdc03288094ebdc033003', '846');
INSERT INTO askance.reports_7 VALUES (7, 6, 11, '\x0a20f451077567413a8dc636d477175922f7ece9434aa824085482fb61af34bc19fc120106208094ebdc03288094ebdc033003', '847');
INSERT INTO askance.reports_7 VALUES (7, 8, 0, '\x0a2055576d40a00ac0cd53e66f89e855cdb49af3b7ba7c09d7498e7ec24ab826db5d120101208094ebdc03288094ebdc033004', '856');
INSERT INTO askance.reports_7 VALUES (7, 8, 1, '\x0a2055576d40a00ac0cd53e66f89e855cdb49af3b7ba7c09d7498e7ec24ab826db5d120104208094ebdc03288094ebdc033004', '857');
INSERT INTO askance.reports_7 VALUES (7, 8, 2, '\x0a2055576d40a00ac0cd53e66f89e855cdb49af3b7ba7c09d7498e7ec24ab826db5d120101208094ebdc03288094ebdc033004', '858');
INSERT INTO askance.reports_7 VALUES (7, 8, 3, '\x0a2055576d40a00ac0cd53e66f89e855cdb49af3b7ba7c09d7498e7ec24ab826db5d120103208094ebdc03288094ebdc033004', '859');
INSERT INTO askance.reports_7 VALUES (7, 8, 4, '\x0a2055576d40a00ac0cd53e66f89e855cdb49af3b7ba7c09d7498e7ec24ab826db5d120101208094ebdc03288094ebdc033004', '860');
INSERT INTO askance.reports_7 VALUES (7, 8, 5, '\x0a2055576d40a00ac0cd53e66f89e855cdb49af3b7ba7c09d7498e7ec24ab826db5d120102208094ebdc03288094ebdc033004', '861');
INSERT INTO askance.reports_7 VALUES (7, 8, 6, '\x0a2055576d40a00ac0cd53e66f89e855cdb49af3b7ba7c09d7498e7ec24ab826db5d120101208094ebdc03288094ebdc033004', '862');
INSERT INTO askance.reports_7 VALUES (7, 8, 7, '\x0a2055576d40a00ac0cd53e66f89e855cdb49af3b7ba7c09d7498e7ec24ab826db5d120100208094ebdc03288094ebdc033004', '863');
INSERT INTO askance.reports_7 VALUES (7, 8, 8, '\x0a2055576d40a00ac0cd53e66f89e855cdb49af3b7ba7c09d7498e7ec24ab826db5d12010a208094ebdc03288094ebdc033004', '864');
INSERT INTO askance.reports_7 VALUES (7, 8, 9, '\x0a2055576d40a00ac0cd53e66f89e855cdb49af3b7ba7c09d7498e7ec24ab826db5d12010a208094ebdc03288094ebdc033004', '865');
INSERT INTO askance.reports_7 VALUES (7, 8, 10, '\x0a2055576d40a00ac0cd53e66f89e855cdb49af3b7ba7c09d7498e7ec24ab826db5d120101208094ebdc03288094ebdc033004', '866');
INSERT INTO askance.reports_7 VALUES (7, 8, 11, '\x0a2055576d40a00ac0cd53e66f89e855cdb49af3b7ba7c09d7498e7ec24ab826db5d120106208094ebdc03288094ebdc033004', '867');
INSERT INTO askance.requests OVERRIDING SYSTEM VALUE VALUES (1, '\xfd70d3c9f5d6077236cb459fe9c46ab346ea3ddf1e9afe8d7c9239f82056bc8a', 1, 0, 0, 1);
INSERT INTO askance.requests OVERRIDING SYSTEM VALUE VALUES (3, '\x20eb2717a2d9a8ef5ab86c22c750ee8fa6c52b131d5d1d66d1da8b19361f54ae', 3, 0, 0, 3);
INSERT INTO askance.requests OVERRIDING SYSTEM VALUE VALUES (5, '\x2d6b699196f0ada32538e870add5b6acaf9cc13604364a5b187ec488a7f2c165', 5, 0, 0, 5);
INSERT INTO askance.requests OVERRIDING SYSTEM VALUE VALUES (6, '\xf451077567413a8dc636d477175922f7ece9434aa824085482fb61af34bc19fc', 7, 2811, 0, 7);
INSERT INTO askance.requests OVERRIDING SYSTEM VALUE VALUES (8, '\x55576d40a00ac0cd53e66f89e855cdb49af3b7ba7c09d7498e7ec24ab826db5d', 7, 2812, 0, 7);
INSERT INTO askance.requests OVERRIDING SYSTEM VALUE VALUES (10, '\xcbefe35b6d976a656a598a063868080a3ca01501ac5c85886bc0d8f88420878d', 10, 0, 0, 10);
INSERT INTO askance.rounds VALUES (1, 0, 0, NULL, NULL, NULL, true, true);
INSERT INTO askance.rounds VALUES (3, 0, 0, NULL, NULL, NULL, true, true);
INSERT INTO askance.rounds VALUES (5, 0, 0, NULL, NULL, NULL, false, true);
INSERT INTO askance.rounds VALUES (7, 2811, 0, NULL, NULL, NULL, true, true);
INSERT INTO askance.rounds VALUES (7, 2812, 0, NULL, NULL, NULL, true, true);
INSERT INTO askance.rounds VALUES (10, 0, 0, NULL, NULL, NULL, false, false);
INSERT INTO askance.schema_steps VALUES (1, '2026-11-27 07:15:11.848343+00');
INSERT INTO askance.schema_steps VALUES (2, '2026-11-27 07:15:11.966042+00');
INSERT INTO askance.schema_steps VALUES (3, '2026-11-27 07:15:12.020368+00');
INSERT INTO askance.schema_steps VALUES (4, '2026-11-27 07:15:12.032251+00');
INSERT INTO askance.schema_steps VALUES (5, '2026-11-27 07:15:12.072368+00');
INSERT INTO askance.schema_steps VALUES (6, '2026-11-27 07:15:12.11654+00');
INSERT INTO askance.schema_steps VALUES (7, '2026-11-27 07:15:12.148281+00');
INSERT INTO askance.schema_steps VALUES (8, '2026-11-27 07:15:12.162266+00');
INSERT INTO askance.schema_steps VALUES (9, '2026-11-27 07:15:12.17621+00');
INSERT INTO askance.schema_steps VALUES (10, '2026-11-27 07:15:12.203968+00');
INSERT INTO askance.schema_steps VALUES (11, '2026-11-27 07:15:12.228153+00');
INSERT INTO askance.schema_steps VALUES (12, '2026-11-27 07:15:12.23829+00');
INSERT INTO askance.studies OVERRIDING SYSTEM VALUE VALUES (1, '\xa8431d805c213d034fb92e353369132acfe941432e892a54bcc368f334977287', '\x0a100000000000000000000000000000000112096672657175656e6379180122100a06636f6c756d6e1206636f6c6f75722a340a06706572736f6e10011a0a0a06736d6f6b657212001a1c0a06636f6c6f757222120a037265640a05677265656e0a04626c7565308094ebdc033880cc99ab06420d6b65707420666f7220657665725206636f6c6f75725206736d6f6b6572', '\x03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8', '\xe2b7b3e0774cc8d4a2541f2653f501d287f1c5b614ac77687d11d6d62d6910166ee92e1336a00d4a2184765b909f56146d62ac76dc564721eff58651f3b25f0a', false);
INSERT INTO askance.studies OVERRIDING SYSTEM VALUE VALUES (3, '\x4f08ace59909d3d92bea5e6f5caefc3735d531892f99a42574449089f61e3826', '\x0a100000000000000000000000000000000212046d65616e180222100a06636f6c756d6e1206736d6f6b65722a340a06706572736f6e10011a0a0a06736d6f6b657212001a1c0a06636f6c6f757222120a037265640a05677265656e0a04626c7565308094ebdc033880cc99ab06420d6b65707420666f7220657665725206636f6c6f75725206736d6f6b6572', '\x03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8', '\xa1119ec997082169662cd8011cc41fa3a43cfe49afd38841585df76c3613f3500ed04fe5a64754ccb22b868c62e667c34ab51183124dc8242ffeff013469d40e', false);
INSERT INTO askance.studies OVERRIDING SYSTEM VALUE VALUES (5, '\x31fdc19bca9c3c785e7ed8d52dc7c4a9359805bf7feeb803f863380a28a898d4', '\x0a100000000000000000000000000000000312046d65616e180222100a06636f6c756d6e1206736d6f6b65722a340a06706572736f6e10011a0a0a06736d6f6b657212001a1c0a06636f6c6f757222120a037265640a05677265656e0a04626c7565308094ebdc033880cc99ab06420d6b65707420666f7220657665725206636f6c6f75725206736d6f6b6572', '\x03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8', '\xe6be7d87370dbb1d47a3a4345c219422d5244fb7fbecd4c50f2f2ce56567ba952afeb70a6feebb568d7a4451036b039a976eec5e6659f7f006f762249e5cdf05', true);
INSERT INTO askance.studies OVERRIDING SYSTEM VALUE VALUES (7, '\x46277959653f97462ebee5d5e6948657bc0a2c99d4471e65aab8269252716afa', '\x0a100000000000000000000000000000000512046d65616e180222100a06636f6c756d6e1206736d6f6b65722a340a06706572736f6e10011a0a0a06736d6f6b657212001a1c0a06636f6c6f757222120a037265640a05677265656e0a04626c7565308094ebdc033880a19fab06420d6b65707420666f7220657665725206636f6c6f75725206736d6f6b657262070807100218fb15', '\x03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8', '\xdf59955620a9cded393f23389d2e5bbdee0bc21a9c4075ba00a208cabf5d7b5f9a68d03279d01018e0170c08776646184462b14c60ad6de8fa5c4c8c5d73d203', false);
INSERT INTO askance.studies OVERRIDING SYSTEM VALUE VALUES (10, '\x26b24bd387913827dacd5376b68a7718835fe55174aa28db068535aa92054063', '\x0a100000000000000000000000000000000412046d65616e180222100a06636f6c756d6e1206736d6f6b65722a340a06706572736f6e10011a0a0a06736d6f6b657212001a1c0a06636f6c6f757222120a037265640a05677265656e0a04626c75653080a8d6b9073880ff9bad06420d6b65707420666f7220657665725206636f6c6f75725206736d6f6b6572', '\x03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8', '\x8813711f11bbbc66a4bbd052d70f2235e36a467275a34ca1966079803598f31a43674397e72d063160170d95da719c0b070df4b8974b08aceaf3802283c84407', false);
INSERT INTO askance.submissions VALUES (1, 1700000000);
INSERT INTO askance.submissions VALUES (3, 1700000000);
INSERT INTO askance.submissions VALUES (5, 1700000000);
INSERT INTO askance.submissions VALUES (7, 1700000000);
INSERT INTO askance.submissions VALUES (10, 1701209600);
INSERT INTO askance.transcript_lines VALUES (1, 0, 0, '{"beta":"1/100","cohort_seed":"8b2c5730d044c3033a80eb469d3983e1533c090c30a17864d520b966ffa27a8c","confidence":"19/20","format":"askance transcript v2","kind":"header","learner":"frequency","learner_version":1,"population":12,"study":"a8431d805c213d034fb92e353369132acfe941432e892a54bcc368f334977287"}');
INSERT INTO askance.transcript_lines VALUES (1, 0, 1, '{"allocation":"fresh","groups":[{"nano_nats":1000000000,"payload":"0a20a8431d805c213d034fb92e353369132acfe941432e892a54bcc368f33497728722100803120a08021a06636f6c6f757220042a0e120c080310cd90c587aaa9f3a036","question":0,"start":0,"stop":12}],"kind":"asked","questions":["0803120a08021a06636f6c6f75722004"],"round":0}');
INSERT INTO askance.transcript_lines VALUES (1, 0, 2, '{"kind":"closed","round":0,"tallies":[{"answered":12,"asked":12,"counts":[3,5,4],"refusals":{},"root":"373da06674efb5c1818ead985e559bb88975be50d76b71a133400dc2f66c14f5"}]}');
INSERT INTO askance.transcript_lines VALUES (3, 0, 0, '{"beta":"1/100","cohort_seed":"bc593dcc1ca708977e5eb5c0108b3774e3ba4b3181f38d33af769116e2fdc83f","confidence":"19/20","format":"askance transcript v2","kind":"header","learner":"mean","learner_version":2,"population":12,"study":"4f08ace59909d3d92bea5e6f5caefc3735d531892f99a42574449089f61e3826"}');
INSERT INTO askance.transcript_lines VALUES (3, 0, 1, '{"allocation":"fresh","groups":[{"decode":["-18072952749627097161395075953674662621420960253354855231607591012982/6739986666787657960264740118238092989872080316592433356307354629027","-6014869694565754137220541214075709793367879346066825683888556169426/2246662222262552653421580039412697663290693438864144452102451543009","-18031220774182356700288654735055349481686222024571804000401564240502/6739986666787657960264740118238092989872080316592433356307354629027","-13184041412995357932681118158916402375400562617186479948915442322038/6739986666787657960264740118238092989872080316592433356307354629027","-10990896257534448340267970984568082728372714940559456092749256914/2246662222262552653421580039412697663290693438864144452102451543009","30412167837866958164301299013094812263247529548896763174752220554/6739986666787657960264740118238092989872080316592433356307354629027","12907267037944740236133608996203356319936215154239291940876076966/962855238112522565752105731176870427124582902370347622329622089861","4397064404282493737754161166028204679603646196246213999727442175790/2246662222262552653421580039412697663290693438864144452102451543009","857668695338064363511779987707807214639066215075902659927406024674/320951746037507521917368577058956809041527634123449207443207363287","2576651841087781553610463423816690256690299825459355759606236202918/962855238112522565752105731176870427124582902370347622329622089861","6027037392495317054827860670539394922429041502431998005309734954798/2246662222262552653421580039412697663290693438864144452102451543009","12030671978619973765141376680056914523441935214191001288657301302728/6739986666787657960264740118238092989872080316592433356307354629027","4067956022666357838472576204546246246054272025446710176259372885144/2246662222262552653421580039412697663290693438864144452102451543009","12097231368950484120927574351553541745094025654376130393538854284744/6739986666787657960264740118238092989872080316592433356307354629027","-3479444650874452851649274671202851778849058737838311647892592759352/6739986666787657960264740118238092989872080316592433356307354629027","-3118304257958200404414719378394351412043891166792848801257030277992/2246662222262552653421580039412697663290693438864144452102451543009","-9592262078344185030472740245972867152352843213239925247968279892536/6739986666787657960264740118238092989872080316592433356307354629027","-1347588601308952781639104211636664987696643241620038305708649045512/962855238112522565752105731176870427124582902370347622329622089861","-1156040715757643335099706635965307831982414838844194450658108234600/2246662222262552653421580039412697663290693438864144452102451543009","580145668245906360926226914174212983188192097705576859533877764264/320951746037507521917368577058956809041527634123449207443207363287","1730692043158305641853043013307014652842893678748695644466779431416/962855238112522565752105731176870427124582902370347622329622089861","4047899619675774785764053577622954872769908945314576732217328673944/2246662222262552653421580039412697663290693438864144452102451543009"],"nano_nats":1000000000,"payload":"0a204f08ace59909d3d92bea5e6f5caefc3735d531892f99a42574449089f61e382622120802120a08021a06736d6f6b6572200428042ab3020ab0020803100b1aa90280a8bdbc9cceffd506efdeacc4e09c9bd95b80e0d19a958af9f722d1c8dab4f2aae5cd18809e8b83bce892be1a80ccbcccdd85c6db0580e2f3e6ca91b7e5078087f2bf99c987860980c8f892a0e8d0ce1ac0edaea88fba84dc0280c894fecdf499db13c0e1aeb4a4bf95ba0280f4bbffc8c5f0dd218087c3c290c491ed0c808c80839997df8609809e8b83bce892be1a80ccbcccdd85c6db0580e2f3e6ca91b7e5079487bbdb8b98f7cb1880f0fa92e5c897ac48c0b4f7dbb3a087b207ec9fe985e09ee3ca35c0e1aeb4a4bf95ba0280f4bbffc8c5f0dd218087c3c290c491ed0c9fe5dab4f2aae5cd1880c0f4dce9ffafff47e2a69ede9dccc6c40fff87ed84ff90a6971580d2bbdb8b98f7cb1880c8f892a0e8d0ce1ac0edaea88fba84dc0280c894fecdf499db13","question":0,"start":0,"stop":12}],"kind":"asked","questions":["0802120a08021a06736d6f6b657220042804"],"round":0}');
INSERT INTO askance.transcript_lines VALUES (3, 0, 2, '{"kind":"closed","round":0,"tallies":[{"answered":12,"asked":12,"counts":[1,5,1,1,1,0,1,0,0,0,2],"refusals":{},"root":"ee7aad1c5efa982f5ca18268a8bd26afec1ae1e612b9f34c9454c0a09621fb5d"}]}');
INSERT INTO askance.transcript_lines VALUES (5, 0, 0, '{"beta":"1/100","cohort_seed":"a531aaf54611b4e24e2915278a26332a23c3c03fb7b9e81760e937cb3f01fbff","confidence":"19/20","format":"askance transcript v2","kind":"header","learner":"mean","learner_version":2,"population":12,"study":"31fdc19bca9c3c785e7ed8d52dc7c4a9359805bf7feeb803f863380a28a898d4"}');
INSERT INTO askance.transcript_lines VALUES (5, 0, 1, '{"allocation":"fresh","groups":[{"decode":["-18072952749627097161395075953674662621420960253354855231607591012982/6739986666787657960264740118238092989872080316592433356307354629027","-6014869694565754137220541214075709793367879346066825683888556169426/2246662222262552653421580039412697663290693438864144452102451543009","-18031220774182356700288654735055349481686222024571804000401564240502/6739986666787657960264740118238092989872080316592433356307354629027","-13184041412995357932681118158916402375400562617186479948915442322038/6739986666787657960264740118238092989872080316592433356307354629027","-10990896257534448340267970984568082728372714940559456092749256914/2246662222262552653421580039412697663290693438864144452102451543009","30412167837866958164301299013094812263247529548896763174752220554/6739986666787657960264740118238092989872080316592433356307354629027","12907267037944740236133608996203356319936215154239291940876076966/962855238112522565752105731176870427124582902370347622329622089861","4397064404282493737754161166028204679603646196246213999727442175790/2246662222262552653421580039412697663290693438864144452102451543009","857668695338064363511779987707807214639066215075902659927406024674/320951746037507521917368577058956809041527634123449207443207363287","2576651841087781553610463423816690256690299825459355759606236202918/962855238112522565752105731176870427124582902370347622329622089861","6027037392495317054827860670539394922429041502431998005309734954798/2246662222262552653421580039412697663290693438864144452102451543009","12030671978619973765141376680056914523441935214191001288657301302728/6739986666787657960264740118238092989872080316592433356307354629027","4067956022666357838472576204546246246054272025446710176259372885144/2246662222262552653421580039412697663290693438864144452102451543009","12097231368950484120927574351553541745094025654376130393538854284744/6739986666787657960264740118238092989872080316592433356307354629027","-3479444650874452851649274671202851778849058737838311647892592759352/6739986666787657960264740118238092989872080316592433356307354629027","-3118304257958200404414719378394351412043891166792848801257030277992/2246662222262552653421580039412697663290693438864144452102451543009","-9592262078344185030472740245972867152352843213239925247968279892536/6739986666787657960264740118238092989872080316592433356307354629027","-1347588601308952781639104211636664987696643241620038305708649045512/962855238112522565752105731176870427124582902370347622329622089861","-1156040715757643335099706635965307831982414838844194450658108234600/2246662222262552653421580039412697663290693438864144452102451543009","580145668245906360926226914174212983188192097705576859533877764264/320951746037507521917368577058956809041527634123449207443207363287","1730692043158305641853043013307014652842893678748695644466779431416/962855238112522565752105731176870427124582902370347622329622089861","4047899619675774785764053577622954872769908945314576732217328673944/2246662222262552653421580039412697663290693438864144452102451543009"],"nano_nats":1000000000,"payload":"0a2031fdc19bca9c3c785e7ed8d52dc7c4a9359805bf7feeb803f863380a28a898d422120802120a08021a06736d6f6b6572200428042ab3020ab0020803100b1aa90280a8bdbc9cceffd506efdeacc4e09c9bd95b80e0d19a958af9f722d1c8dab4f2aae5cd18809e8b83bce892be1a80ccbcccdd85c6db0580e2f3e6ca91b7e5078087f2bf99c987860980c8f892a0e8d0ce1ac0edaea88fba84dc0280c894fecdf499db13c0e1aeb4a4bf95ba0280f4bbffc8c5f0dd218087c3c290c491ed0c808c80839997df8609809e8b83bce892be1a80ccbcccdd85c6db0580e2f3e6ca91b7e5079487bbdb8b98f7cb1880f0fa92e5c897ac48c0b4f7dbb3a087b207ec9fe985e09ee3ca35c0e1aeb4a4bf95ba0280f4bbffc8c5f0dd218087c3c290c491ed0c9fe5dab4f2aae5cd1880c0f4dce9ffafff47e2a69ede9dccc6c40fff87ed84ff90a6971580d2bbdb8b98f7cb1880c8f892a0e8d0ce1ac0edaea88fba84dc0280c894fecdf499db13","question":0,"start":0,"stop":12}],"kind":"asked","questions":["0802120a08021a06736d6f6b657220042804"],"round":0}');
INSERT INTO askance.transcript_lines VALUES (7, 2811, 0, '{"beta":"1/100","cohort_seed":"74fac40f6f07db2ecc79d419fe4abfa11ae61cb862c088a147cbaeb04271bf25","confidence":"19/20","epoch":2811,"format":"askance transcript v2","kind":"header","learner":"mean","learner_version":2,"population":12,"study":"46277959653f97462ebee5d5e6948657bc0a2c99d4471e65aab8269252716afa"}');
INSERT INTO askance.transcript_lines VALUES (7, 2811, 1, '{"allocation":"fresh","groups":[{"decode":["-18072952749627097161395075953674662621420960253354855231607591012982/6739986666787657960264740118238092989872080316592433356307354629027","-6014869694565754137220541214075709793367879346066825683888556169426/2246662222262552653421580039412697663290693438864144452102451543009","-18031220774182356700288654735055349481686222024571804000401564240502/6739986666787657960264740118238092989872080316592433356307354629027","-13184041412995357932681118158916402375400562617186479948915442322038/6739986666787657960264740118238092989872080316592433356307354629027","-10990896257534448340267970984568082728372714940559456092749256914/2246662222262552653421580039412697663290693438864144452102451543009","30412167837866958164301299013094812263247529548896763174752220554/6739986666787657960264740118238092989872080316592433356307354629027","12907267037944740236133608996203356319936215154239291940876076966/962855238112522565752105731176870427124582902370347622329622089861","4397064404282493737754161166028204679603646196246213999727442175790/2246662222262552653421580039412697663290693438864144452102451543009","857668695338064363511779987707807214639066215075902659927406024674/320951746037507521917368577058956809041527634123449207443207363287","2576651841087781553610463423816690256690299825459355759606236202918/962855238112522565752105731176870427124582902370347622329622089861","6027037392495317054827860670539394922429041502431998005309734954798/2246662222262552653421580039412697663290693438864144452102451543009","12030671978619973765141376680056914523441935214191001288657301302728/6739986666787657960264740118238092989872080316592433356307354629027","4067956022666357838472576204546246246054272025446710176259372885144/2246662222262552653421580039412697663290693438864144452102451543009","12097231368950484120927574351553541745094025654376130393538854284744/6739986666787657960264740118238092989872080316592433356307354629027","-3479444650874452851649274671202851778849058737838311647892592759352/6739986666787657960264740118238092989872080316592433356307354629027","-3118304257958200404414719378394351412043891166792848801257030277992/2246662222262552653421580039412697663290693438864144452102451543009","-9592262078344185030472740245972867152352843213239925247968279892536/6739986666787657960264740118238092989872080316592433356307354629027","-1347588601308952781639104211636664987696643241620038305708649045512/962855238112522565752105731176870427124582902370347622329622089861","-1156040715757643335099706635965307831982414838844194450658108234600/2246662222262552653421580039412697663290693438864144452102451543009","580145668245906360926226914174212983188192097705576859533877764264/320951746037507521917368577058956809041527634123449207443207363287","1730692043158305641853043013307014652842893678748695644466779431416/962855238112522565752105731176870427124582902370347622329622089861","4047899619675774785764053577622954872769908945314576732217328673944/2246662222262552653421580039412697663290693438864144452102451543009"],"nano_nats":1000000000,"payload":"0a2046277959653f97462ebee5d5e6948657bc0a2c99d4471e65aab8269252716afa22120802120a08021a06736d6f6b6572200428042ab3020ab0020803100b1aa90280a8bdbc9cceffd506efdeacc4e09c9bd95b80e0d19a958af9f722d1c8dab4f2aae5cd18809e8b83bce892be1a80ccbcccdd85c6db0580e2f3e6ca91b7e5078087f2bf99c987860980c8f892a0e8d0ce1ac0edaea88fba84dc0280c894fecdf499db13c0e1aeb4a4bf95ba0280f4bbffc8c5f0dd218087c3c290c491ed0c808c80839997df8609809e8b83bce892be1a80ccbcccdd85c6db0580e2f3e6ca91b7e5079487bbdb8b98f7cb1880f0fa92e5c897ac48c0b4f7dbb3a087b207ec9fe985e09ee3ca35c0e1aeb4a4bf95ba0280f4bbffc8c5f0dd218087c3c290c491ed0c9fe5dab4f2aae5cd1880c0f4dce9ffafff47e2a69ede9dccc6c40fff87ed84ff90a6971580d2bbdb8b98f7cb1880c8f892a0e8d0ce1ac0edaea88fba84dc0280c894fecdf499db1330fb15","question":0,"start":0,"stop":12}],"kind":"asked","questions":["0802120a08021a06736d6f6b657220042804"],"round":0}');
INSERT INTO askance.transcript_lines VALUES (7, 2811, 2, '{"kind":"closed","round":0,"tallies":[{"answered":12,"asked":12,"counts":[1,5,1,1,1,0,1,0,0,0,2],"refusals":{},"root":"ee7aad1c5efa982f5ca18268a8bd26afec1ae1e612b9f34c9454c0a09621fb5d"}]}');
INSERT INTO askance.transcript_lines VALUES (7, 2812, 0, '{"beta":"1/100","cohort_seed":"6a7daf5073eff26bb24d91468d70948cf04e66654925edb3d72e8953aab5862f","confidence":"19/20","epoch":2812,"format":"askance transcript v2","kind":"header","learner":"mean","learner_version":2,"population":12,"study":"46277959653f97462ebee5d5e6948657bc0a2c99d4471e65aab8269252716afa"}');
INSERT INTO askance.transcript_lines VALUES (7, 2812, 1, '{"allocation":"fresh","groups":[{"decode":["-18072952749627097161395075953674662621420960253354855231607591012982/6739986666787657960264740118238092989872080316592433356307354629027","-6014869694565754137220541214075709793367879346066825683888556169426/2246662222262552653421580039412697663290693438864144452102451543009","-18031220774182356700288654735055349481686222024571804000401564240502/6739986666787657960264740118238092989872080316592433356307354629027","-13184041412995357932681118158916402375400562617186479948915442322038/6739986666787657960264740118238092989872080316592433356307354629027","-10990896257534448340267970984568082728372714940559456092749256914/2246662222262552653421580039412697663290693438864144452102451543009","30412167837866958164301299013094812263247529548896763174752220554/6739986666787657960264740118238092989872080316592433356307354629027","12907267037944740236133608996203356319936215154239291940876076966/962855238112522565752105731176870427124582902370347622329622089861","4397064404282493737754161166028204679603646196246213999727442175790/2246662222262552653421580039412697663290693438864144452102451543009","857668695338064363511779987707807214639066215075902659927406024674/320951746037507521917368577058956809041527634123449207443207363287","2576651841087781553610463423816690256690299825459355759606236202918/962855238112522565752105731176870427124582902370347622329622089861","6027037392495317054827860670539394922429041502431998005309734954798/2246662222262552653421580039412697663290693438864144452102451543009","12030671978619973765141376680056914523441935214191001288657301302728/6739986666787657960264740118238092989872080316592433356307354629027","4067956022666357838472576204546246246054272025446710176259372885144/2246662222262552653421580039412697663290693438864144452102451543009","12097231368950484120927574351553541745094025654376130393538854284744/6739986666787657960264740118238092989872080316592433356307354629027","-3479444650874452851649274671202851778849058737838311647892592759352/6739986666787657960264740118238092989872080316592433356307354629027","-3118304257958200404414719378394351412043891166792848801257030277992/2246662222262552653421580039412697663290693438864144452102451543009","-9592262078344185030472740245972867152352843213239925247968279892536/6739986666787657960264740118238092989872080316592433356307354629027","-1347588601308952781639104211636664987696643241620038305708649045512/962855238112522565752105731176870427124582902370347622329622089861","-1156040715757643335099706635965307831982414838844194450658108234600/2246662222262552653421580039412697663290693438864144452102451543009","580145668245906360926226914174212983188192097705576859533877764264/320951746037507521917368577058956809041527634123449207443207363287","1730692043158305641853043013307014652842893678748695644466779431416/962855238112522565752105731176870427124582902370347622329622089861","4047899619675774785764053577622954872769908945314576732217328673944/2246662222262552653421580039412697663290693438864144452102451543009"],"nano_nats":1000000000,"payload":"0a2046277959653f97462ebee5d5e6948657bc0a2c99d4471e65aab8269252716afa22120802120a08021a06736d6f6b6572200428042ab3020ab0020803100b1aa90280a8bdbc9cceffd506efdeacc4e09c9bd95b80e0d19a958af9f722d1c8dab4f2aae5cd18809e8b83bce892be1a80ccbcccdd85c6db0580e2f3e6ca91b7e5078087f2bf99c987860980c8f892a0e8d0ce1ac0edaea88fba84dc0280c894fecdf499db13c0e1aeb4a4bf95ba0280f4bbffc8c5f0dd218087c3c290c491ed0c808c80839997df8609809e8b83bce892be1a80ccbcccdd85c6db0580e2f3e6ca91b7e5079487bbdb8b98f7cb1880f0fa92e5c897ac48c0b4f7dbb3a087b207ec9fe985e09ee3ca35c0e1aeb4a4bf95ba0280f4bbffc8c5f0dd218087c3c290c491ed0c9fe5dab4f2aae5cd1880c0f4dce9ffafff47e2a69ede9dccc6c40fff87ed84ff90a6971580d2bbdb8b98f7cb1880c8f892a0e8d0ce1ac0edaea88fba84dc0280c894fecdf499db1330fc15","question":0,"start":0,"stop":12}],"kind":"asked","questions":["0802120a08021a06736d6f6b657220042804"],"round":0}');
INSERT INTO askance.transcript_lines VALUES (7, 2812, 2, '{"kind":"closed","round":0,"tallies":[{"answered":12,"asked":12,"counts":[1,5,1,1,1,0,1,0,0,0,2],"refusals":{},"root":"ee7aad1c5efa982f5ca18268a8bd26afec1ae1e612b9f34c9454c0a09621fb5d"}]}');
INSERT INTO askance.transcript_lines VALUES (10, 0, 0, '{"beta":"1/100","cohort_seed":"24d48cf921e4c110fb9cda7418d3c40a4a72a7acde3016dbc3a9686de26b36de","confidence":"19/20","format":"askance transcript v2","kind":"header","learner":"mean","learner_version":2,"population":14,"study":"26b24bd387913827dacd5376b68a7718835fe55174aa28db068535aa92054063"}');
INSERT INTO askance.transcript_lines VALUES (10, 0, 1, '{"allocation":"fresh","groups":[{"decode":["-15436213391816678820004886483776781474903982899098396591300401701/10531229166855715422796098270875578608317044365124441149672965347","-76344634613735126074353195800493951424612305401999692407508386489/52656145834278577113980491354377893041585221825622205748364826735","-64388045704062036465852881329385536765668231872063110754432533177/52656145834278577113980491354377893041585221825622205748364826735","-63636358159819432218488115352540257667154206870075273508545708729/52656145834278577113980491354377893041585221825622205748364826735","-1563470249928187308332178573605060539713400502079/7522306547754082444854355907768270434512174546517457964052118105","12817584293930104568008945049605935855124008255005537563710727643/10531229166855715422796098270875578608317044365124441149672965347","76709741797720787460197601895551463220566109571880164193697709383/52656145834278577113980491354377893041585221825622205748364826735","15354876496469389553293866789528524263151849764271700617333974491/10531229166855715422796098270875578608317044365124441149672965347","15441633815468861535180418351008890908750019962495385145119483355/10531229166855715422796098270875578608317044365124441149672965347","13757240588203219248358953277751053327192521673188401430021780407/10531229166855715422796098270875578608317044365124441149672965347","69331141394254937905593223578501604512659862469915596303734309523/52656145834278577113980491354377893041585221825622205748364826735","7419056120310266753812963840767432619626474536842061706486252179/52656145834278577113980491354377893041585221825622205748364826735","7008301323500775441684936207926180808980128339572546735323644563/52656145834278577113980491354377893041585221825622205748364826735","-3846972260357749610562019361338465393715383308134965417874231787/7522306547754082444854355907768270434512174546517457964052118105","1645703597552470800051124963695600761930266332398983627279676343/10531229166855715422796098270875578608317044365124441149672965347","68051423285200848622150093945493047901100654988602658732224184979/52656145834278577113980491354377893041585221825622205748364826735","13873017762294869598725568954577195035307981732117075913989141431/10531229166855715422796098270875578608317044365124441149672965347","13896224378886967841450893768639254188865650655211436258978149303/10531229166855715422796098270875578608317044365124441149672965347"],"nano_nats":2000000000,"payload":"0a2026b24bd387913827dacd5376b68a7718835fe55174aa28db068535aa9205406322120802120a08021a06736d6f6b6572200428042afb010af801080310091af10180e094b5b5dcb880508090fdc8b385dee75e80aa85fbb68ce5cf1bc8cfbcfcd8f3f7a00680aed1c589eaf2871380a69dbce0e9b1cc0480b3d4d8ebba8adb078092c5c9d8e7ffa60fb8fda3e6d8a7dd508083bb8ab1abf2e90a80d0b3f7b8a8b2ea0c80e1f5e0b898c2de0398c9f6e1dac7b26ce8b1d2c589eaf2871380c4bcbd8e8bd2fb218090a5f9878acdfd3880c084d4c498938b7180bdecea9db4c1d4048083bb8ab1abf2e90a80d0b3f7b8a8b2ea0c80aa85fbb68ce5cf1bc0d3bcfcd8f3f7a00688a9d5c0dad6c4ec8c0180c4bcbd8e8bd2fb2180b3d4d8ebba8adb078092c5c9d8e7ffa60fb8fda3e6d8a7dd50","question":0,"start":0,"stop":14}],"kind":"asked","questions":["0802120a08021a06736d6f6b657220042804"],"round":0}');
SELECT pg_catalog.setval('askance.requests_number_seq', 10, true);
SELECT pg_catalog.setval('askance.studies_number_seq', 11, true);
ALTER TABLE ONLY askance.audit
    ADD CONSTRAINT audit_nonce_key UNIQUE (nonce);
ALTER TABLE ONLY askance.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (number);
ALTER TABLE ONLY askance.certificates
    ADD CONSTRAINT certificates_pkey PRIMARY KEY (fingerprint);
ALTER TABLE ONLY askance.conclusions
    ADD CONSTRAINT conclusions_pkey PRIMARY KEY (study, epoch);
ALTER TABLE ONLY askance.device_tags
    ADD CONSTRAINT device_tags_pkey PRIMARY KEY (tag, ordinal);
ALTER TABLE ONLY askance.devices
    ADD CONSTRAINT devices_device_id_key UNIQUE (device_id);
ALTER TABLE ONLY askance.devices
    ADD CONSTRAINT devices_pkey PRIMARY KEY (ordinal);
ALTER TABLE ONLY askance.empty_places
    ADD CONSTRAINT empty_places_pkey PRIMARY KEY (ordinal);
ALTER TABLE ONLY askance.enrolment_tokens
    ADD CONSTRAINT enrolment_tokens_pkey PRIMARY KEY (token_id);
ALTER TABLE ONLY askance.evidence
    ADD CONSTRAINT evidence_pkey PRIMARY KEY (request, ordinal, place);
ALTER TABLE ONLY askance.gateways
    ADD CONSTRAINT gateways_gateway_id_key UNIQUE (gateway_id);
ALTER TABLE ONLY askance.gateways
    ADD CONSTRAINT gateways_pkey PRIMARY KEY (number);
ALTER TABLE ONLY askance.holder
    ADD CONSTRAINT holder_pkey PRIMARY KEY (single);
ALTER TABLE ONLY askance.leases
    ADD CONSTRAINT leases_pkey PRIMARY KEY (study);
ALTER TABLE ONLY askance.paused_studies
    ADD CONSTRAINT paused_studies_pkey PRIMARY KEY (study);
ALTER TABLE ONLY askance.population
    ADD CONSTRAINT population_pkey PRIMARY KEY (single);
ALTER TABLE ONLY askance.register
    ADD CONSTRAINT register_pkey PRIMARY KEY (single);
ALTER TABLE ONLY askance.replicas
    ADD CONSTRAINT replicas_pkey PRIMARY KEY (name);
ALTER TABLE ONLY askance.reports
    ADD CONSTRAINT reports_pkey PRIMARY KEY (part, request, ordinal);
ALTER TABLE ONLY askance.reports_0
    ADD CONSTRAINT reports_0_pkey PRIMARY KEY (part, request, ordinal);
ALTER TABLE ONLY askance.reports_10
    ADD CONSTRAINT reports_10_pkey PRIMARY KEY (part, request, ordinal);
ALTER TABLE ONLY askance.reports_1
    ADD CONSTRAINT reports_1_pkey PRIMARY KEY (part, request, ordinal);
ALTER TABLE ONLY askance.reports_3
    ADD CONSTRAINT reports_3_pkey PRIMARY KEY (part, request, ordinal);
ALTER TABLE ONLY askance.reports_5
    ADD CONSTRAINT reports_5_pkey PRIMARY KEY (part, request, ordinal);
ALTER TABLE ONLY askance.reports_7
    ADD CONSTRAINT reports_7_pkey PRIMARY KEY (part, request, ordinal);
ALTER TABLE ONLY askance.requests
    ADD CONSTRAINT requests_digest_key UNIQUE (digest);
ALTER TABLE ONLY askance.requests
    ADD CONSTRAINT requests_pkey PRIMARY KEY (number);
ALTER TABLE ONLY askance.restored_sequences
    ADD CONSTRAINT restored_sequences_pkey PRIMARY KEY (ordinal);
ALTER TABLE ONLY askance.retention
    ADD CONSTRAINT retention_pkey PRIMARY KEY (study);
ALTER TABLE ONLY askance.rounds
    ADD CONSTRAINT rounds_pkey PRIMARY KEY (study, epoch, number);
ALTER TABLE ONLY askance.schema_steps
    ADD CONSTRAINT schema_steps_pkey PRIMARY KEY (number);
ALTER TABLE ONLY askance.studies
    ADD CONSTRAINT studies_digest_key UNIQUE (digest);
ALTER TABLE ONLY askance.studies
    ADD CONSTRAINT studies_pkey PRIMARY KEY (number);
ALTER TABLE ONLY askance.study_users
    ADD CONSTRAINT study_users_pkey PRIMARY KEY (study, epoch);
ALTER TABLE ONLY askance.submissions
    ADD CONSTRAINT submissions_pkey PRIMARY KEY (study);
ALTER TABLE ONLY askance.tagged_populations
    ADD CONSTRAINT tagged_populations_pkey PRIMARY KEY (study);
ALTER TABLE ONLY askance.transcript_lines
    ADD CONSTRAINT transcript_lines_pkey PRIMARY KEY (study, epoch, number);
CREATE INDEX certificates_by_holder ON askance.certificates USING btree (gateway, ordinal);
CREATE INDEX device_tags_by_ordinal ON askance.device_tags USING btree (ordinal);
CREATE INDEX devices_by_gateway ON askance.devices USING btree (gateway) WHERE (gateway IS NOT NULL);
CREATE INDEX devices_changed ON askance.devices USING btree (changed) WHERE (changed > 0);
CREATE INDEX devices_revoked ON askance.devices USING btree (ordinal) WHERE (state = 1);
CREATE INDEX empty_places_changed ON askance.empty_places USING btree (changed);
CREATE INDEX ended_studies ON askance.conclusions USING btree (state, study, max_asked) WHERE (epoch = 0);
CREATE INDEX reports_by_arrival ON ONLY askance.reports USING btree (request, arrived);
CREATE INDEX reports_0_request_arrived_idx ON askance.reports_0 USING btree (request, arrived);
CREATE INDEX reports_10_request_arrived_idx ON askance.reports_10 USING btree (request, arrived);
CREATE INDEX reports_1_request_arrived_idx ON askance.reports_1 USING btree (request, arrived);
CREATE INDEX reports_3_request_arrived_idx ON askance.reports_3 USING btree (request, arrived);
CREATE INDEX reports_5_request_arrived_idx ON askance.reports_5 USING btree (request, arrived);
CREATE INDEX reports_7_request_arrived_idx ON askance.reports_7 USING btree (request, arrived);
CREATE INDEX requests_by_study ON askance.requests USING btree (study);
CREATE INDEX studies_by_key ON askance.studies USING btree (public_key, number);
ALTER INDEX askance.reports_pkey ATTACH PARTITION askance.reports_0_pkey;
ALTER INDEX askance.reports_by_arrival ATTACH PARTITION askance.reports_0_request_arrived_idx;
ALTER INDEX askance.reports_pkey ATTACH PARTITION askance.reports_10_pkey;
ALTER INDEX askance.reports_by_arrival ATTACH PARTITION askance.reports_10_request_arrived_idx;
ALTER INDEX askance.reports_pkey ATTACH PARTITION askance.reports_1_pkey;
ALTER INDEX askance.reports_by_arrival ATTACH PARTITION askance.reports_1_request_arrived_idx;
ALTER INDEX askance.reports_pkey ATTACH PARTITION askance.reports_3_pkey;
ALTER INDEX askance.reports_by_arrival ATTACH PARTITION askance.reports_3_request_arrived_idx;
ALTER INDEX askance.reports_pkey ATTACH PARTITION askance.reports_5_pkey;
ALTER INDEX askance.reports_by_arrival ATTACH PARTITION askance.reports_5_request_arrived_idx;
ALTER INDEX askance.reports_pkey ATTACH PARTITION askance.reports_7_pkey;
ALTER INDEX askance.reports_by_arrival ATTACH PARTITION askance.reports_7_request_arrived_idx;
CREATE TRIGGER audit_is_not_changed BEFORE DELETE OR UPDATE OR TRUNCATE ON askance.audit FOR EACH STATEMENT EXECUTE FUNCTION askance.audit_refuses();
ALTER TABLE ONLY askance.conclusions
    ADD CONSTRAINT conclusions_study_fkey FOREIGN KEY (study) REFERENCES askance.studies(number);
ALTER TABLE ONLY askance.device_tags
    ADD CONSTRAINT device_tags_ordinal_fkey FOREIGN KEY (ordinal) REFERENCES askance.devices(ordinal);
ALTER TABLE ONLY askance.devices
    ADD CONSTRAINT devices_gateway_fkey FOREIGN KEY (gateway) REFERENCES askance.gateways(number);
ALTER TABLE ONLY askance.evidence
    ADD CONSTRAINT evidence_request_fkey FOREIGN KEY (request) REFERENCES askance.requests(number);
ALTER TABLE ONLY askance.leases
    ADD CONSTRAINT leases_study_fkey FOREIGN KEY (study) REFERENCES askance.studies(number);
ALTER TABLE ONLY askance.paused_studies
    ADD CONSTRAINT paused_studies_study_fkey FOREIGN KEY (study) REFERENCES askance.studies(number);
ALTER TABLE ONLY askance.requests
    ADD CONSTRAINT requests_study_fkey FOREIGN KEY (study) REFERENCES askance.studies(number);
ALTER TABLE ONLY askance.retention
    ADD CONSTRAINT retention_study_fkey FOREIGN KEY (study) REFERENCES askance.studies(number);
ALTER TABLE ONLY askance.rounds
    ADD CONSTRAINT rounds_study_fkey FOREIGN KEY (study) REFERENCES askance.studies(number);
ALTER TABLE ONLY askance.submissions
    ADD CONSTRAINT submissions_study_fkey FOREIGN KEY (study) REFERENCES askance.studies(number);
ALTER TABLE ONLY askance.transcript_lines
    ADD CONSTRAINT transcript_lines_study_fkey FOREIGN KEY (study) REFERENCES askance.studies(number);
