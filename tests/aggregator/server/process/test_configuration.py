"""A configuration is read whole or refused, with the place of the error."""

from __future__ import annotations

import re
from ipaddress import ip_network
from pathlib import Path

import pytest

from askance_aggregator.server.callers import Caller, Role
from askance_aggregator.server.devices import PeerLimits, Settings
from askance_aggregator.server.process.configuration import (
    CallerSettings,
    Configuration,
    ConnectSettings,
    DevicePresence,
    DeviceTls,
    StudyLimits,
    TlsFiles,
    read_configuration,
)
from askance_aggregator.server.process.declared_file import key_paths, variable_of
from askance_aggregator.server.process.home import configuration_text
from askance_aggregator.server.studies import KEEP_ALL, KeepLimits
from askance_aggregator.server.studies.quotas import Quota, Quotas
from askance_aggregator.store import PostgresqlLocation, SqliteLocation
from askance_aggregator.studies.keep import Keep
from askance_client.addresses import Address
from askance_client.errors import InvalidParameter

LEAST = 'listen = "127.0.0.1:7443"\nstore = "sqlite:///store.sqlite"\n'
KEY = "ab" * 32
TLS = (
    "[tls]\ncertificate='a'\nkey='b'\n"
    "[tls.devices]\nlisten='127.0.0.1:7445'\nauthority='c'\nauthority_key='d'"
)
WHOLE = f"""
listen = "[::]:7443"
store = "sqlite:////data/store.sqlite"
[tls]
certificate = "server.pem"
key = "keys/server.key"
[tls.devices]
listen = "[::]:7445"
authority = "devices-ca.pem"
authority_key = "devices-ca.key"
life_s = 86400
require_certificates = false
advertised = "devices.example.org:443"
[connect]
origins = ["https://ask.example.org", "http://localhost:8000"]
check_in_every_s = 90
[devices]
seen_within_days = 30
lapse_after_days = 400
[enrolment]
key = "enrolment.key"
[analysts]
keys = ["{KEY}"]
[limits]
epsilon_per_user = "0.5"
open_studies = 3
streams = 4
check_ins = 5
members = 6
[metrics]
listen = "127.0.0.1:0"
[logs]
level = "warning"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "aggregator.toml"


def test_what_is_left_out_has_a_default(path: Path) -> None:
    path.write_text(LEAST)
    read = read_configuration(path)
    assert read.listen == Address("127.0.0.1", 7443)
    assert read.store == SqliteLocation(path.parent / "store.sqlite")
    assert (read.tls, read.enrolment_key, read.metrics) == (None, None, None)
    assert read.connect is None
    assert read.devices == DevicePresence(None, None)
    assert read.analysts == {}
    assert read.limits == StudyLimits(None, 64)
    service = read.limits.service
    assert (service.max_streams, service.max_check_ins) == (50_000, 1_000)
    assert (service.max_members, service.max_connections) == (1_000_000, 60_000)
    assert service.unproven == PeerLimits(1_024, 256)
    assert (service.handshake_s, service.first_message_s) == (10, 5)
    assert (service.idle_s, service.age_s, service.retry_ms) == (600, 86_400, 1_000)
    assert read.log_level == "info"


def test_everything_can_be_set(path: Path) -> None:
    path.write_text(WHOLE)
    read = read_configuration(path)
    assert read.listen == Address("::", 7443)
    assert read.store == SqliteLocation(Path("/data/store.sqlite"))
    folder = path.parent
    devices = DeviceTls(
        Address("::", 7445),
        folder / "devices-ca.pem",
        folder / "devices-ca.key",
        86_400,
        needed=False,
        advertised=Address("devices.example.org", 443),
    )
    assert read.tls == TlsFiles(folder / "server.pem", folder / "keys" / "server.key", devices)
    assert read.devices == DevicePresence(30, 400)
    assert read.connect == ConnectSettings(("https://ask.example.org", "http://localhost:8000"), 90)
    assert read.enrolment_key == folder / "enrolment.key"
    assert read.analysts == {bytes.fromhex(KEY): ""}
    service = Settings(max_streams=4, max_check_ins=5, max_members=6)
    assert read.limits == StudyLimits(500_000_000, 3, service)
    assert read.metrics == Address("127.0.0.1", 0)
    assert read.log_level == "warning"


def test_the_command_line_wins(path: Path) -> None:
    path.write_text(LEAST)
    read = read_configuration(
        path, listen=Address("localhost", 1), store=SqliteLocation(Path("other"))
    )
    assert read.listen == Address("localhost", 1)
    assert read.store == SqliteLocation(Path("other"))


def test_a_password_is_in_a_file_of_its_own(path: Path) -> None:
    url = "postgresql://askance@db.example.org/askance?sslmode=verify-full"
    path.write_text(
        f'listen = "127.0.0.1:1"\nstore = "{url}"\nstore_password_file = "secrets/password"\n'
    )
    expected = PostgresqlLocation(url, path.parent / "secrets" / "password")
    assert read_configuration(path).store == expected


def test_no_file_says_how_to_make_one(path: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"got no file \(askance aggregator init"):
        read_configuration(path)


ORIGIN = "expected an origin as browsers write it, https://HOST or https://HOST:PORT, got "
HOOK = "[[webhooks]]\nname = 'a'\nurl = 'https://a.example/'\nsecret = 's'\n"
BAD = {
    "": "listen: expected a value, got none",
    'listen = "127.0.0.1:1"': "store: expected a value, got none",
    "listen = [": "expected TOML, got other text",
    LEAST
    + 'colour = "red"': "colour: expected one of analysts, approval, callers, connect, devices",
    LEAST + "[limits]\nrounds = 7": "limits.rounds: expected one of age_s, calls, calls_per_caller",
    LEAST + '[limits]\ntrusted_proxies = ["proxy"]': "limits.trusted_proxies: expected addresses",
    LEAST + "[limits]\nstreams = 0": "limits.streams: expected a whole number of 1 or more",
    LEAST + '[limits]\ncheck_ins = "5"': "limits.check_ins: expected a whole number",
    LEAST
    + "[limits]\nexports = 3": "limits.exports_per_caller: expected at most exports (3), got 4",
    LEAST + "[limits]\nopen_studies = true": "limits.open_studies: expected a whole number",
    LEAST + "[limits]\nepsilon_per_user = 0.5": "limits.epsilon_per_user: expected a text",
    LEAST + '[limits]\nepsilon_per_user = "-1"': "limits.epsilon_per_user: expected a positive",
    LEAST + "limits = 3": "limits: expected a table, got 3",
    LEAST + "[tls]\ncertificate = 'server.pem'": "tls.key: expected a value, got none",
    LEAST + f"plaintext = true\n{TLS}": "plaintext: expected no such key",
    LEAST + "[tls]\ncertificate='a'\nkey='b'": "tls.devices: expected a table of that name",
    LEAST + f"{TLS}\nadvertised='a:65536'": "tls.devices.advertised: expected HOST:PORT, got 'a:6",
    LEAST + "[connect]": "connect: expected [tls] beside it, got plain text",
    LEAST + "[connect]\norigins = ['ask.example.org']": f"connect.origins: {ORIGIN}",
    LEAST + "[connect]\norigins = ['https://ask.example.org/']": f"connect.origins: {ORIGIN}",
    LEAST + "[connect]\norigins = ['https://Ask.example.org']": f"connect.origins: {ORIGIN}",
    LEAST + "[connect]\norigins = ['https://a@ask.example.org']": f"connect.origins: {ORIGIN}",
    LEAST + "[connect]\norigins = ['https://ask.example.org:443']": f"connect.origins: {ORIGIN}",
    LEAST + "[connect]\norigins = ['*']": f"connect.origins: {ORIGIN}",
    LEAST + "[connect]\norigins = ['null']": f"connect.origins: {ORIGIN}",
    LEAST + "[connect]\ncheck_in_every_s = 0": "connect.check_in_every_s: expected a whole number",
    LEAST + "[devices]\nseen_within_days = 0": "devices.seen_within_days: expected a whole number",
    LEAST + "[devices]\nseen_within_days = 30\nlapse_after_days = 29": "devices.lapse_after_days:"
    " expected seen_within_days (30) or more, got 29",
    LEAST + "plaintext = 1": "plaintext: expected true or false, got 1",
    LEAST + "[enrolment]": "enrolment.key: expected a value, got none",
    LEAST + "[enrolment]\nkey = ''": "enrolment.key: expected a text, got ''",
    LEAST + "[analysts]\nkeys = 'ab'": "analysts.keys: expected an array of texts, got 'ab'",
    LEAST + f"[analysts]\nkeys = ['{KEY}', '{KEY[2:]}']": "analysts.keys: expected 64 hexadecimal"
    " digits per key, got 62 characters at 1",
    LEAST + "[analysts]\nkeys = [7]": "analysts.keys: expected a text, got 7",
    LEAST + f"[analysts.keys]\nann = '{KEY[2:]}'": "analysts.keys: expected 64 hexadecimal digits"
    " per key, got 62 characters at ann",
    LEAST + f"[analysts.keys]\nann = '{KEY}'\nbob = '{KEY}'": "analysts.keys: expected one name"
    " per key, got 'ann' and 'bob'",
    LEAST
    + f"[analysts.keys]\n\"a\\u000ab\" = '{KEY}'": "analysts.keys: expected 1 to 64 printable",
    LEAST + f"[analysts.keys]\nann = '{KEY}'\n[[callers.keys]]\nname = 'ann'\nkey = '{'00' * 32}'\n"
    "role = 'viewer'": "callers.keys: expected distinct names, got 'ann', which is another key's",
    LEAST + HOOK * 2: "webhooks: expected distinct names, got a, a",
    LEAST + HOOK.replace("https", "http"): "webhooks[0]: url: expected https://HOST/PATH, or",
    LEAST + "[metrics]": "metrics.listen: expected a value, got none",
    LEAST + "[logs]\nlevel = 'loud'": "logs.level: expected one of debug, info, warning, error, got"
    " 'loud'",
    LEAST.replace("127.0.0.1:7443", "127.0.0.1"): "listen: expected HOST:PORT, got '127.0.0.1'",
    LEAST.replace("127.0.0.1:7443", "::1:7443"): "listen: expected HOST:PORT",
    LEAST.replace("127.0.0.1:7443", "a:65536"): "listen: expected HOST:PORT",
    LEAST.replace("127.0.0.1:7443", "a:-1"): "listen: expected HOST:PORT",
    LEAST.replace("127.0.0.1", "0.0.0.0"): "listen: expected a loopback address for plain text",
    LEAST.replace("127.0.0.1", "example.org"): "listen: expected a loopback address for plain text",
    LEAST.replace("sqlite:///store.sqlite", "postgresql://x:secret@y"): "store: expected no"
    " password in an address, got one in 'postgresql://x:...@y' (put it in a file:"
    " store_password_file in the configuration, or PGPASSFILE)",
    LEAST.replace("sqlite:///store.sqlite", "postgresql://y/z?sslmode=require&password=secret"): ""
    "store: expected no password in an address, got one in"
    " 'postgresql://y/z?sslmode=require&password=...'",
    LEAST.replace("sqlite:///store.sqlite", "mysql://x:secret@y"): "store: expected sqlite:///FILE"
    " or postgresql://[USER@]HOST[:PORT]/DATABASE, got 'mysql://x:...@y'",
    LEAST + "store_password_file = 'password'": "store_password_file: expected none for a SQLite"
    " store, got ",
    LEAST.replace("sqlite:///store.sqlite", "sqlite:///"): "store: expected sqlite:///FILE",
}


@pytest.mark.parametrize(("content", "said"), BAD.items(), ids=range(len(BAD)))
def test_what_is_wrong_is_named_with_its_place(content: str, said: str, path: Path) -> None:
    path.write_text(content)
    with pytest.raises(InvalidParameter) as caught:
        read_configuration(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: {said}")
    assert "secret" not in message


def test_the_secret_of_a_webhook_is_a_place_and_never_shown(path: Path) -> None:
    path.write_text(LEAST + HOOK.replace("'s'", "'whsec_AAAA'"))
    with pytest.raises(InvalidParameter) as caught:
        read_configuration(path)
    assert f"{path}: webhooks[0]: secret: expected the path of a secret's file" in str(caught.value)
    assert "whsec_" not in str(caught.value)
    path.write_text(LEAST + HOOK)
    (webhook,) = read_configuration(path).webhooks
    assert (webhook.secret, webhook.timeout_s, webhook.analyst) == (path.parent / "s", 10, None)


def test_plain_text_beyond_loopback_needs_a_word(path: Path) -> None:
    path.write_text("plaintext = true\n" + LEAST.replace("127.0.0.1", "0.0.0.0"))
    assert read_configuration(path).tls is None


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "localhost", "::1"])
def test_loopback_is_told_from_the_rest(host: str) -> None:
    assert Address(host, 1).is_loopback


@pytest.mark.parametrize(
    ("text", "here"),
    [
        ("0.0.0.0:7", "127.0.0.1:7"),
        ("[::]:7", "[::1]:7"),
        ("192.0.2.1:7", "192.0.2.1:7"),
        ("host:7", "host:7"),
    ],
)
def test_a_wildcard_is_called_at_loopback(text: str, here: str) -> None:
    assert str(Address.of(text).from_here) == here
    assert str(Address.of(text)) == text


def test_days_of_deletion_are_read_with_their_bounds(path: Path) -> None:
    assert read_configuration_of(path, LEAST).keep == KEEP_ALL
    days = "[keep]\nreports_days = 30\nmost_results_days = 90\ncollect_every_s = 5\n"
    kept = read_configuration_of(path, LEAST + days).keep
    assert kept == KeepLimits(Keep(30), Keep(None, 90), 5)


@pytest.mark.parametrize(
    ("days", "complaint"),
    [
        ("reports_days = -1", "reports_days: expected a whole number of days, got -1"),
        ("reports_days = 9\nresults_days = 8", "expected at most results_days, 8, got 9"),
        ("reports_days = 9\nmost_reports_days = 8", "reports_days: expected at most 8"),
        ("collect_every_s = 0", "expected"),
    ],
)
def test_days_that_contradict_each_other_are_refused(path: Path, days: str, complaint: str) -> None:
    with pytest.raises(InvalidParameter, match=complaint):
        read_configuration_of(path, f"{LEAST}[keep]\n{days}\n")


def read_configuration_of(path: Path, text: str) -> Configuration:
    path.write_text(text)
    return read_configuration(path)


def test_quotas_are_of_every_analyst_or_of_one(path: Path) -> None:
    assert read_configuration_of(path, LEAST).quotas == Quotas(Quota(8, 100))
    table = '[quotas]\nopen_studies = 4\nstudies_per_day = 10\nepsilon_per_day = "2"\n'
    own = f'[[quotas.analysts]]\nkey = "{KEY}"\nusers_per_study = 9\n'
    quotas = read_configuration_of(path, LEAST + table + own).quotas
    default = Quota(open_studies=4, studies_per_day=10, day_nano_nats=2 * 10**9)
    own_quota = Quota(open_studies=8, studies_per_day=100, users_per_study=9)
    assert quotas == Quotas(default, {bytes.fromhex(KEY): own_quota})
    with pytest.raises(InvalidParameter, match="expected distinct keys"):
        read_configuration_of(path, LEAST + table + own + own)
    with pytest.raises(InvalidParameter, match=r"quotas\.studies"):
        read_configuration_of(path, LEAST + "[quotas]\nstudies = 4\n")


def overridden(path: Path, text: str = "", **variables: str) -> Configuration:
    path.write_text(LEAST + text)
    environment = {f"ASKANCE_AGGREGATOR_{name}": value for name, value in variables.items()}
    return read_configuration(path, environment={"HOME": "/", **environment})


def test_the_environment_goes_before_the_file(path: Path) -> None:
    read = overridden(
        path,
        "[limits]\nstreams = 3\nmembers = 4\n",
        LISTEN="127.0.0.1:1",
        LIMITS_STREAMS="5",
        LIMITS_EPSILON_PER_USER="0.5",
        LIMITS_TRUSTED_PROXIES='["192.0.2.1"]',
        LOGS_LEVEL='"debug"',
        KEEP_MOST_REPORTS_DAYS="7",
        ENROLMENT_KEY_ENV="A_KEY",
        REPLICA="7",
    )
    assert read.listen == Address("127.0.0.1", 1)
    assert (read.limits.service.max_streams, read.limits.service.max_members) == (5, 4)
    assert read.limits.user_nano_nats == 500_000_000
    assert read.limits.service.unproven.trusted == {ip_network("192.0.2.1")}
    assert read.log_level == "debug"
    assert read.keep == KeepLimits(most=Keep(7))
    assert str(read.enrolment_key) == "$A_KEY"
    assert read.replica == "7"


def test_tables_that_the_file_lacks_come_from_the_environment(path: Path) -> None:
    read = overridden(
        path,
        TLS_CERTIFICATE="a",
        TLS_KEY="b",
        TLS_DEVICES_LISTEN="127.0.0.1:7445",
        TLS_DEVICES_AUTHORITY="c",
        TLS_DEVICES_AUTHORITY_KEY="d",
        TLS_DEVICES_REQUIRE_CERTIFICATES="false",
    )
    folder = path.parent
    devices = DeviceTls(Address("127.0.0.1", 7445), folder / "c", folder / "d", needed=False)
    assert read.tls == TlsFiles(folder / "a", folder / "b", devices)


@pytest.mark.parametrize(
    ("variables", "complaint"),
    [
        (
            {"LIMITS_STREAMS": "many"},
            "environment: ASKANCE_AGGREGATOR_LIMITS_STREAMS: expected a whole number of 1 or more,"
            " got 'many'",
        ),
        ({"LIMITS_STREAM": "3"}, "did you mean ASKANCE_AGGREGATOR_LIMITS_STREAMS"),
        ({"TLS_KEY": "b"}, "aggregator.toml: tls.certificate: expected a value, got none"),
        ({"QUOTAS_ANALYSTS_KEY": KEY}, "environment: expected one of"),
    ],
)
def test_a_mistake_in_the_environment_is_named(
    path: Path, variables: dict[str, str], complaint: str
) -> None:
    with pytest.raises(InvalidParameter) as caught:
        overridden(path, **variables)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    "secret", [KEY, "-----BEGIN PRIVATE KEY-----\nMC4C\n-----END PRIVATE KEY-----"]
)
@pytest.mark.parametrize("name", ["ENROLMENT_KEY", "ENROLMENT_KEY_FILE", "ENROLMENT_KEY_ENV"])
def test_a_secret_in_place_of_its_place_is_not_shown(path: Path, name: str, secret: str) -> None:
    """A configuration may name that variable as the one that holds the secret."""
    table = '[enrolment]\nkey_env = "ASKANCE_AGGREGATOR_ENROLMENT_KEY"\n'
    with pytest.raises(InvalidParameter) as caught:
        overridden(path, table, **{name: secret})
    assert f"ASKANCE_AGGREGATOR_{name}: expected the path of a secret's file" in str(caught.value)
    with pytest.raises(InvalidParameter) as in_file:
        overridden(path, f"[enrolment]\nkey = '''{secret}'''\n")
    for error in (caught.value, in_file.value):
        assert secret not in str(error)
        assert "MC4C" not in str(error)


def test_each_key_has_a_variable_of_its_own() -> None:
    variables = [variable_of(path) for path in key_paths(Configuration)]
    assert len(variables) == len(set(variables))
    assert "ASKANCE_AGGREGATOR_TLS_DEVICES_AUTHORITY_KEY_ENV" in variables


def test_the_template_has_every_key_and_reads_as_the_defaults(path: Path) -> None:
    text = configuration_text(Address("127.0.0.1", 0), Address("127.0.0.1", 0), bytes(32))
    path.write_text(text)
    read = read_configuration(path, environment={})
    assert (read.limits, read.keep, read.quotas) == (StudyLimits(), KEEP_ALL, Quotas(Quota(8, 100)))
    assert (read.log_level, read.telemetry, read.callers) == ("info", None, CallerSettings())
    assert read.tls is not None
    assert (read.tls.devices.life_s, read.tls.devices.needed) == (2_592_000, True)
    written = dict.fromkeys(re.findall(r"^(?:# )?(\w+) = ", text, re.MULTILINE))
    for key in key_paths(Configuration):
        name = key[-1].removesuffix("_env").removesuffix("_file")
        assert {name, key[-1]} & set(written), key


def test_what_the_template_shows_in_comments_can_be_turned_on(path: Path) -> None:
    text = configuration_text(Address("127.0.0.1", 0), Address("127.0.0.1", 0), bytes(32))
    shown = re.sub(r"^# (?=[\w.]+ = |\[+[\w.]+\]+$)", "", text, flags=re.MULTILINE)
    shown = shown.replace("64 hexadecimal digits", KEY).replace("plaintext = true", "")
    path.write_text(re.sub(r"^store_password_file.*", "", shown, flags=re.MULTILINE))
    read = read_configuration(path, environment={})
    assert read.callers.named == (Caller("ops", Role.OPERATOR, bytes.fromhex(KEY)),)
    assert read.keep == KeepLimits(Keep(90, 730), Keep(365, 3650), 3600)
    assert read.quotas.own == {bytes.fromhex(KEY): Quota(8, 100, 2 * 10**9, 100_000)}
    assert read.telemetry is not None
    assert read.telemetry.address == Address("127.0.0.1", 4317)
