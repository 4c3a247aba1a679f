"""An invalid setting ends the start with one sentence that says what to write instead."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugin import ROOT, generated_keys, our_settings

pytestmark = pytest.mark.once

PRODUCTION = {"DATABASE_URL": "postgres://u:hunter2@db.test/callerid"}


def manage(tmp_path: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name not in our_settings()}
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env={**clean, "CALLERID_DATA_DIR": str(tmp_path / "var"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def show(tmp_path: Path, expression: str, **environment: str) -> str:
    script = f"from django.conf import settings; print({expression})"
    done = manage(tmp_path, "shell", "--no-imports", "-c", script, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        (PRODUCTION, "SECRET_KEY, JWT_SIGNING_KEY, NUMBER_HASH_KEY"),
        ({**PRODUCTION, "SECRET_KEY": "s" * 50, "JWT_SIGNING_KEY": "j" * 50}, "set NUMBER_HASH_KEY"),
        ({"DATABASE_URL": "mysql://db.test/x", **generated_keys()}, "postgres://"),
        *(
            ({"DATABASE_URL": bad, **generated_keys()}, "special characters of the password percent-encoded")
            for bad in (
                "junk",
                "postgres://u:hunter2%@h/db",
                "postgres://u:hunter2%ff@h/db",
                "postgres://u:hunter2@h",
                "host=h dbname=db password=hunter2",
            )
        ),
        *(
            ({name: "2"}, f"{name} no longer exists: unset it. ")
            for name in ("WORKERS", "THREADS", "PIN_WORKERS", "MAX_QUEUED_REQUESTS", "QUEUE_TIMEOUT_S", "DRAIN_S")
        ),
        ({**PRODUCTION, "DATABASE_REPLICA_URL": "postgres://u:hunter2@h/db"}, "DATABASE_REPLICA_URL no longer exists"),
        ({"MAX_RUNNING_SEARCHES": "0"}, "MAX_RUNNING_SEARCHES must be a whole number from 1"),
        ({"MAX_WAITING_SEARCHES": "-1"}, "MAX_WAITING_SEARCHES must be a whole number from 0"),
        ({"BODY_TIMEOUT_S": "soon"}, "BODY_TIMEOUT_S must be a number from 0.1"),
        ({"JWT_SIGNING_KEY": "short"}, "at least 32 bytes"),
        ({"NUMBER_HASH_KEY": "short"}, "at least 32 bytes"),
        ({"JWT_SIGNING_KEY": "s" * 40, "SECRET_KEY": "s" * 40}, "three different keys"),
        ({"JWT_PREVIOUS_KEYS": "p" * 40 + ",short"}, "at least 32 bytes"),
        ({"RATE_LIMIT": "30"}, "RATE_LIMIT=30/m"),
        ({"RATE_LIMIT": "0/m"}, "RATE_LIMIT=30/m"),
        ({"RATE_LIMIT": "30/d"}, "RATE_LIMIT=30/m"),
        ({"RATE_LIMIT": "٣٠/m"}, "RATE_LIMIT=30/m"),
        ({"AUTH_FAILURE_RATE": "many"}, "AUTH_FAILURE_RATE=60/m"),
        ({"SEARCH_DEADLINE_S": "soon"}, "SEARCH_DEADLINE_S"),
        ({"SEARCH_DEADLINE_S": "0"}, "SEARCH_DEADLINE_S"),
        ({"SEARCH_DEADLINE_S": "nan"}, "SEARCH_DEADLINE_S"),
        ({"TRUSTED_PROXIES": "-1"}, "TRUSTED_PROXIES"),
        ({"TRUSTED_PROXIES": "yes"}, "TRUSTED_PROXIES"),
        ({"SEARCH_DEADLINE_S": "inf"}, "SEARCH_DEADLINE_S"),
        ({"TOKEN_DAYS": "0"}, "TOKEN_DAYS"),
        ({"INVITATION_DAYS": "31"}, "INVITATION_DAYS=3"),
        ({"PUBLIC_URL": "callerid.example.org"}, "PUBLIC_URL=https://callerid.example.org"),
        ({"PUBLIC_URL": "https://callerid.example.org/admin"}, "PUBLIC_URL=https://callerid.example.org"),
        ({"PUBLIC_URL": "https://user@callerid.example.org"}, "PUBLIC_URL=https://callerid.example.org"),
        ({"COMPLAINT_WINDOW_DAYS": "1000000"}, "COMPLAINT_WINDOW_DAYS"),
        ({"CHARGE_EMPTY": "maybe"}, "CHARGE_EMPTY"),
        ({"REDIS_URL": "localhost:6379"}, "redis://"),
        ({"REDIS_URL": "redis://h:abc"}, "redis://"),
        ({"REDIS_URL": "sentinel://:hunter2@s1,s2:abc/mymaster/0"}, "sentinel://:password@host1"),
        ({"REDIS_URL": "sentinel://s1:26379"}, "sentinel://:password@host1"),
        ({"CALLERID_DATA_DIR": "~nobody-here/x"}, "CALLERID_DATA_DIR"),
        ({"RATE_LIMIT": "9" * 5000 + "/m"}, "RATE_LIMIT=30/m"),
        ({"JWT_SIGNING_KEY": "k" * 40 + ",k"}, "no comma"),
        ({"ADMIN_PATH": "docs/admin"}, "ADMIN_PATH=back-office"),
        ({"ADMIN_PATH": "a//b"}, "ADMIN_PATH=back-office"),
        ({"ADMIN_PATH": "../x"}, "ADMIN_PATH=back-office"),
        ({"ADMIN_PATH": "/"}, "ADMIN_PATH=back-office"),
        ({"ADMIN_PATH": "bücher"}, "ADMIN_PATH=back-office"),
        ({"LOG_LEVEL": "loud"}, "LOG_LEVEL"),
        ({"REFRESH_SOURCES": "ftc,irs"}, "REFRESH_SOURCES names irs"),
        ({"REFRESH_FTC_URL": "https://mirror.test/file.csv"}, "file{day}"),
        *(
            ({"REFRESH_FCC_URL": bad}, "REFRESH_FCC_URL must be a URL")
            for bad in ("/srv/fcc.csv", "file:///srv/fcc.csv", "https://", "https://h:x/")
        ),
        *(
            ({"SOURCE_A_PRICE": bad}, "SOURCE_A_PRICE must be a price")
            for bad in ("free", "-1", "nan", "snan", "Infinity", "1e9", "twilio=", "twilio:1", "0.1,trestle=x")
        ),
        *(({"CREDIT_PRICE": bad}, "such as CREDIT_PRICE=0.02") for bad in ("free", "-1", "nan", "1e9", "a=0.1")),
        ({"SOURCE_B_PRICE": "-0.1"}, "SOURCE_B_PRICE must be a price"),
        *(
            ({"ALERT_WEBHOOK_SECRET": bad}, "ALERT_WEBHOOK_SECRET must be whsec_ and the Base64 of 24 to 64")
            for bad in ("short", "whsec_c2hvcnQ=", f"whsec_{'s' * 33}", "x" * 40)
        ),
        ({"ALERT_WEBHOOK_PREVIOUS_SECRET": "x"}, "ALERT_WEBHOOK_PREVIOUS_SECRET must be whsec_"),
        *(
            ({"ALERT_WEBHOOK_URLS": bad}, "ALERT_WEBHOOK_URLS must be URLs")
            for bad in ("hooks.example.org", "http://hooks.example.org/", "https://h/,ftp://h/", "https://")
        ),
        ({"ALERT_WEBHOOK_URLS": "https://hunter2.test/"}, "requires ALERT_WEBHOOK_SECRET. Create one with"),
        ({"ALERT_EMAILS": "ops"}, "ALERT_EMAILS must be e-mail addresses"),
        ({"ALERT_EMAILS": "ops@example.org"}, "ALERT_EMAILS is set, which requires a mail server"),
        ({"ALERT_SLOW_MS": "0"}, "ALERT_SLOW_MS must be a whole number"),
        ({"ALERT_DEGRADED_PERCENT": "101"}, "ALERT_DEGRADED_PERCENT must be a number from 0.1 to 100"),
        ({"SOURCE_A": "directory,nowhere"}, "there is no source 'nowhere'"),
        ({"SOURCE_B": "complaints,,directory"}, "SOURCE_B must name a source"),
        ({"SOURCE_A": "no.such.Thing"}, "cannot be imported"),
        ({"SOURCE_A": "json.JSONDecoder"}, "not a lookup.connectors.base.Connector"),
    ],
)
def test_an_invalid_setting_is_reported_and_nothing_starts(
    tmp_path: Path, environment: dict[str, str], told: str
) -> None:
    done = manage(tmp_path, "check", **environment)
    assert done.returncode != 0
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert not any(secret in done.stderr for secret in ("hunter2", "s" * 40, "j" * 50, "p" * 40))


def test_the_embedded_profile_needs_no_settings_and_is_secure(tmp_path: Path) -> None:
    assert manage(tmp_path, "check").returncode == 0
    assert show(tmp_path, "settings.DEBUG, settings.ALLOWED_HOSTS") == "False ['localhost', '127.0.0.1', '[::1]']"


def test_keys_are_generated_once_private_and_distinct(tmp_path: Path) -> None:
    manage(tmp_path, "check")
    path = tmp_path / "var" / "keys.json"
    kept = path.read_text()
    manage(tmp_path, "check")
    assert path.read_text() == kept
    assert len(set(json.loads(kept).values())) == 3
    assert [stat.S_IMODE(p.stat().st_mode) for p in (path.parent, path, path.parent / "callerid.sqlite3")] == [
        0o700,
        0o600,
        0o600,
    ]


def test_processes_starting_at_once_share_the_keys(tmp_path: Path) -> None:
    script = "from django.conf import settings; print(settings.JWT_SIGNING_KEY)"
    command = [sys.executable, "manage.py", "shell", "--no-imports", "-c", script]
    environment = {**os.environ, "CALLERID_DATA_DIR": str(tmp_path / "var"), "DATABASE_URL": "", "REDIS_URL": ""}
    for name in ("SECRET_KEY", "JWT_SIGNING_KEY", "NUMBER_HASH_KEY"):
        environment.pop(name, None)
    running = [
        subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(6)
    ]
    assert len({process.communicate()[0] for process in running}) == 1
    assert [path.name for path in (tmp_path / "var").glob(".keys-*")] == []


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "postgres://user:p%40ss@h1,h2:5433,[::1]:5434/db?target_session_attrs=read-write",
            {"HOST": "h1,h2,::1", "PORT": ",5433,5434", "PASSWORD": "p@ss", "target_session_attrs": "read-write"},
        ),
        (
            "postgresql://user:a+b%2520@[::1]:5434/d%20b",
            {"HOST": "::1", "PORT": "5434", "PASSWORD": "a+b%20", "NAME": "d b"},
        ),
        ("postgres:///db?host=/run/postgresql&user=u", {"HOST": "/run/postgresql", "USER": "u", "PORT": ""}),
    ],
)
def test_a_database_url_means_what_libpq_reads_in_it(tmp_path: Path, url: str, expected: dict[str, str]) -> None:
    shown = show(
        tmp_path,
        "__import__('json').dumps({**settings.DATABASES['default'].pop('OPTIONS'), **settings.DATABASES['default']})",
        **{**PRODUCTION, **generated_keys(), "DATABASE_URL": url},
    )
    found = json.loads(shown)
    assert {name: found[name] for name in expected} == expected


def test_the_redis_timeout_is_100_ms_by_default(tmp_path: Path) -> None:
    asked = ["shell", "--no-imports", "-c", "from django.conf import settings; print(settings.REDIS_TIMEOUT_S)"]
    assert manage(tmp_path, *asked, REDIS_TIMEOUT_S="").stdout.strip() == "0.1"
    assert manage(tmp_path, *asked, REDIS_TIMEOUT_S="0.3").stdout.strip() == "0.3"


def test_a_damaged_key_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "var").mkdir()
    (tmp_path / "var" / "keys.json").write_text("{}")
    done = manage(tmp_path, "check")
    assert done.returncode != 0
    assert "Restore it" in done.stderr
    assert (tmp_path / "var" / "keys.json").read_text() == "{}"


def test_an_unusable_data_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = manage(tmp_path, "check", CALLERID_DATA_DIR=str(tmp_path / "file" / "var"))
    assert done.returncode != 0
    assert "CALLERID_DATA_DIR" in done.stderr
    assert "Traceback" not in done.stderr


def test_sqlite_is_durable_and_waits_for_locks(tmp_path: Path) -> None:
    pragmas = (
        "[__import__('django.db').db.connection.cursor().execute('PRAGMA ' + name).fetchone()[0]"
        " for name in ('journal_mode', 'synchronous', 'busy_timeout', 'foreign_keys', 'secure_delete')]"
    )
    assert show(tmp_path, pragmas) == "['wal', 2, 20000, 1, 1]"


def test_production_is_strict(tmp_path: Path) -> None:
    shown = show(
        tmp_path,
        "settings.SESSION_COOKIE_SECURE, settings.CSRF_COOKIE_SECURE, settings.SECURE_HSTS_SECONDS > 0, "
        "settings.SECURE_PROXY_SSL_HEADER, settings.DEBUG",
        **PRODUCTION,
        **generated_keys(),
    )
    assert shown == "True True True None False"


def test_the_forwarded_scheme_is_trusted_only_behind_a_proxy(tmp_path: Path) -> None:
    shown = show(tmp_path, "settings.SECURE_PROXY_SSL_HEADER", TRUSTED_PROXIES="1", **PRODUCTION, **generated_keys())
    assert shown == "('HTTP_X_FORWARDED_PROTO', 'https')"


def test_credit_price_is_exact(tmp_path: Path) -> None:
    assert show(tmp_path, "settings.CREDIT_PRICE") == "None"
    assert show(tmp_path, "settings.CREDIT_PRICE", CREDIT_PRICE=" 0.02 ") == "0.02"


@pytest.mark.parametrize(
    ("given", "prices"),
    [
        ({}, "{}"),
        ({"SOURCE_A_PRICE": "0.008"}, "{'*': Decimal('0.008')}"),
        (
            {"SOURCE_A_PRICE": " twilio = 0.008 , trestle=7e-2,my.Source=0 "},
            "{'twilio': Decimal('0.008'), 'trestle': Decimal('0.07'), 'my.Source': Decimal('0')}",
        ),
        ({"SOURCE_A_PRICE": "0.1,twilio=0.008"}, "{'*': Decimal('0.1'), 'twilio': Decimal('0.008')}"),
    ],
)
def test_prices_apply_to_all_sources_or_to_each(tmp_path: Path, given: dict[str, str], prices: str) -> None:
    assert show(tmp_path, "settings.SOURCE_A_PRICE, settings.SOURCE_B_PRICE", **given) == f"{prices} {{}}"


def test_lists_may_contain_blanks_and_empty_means_unset(tmp_path: Path) -> None:
    shown = show(
        tmp_path,
        "settings.ALLOWED_HOSTS, settings.JWT_PREVIOUS_KEYS, settings.PORT",
        ALLOWED_HOSTS="a.test, b.test,",
        JWT_PREVIOUS_KEYS=f"${'p' * 39}, {'q' * 40}",
        PORT="",
    )
    assert shown == f"['a.test', 'b.test'] ['${'p' * 39}', '{'q' * 40}'] 8000"


@pytest.mark.parametrize(
    ("host", "added"),
    [("192.0.2.7", ["192.0.2.7"]), ("2001:db8::1", ["[2001:db8::1]"]), ("0.0.0.0", []), ("::", []), ("localhost", [])],
)
def test_the_listening_address_is_an_allowed_host(tmp_path: Path, host: str, added: list[str]) -> None:
    assert show(tmp_path, "settings.ALLOWED_HOSTS[3:]", HOST=host) == str(added)


def test_options_of_the_database_url_are_kept(tmp_path: Path) -> None:
    url = PRODUCTION["DATABASE_URL"] + "?options=-csearch_path%3Dcallerid&connect_timeout=7"
    shown = show(
        tmp_path,
        "*map(settings.DATABASES['default']['OPTIONS'].get, ('options', 'connect_timeout'))",
        DATABASE_URL=url,
        DB_STATEMENT_TIMEOUT_MS="250",
        **generated_keys(),
    )
    assert shown == "-csearch_path=callerid 7"


@pytest.mark.parametrize(("given", "limits"), [("", "500 0.75"), ("700", "700 0.95"), ("0", "0 None")])
def test_only_the_serving_process_has_time_limits(tmp_path: Path, given: str, limits: str) -> None:
    expression = "settings.DB_STATEMENT_TIMEOUT_MS, settings.DB_MAX_WAIT_S"
    environment = {**PRODUCTION, **generated_keys(), "DB_STATEMENT_TIMEOUT_MS": given}
    assert show(tmp_path, expression, **environment, CALLERID_SERVING="true") == limits
    assert show(tmp_path, expression, **PRODUCTION, **generated_keys()) == "0 None"


def test_check_deploy_is_clean_on_the_production_profile(tmp_path: Path) -> None:
    environment = {**PRODUCTION, **generated_keys(), "TRUSTED_PROXIES": "1"}
    done = manage(tmp_path, "check", "--deploy", "--fail-level", "WARNING", **environment)
    assert done.returncode == 0, done.stderr


def test_check_deploy_warns_of_uncounted_proxies(tmp_path: Path) -> None:
    done = manage(tmp_path, "check", "--deploy", **PRODUCTION, **generated_keys())
    assert "callerid.W001" in done.stderr
    assert "TRUSTED_PROXIES=1" in done.stderr
    assert "callerid.W001" not in manage(tmp_path, "check", "--deploy").stderr


def test_production_requires_two_factor_authentication(tmp_path: Path) -> None:
    keys = generated_keys()
    assert show(tmp_path, "settings.REQUIRE_2FA", **PRODUCTION, **keys) == "True"
    assert show(tmp_path, "settings.REQUIRE_2FA") == "False"
    done = manage(tmp_path, "check", "--deploy", **PRODUCTION, **keys, REQUIRE_2FA="false", TRUSTED_PROXIES="1")
    assert "callerid.W002" in done.stderr


def test_every_setting_is_documented() -> None:
    documented = (ROOT / "docs" / "settings.md").read_text()
    assert {name for name in our_settings() if f"`{name}`" not in documented} <= {"DJANGO_SETTINGS_MODULE"}


def test_lost_keys_of_a_database_are_not_replaced(tmp_path: Path) -> None:
    manage(tmp_path, "migrate")
    (tmp_path / "var" / "keys.json").unlink()
    done = manage(tmp_path, "list_tokens")
    assert done.returncode != 0
    assert "Restore it" in done.stderr
    assert not (tmp_path / "var" / "keys.json").exists()


def test_an_unmigrated_database_is_reported_in_a_sentence(tmp_path: Path) -> None:
    done = manage(tmp_path, "list_tokens")
    assert done.returncode != 0
    assert "migrate" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_sqlite_database_beside_a_production_service(tmp_path: Path) -> None:
    """`./run manage prune` without the environment would report success, on a new and empty database."""
    env_file = tmp_path / "callerid.env"
    beside = {"CALLERID_ENV_FILE": str(env_file)}
    env_file.write_text("DATABASE_URL=postgres://callerid@db.test/callerid\n")
    done = manage(tmp_path, "prune", **beside)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{env_file} exists but DATABASE_URL is not set" in done.stderr
    assert "`callerid COMMAND`" in done.stderr
    assert not (tmp_path / "var").exists()
    elsewhere = {"CALLERID_ENV_FILE": str(tmp_path / "other.env")}
    assert show(tmp_path, "settings.EMBEDDED", **elsewhere) == "True"
    production = {**beside, **PRODUCTION, **generated_keys()}
    assert show(tmp_path, "settings.EMBEDDED", **production) == "False"
