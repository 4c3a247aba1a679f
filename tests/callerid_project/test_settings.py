"""An invalid setting ends the start with one sentence that says what to write instead.

Most tests execute the settings module in this process (`load`). That `manage.py` prints what it raises is tested once.
"""

import json
import os
import runpy
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from django.conf import global_settings
from django.core.exceptions import ImproperlyConfigured

from callerid_project import system_checks
from tests.plugin import ROOT, generated_keys, our_settings, settings_read_by

pytestmark = pytest.mark.once

PRODUCTION = {"DATABASE_URL": "postgres://u:hunter2@db.test/callerid"}


def variables(tmp_path: Path, environment: dict[str, str]) -> dict[str, str]:
    """This process's environment with no settings but `environment`."""
    clean = {name: value for name, value in os.environ.items() if name not in our_settings()}
    return {**clean, "CALLERID_DATA_DIR": str(tmp_path / "var"), **environment}


def load(tmp_path: Path, **environment: str) -> Any:
    """The settings in this environment, with Django's defaults. Raises ImproperlyConfigured."""
    with mock.patch.dict(os.environ, variables(tmp_path, environment), clear=True):
        ours = runpy.run_path(str(ROOT / "callerid_project" / "settings.py"))
    return SimpleNamespace(**{**vars(global_settings), **ours})


def manage(tmp_path: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=variables(tmp_path, environment),
        capture_output=True,
        text=True,
        check=False,
    )


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
                "postgres://u:hunter2@fd00::5:5432/db",
            )
        ),
        (
            {"DATABASE_URL": "postgres://callerid_serving:CHANGE@127.0.0.1:5432/callerid", **generated_keys()},
            "DATABASE_URL has the password CHANGE: write that of its role",
        ),
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
        *(({"TOKEN_DAYS": bad}, "TOKEN_DAYS must be a whole number") for bad in ("1_0", "３", "1e2", "9" * 5_000)),
        *(({"SEARCH_DEADLINE_S": bad}, "must be a number") for bad in ("1_0", "١", "1e1", "nan")),
        *(({"RATE_LIMIT": f"{bad}/m"}, "RATE_LIMIT must be N/s") for bad in ("1_0", "３０")),
        ({"INVITATION_DAYS": "31"}, "INVITATION_DAYS=3"),
        ({"PUBLIC_URL": "callerid.example.org"}, "PUBLIC_URL=https://callerid.example.org"),
        ({"PUBLIC_URL": "https://callerid.example.org/admin"}, "PUBLIC_URL=https://callerid.example.org"),
        ({"PUBLIC_URL": "https://user@callerid.example.org"}, "PUBLIC_URL=https://callerid.example.org"),
        ({"COMPLAINT_WINDOW_DAYS": "1000000"}, "COMPLAINT_WINDOW_DAYS"),
        ({"COMPLAINT_KEPT_DAYS": "89"}, "Set COMPLAINT_KEPT_DAYS=90 or more"),
        ({"CHARGE_EMPTY": "maybe"}, "CHARGE_EMPTY"),
        ({"REDIS_URL": "localhost:6379"}, "redis://"),
        ({"REDIS_URL": "redis://h:abc"}, "redis://"),
        ({"REDIS_URL": "redis://fd00::5:6379/0"}, "redis://"),
        ({"REDIS_URL": "sentinel://s1:26379 s2:26379/mymaster/0"}, "sentinel://:password@host1"),
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
        *(
            ({"SOURCE_A_PRICE": bad}, "SOURCE_A_PRICE must be a price")
            for bad in ("free", "-1", "nan", "snan", "Infinity", "1e9", "twilio=", "twilio:1", "0.1,trestle=x")
        ),
        *(
            ({"CREDIT_PRICE": bad}, "such as CREDIT_PRICE=0.02")
            for bad in ("free", "-1", "nan", "1e9", "a=0.1", "1_0", "٣")
        ),
        ({"SOURCE_B_PRICE": "-0.1"}, "SOURCE_B_PRICE must be a price"),
        ({"CALLERID_COUNTRY_CODE": "+49"}, "CALLERID_COUNTRY_CODE must be at most 3 digits, without a plus"),
        ({"ALERT_SLOW_MS": "0"}, "ALERT_SLOW_MS must be a whole number"),
        ({"ALERT_DEGRADED_PERCENT": "101"}, "ALERT_DEGRADED_PERCENT must be a number from 0.1 to 100"),
    ],
)
def test_an_invalid_setting_is_reported(tmp_path: Path, environment: dict[str, str], told: str) -> None:
    with pytest.raises(ImproperlyConfigured) as raised:
        load(tmp_path, **environment)
    message = str(raised.value)
    assert told in message
    assert not any(secret in message for secret in ("hunter2", "s" * 40, "j" * 50, "p" * 40))


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({"RATE_LIMIT": "30"}, "Configuration error: RATE_LIMIT must be"),
        (
            {"DATABASE_URL": "postgres://u:hunter2%ff@h/db", **generated_keys()},
            "Configuration error: DATABASE_URL must be",
        ),
        ({"SOURCE_A": "directory,nowhere"}, "there is no source 'nowhere'"),
    ],
)
def test_nothing_starts_with_an_invalid_setting(tmp_path: Path, environment: dict[str, str], told: str) -> None:
    done = manage(tmp_path, "check", **environment)
    assert done.returncode == 1
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr


def test_the_embedded_profile_needs_no_settings_and_is_secure(tmp_path: Path) -> None:
    assert manage(tmp_path, "check").returncode == 0
    settings = load(tmp_path)
    assert (settings.EMBEDDED, settings.DEBUG) == (True, False)
    assert settings.ALLOWED_HOSTS == ["localhost", "127.0.0.1", "[::1]"]


def test_keys_are_generated_once_private_and_distinct(tmp_path: Path) -> None:
    load(tmp_path)
    path = tmp_path / "var" / "keys.json"
    kept = path.read_text()
    load(tmp_path)
    assert path.read_text() == kept
    assert len(set(json.loads(kept).values())) == 3
    assert [stat.S_IMODE(p.stat().st_mode) for p in (path.parent, path, path.parent / "callerid.sqlite3")] == [
        0o700,
        0o600,
        0o600,
    ]


def test_processes_starting_at_once_share_the_keys(tmp_path: Path) -> None:
    script = "import sys, pathlib, callerid_project.keys as k; print(k.load_or_create(pathlib.Path(sys.argv[1]), {}))"
    command = [sys.executable, "-c", script, str(tmp_path / "var")]
    running = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    (keys,) = {process.communicate()[0] for process in running}
    assert "JWT_SIGNING_KEY" in keys
    assert [path.name for path in (tmp_path / "var").glob(".keys-*")] == []


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "postgres://user:p%40ss@h1,h2:5433,[::1]:5434/db?target_session_attrs=read-write",
            {"HOST": "h1,h2,::1", "PORT": ",5433,5434", "PASSWORD": "p@ss", "target_session_attrs": "read-write"},
        ),
        (
            "postgres://u@h/db?options=-csearch_path%3Dcallerid&connect_timeout=7",
            {"options": "-csearch_path=callerid", "connect_timeout": "7"},
        ),
        (
            "postgresql://user:a+b%2520@[::1]:5434/d%20b",
            {"HOST": "::1", "PORT": "5434", "PASSWORD": "a+b%20", "NAME": "d b"},
        ),
        ("postgres:///db?host=/run/postgresql&user=u", {"HOST": "/run/postgresql", "USER": "u", "PORT": ""}),
    ],
)
def test_a_database_url_means_what_libpq_reads_in_it(tmp_path: Path, url: str, expected: dict[str, str]) -> None:
    database = load(tmp_path, DATABASE_URL=url, **generated_keys()).DATABASES["default"]
    found = {**database["OPTIONS"], **database}
    assert {name: found[name] for name in expected} == expected


def test_a_damaged_key_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "var").mkdir()
    (tmp_path / "var" / "keys.json").write_text("{}")
    with pytest.raises(ImproperlyConfigured, match="Restore it"):
        load(tmp_path)
    assert (tmp_path / "var" / "keys.json").read_text() == "{}"


def test_an_unusable_data_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ImproperlyConfigured, match="CALLERID_DATA_DIR"):
        load(tmp_path, CALLERID_DATA_DIR=str(tmp_path / "file" / "var"))


def test_sqlite_is_durable_and_waits_for_locks(tmp_path: Path) -> None:
    script = (
        "from django.db import connection; print([connection.cursor().execute('PRAGMA ' + name).fetchone()[0]"
        " for name in ('journal_mode', 'synchronous', 'busy_timeout', 'foreign_keys', 'secure_delete')])"
    )
    assert manage(tmp_path, "shell", "--no-imports", "-c", script).stdout.strip() == "['wal', 2, 20000, 1, 1]"


def test_production_is_strict(tmp_path: Path) -> None:
    settings = load(tmp_path, **PRODUCTION, **generated_keys())
    assert (settings.SESSION_COOKIE_SECURE, settings.CSRF_COOKIE_SECURE) == (True, True)
    assert settings.SECURE_HSTS_SECONDS > 0
    assert (settings.SECURE_PROXY_SSL_HEADER, settings.DEBUG) == (None, False)


def test_the_forwarded_scheme_is_trusted_only_behind_a_proxy(tmp_path: Path) -> None:
    settings = load(tmp_path, TRUSTED_PROXIES="1", **PRODUCTION, **generated_keys())
    assert settings.SECURE_PROXY_SSL_HEADER == ("HTTP_X_FORWARDED_PROTO", "https")


def test_credit_price_is_exact(tmp_path: Path) -> None:
    assert load(tmp_path).CREDIT_PRICE is None
    assert Decimal("0.02") == load(tmp_path, CREDIT_PRICE=" 0.02 ").CREDIT_PRICE


@pytest.mark.parametrize(
    ("given", "prices"),
    [
        ({}, {}),
        ({"SOURCE_A_PRICE": "0.008"}, {"*": Decimal("0.008")}),
        (
            {"SOURCE_A_PRICE": " twilio = 0.008 , trestle=.07,my.Source=0 "},
            {"twilio": Decimal("0.008"), "trestle": Decimal("0.07"), "my.Source": Decimal(0)},
        ),
        ({"SOURCE_A_PRICE": "0.1,twilio=0.008"}, {"*": Decimal("0.1"), "twilio": Decimal("0.008")}),
    ],
)
def test_prices_apply_to_all_sources_or_to_each(
    tmp_path: Path, given: dict[str, str], prices: dict[str, Decimal]
) -> None:
    settings = load(tmp_path, **given)
    assert (prices, {}) == (settings.SOURCE_A_PRICE, settings.SOURCE_B_PRICE)


def test_lists_may_contain_blanks_and_empty_means_unset(tmp_path: Path) -> None:
    keys = [f"${'p' * 39}", "q q" * 20]
    settings = load(tmp_path, ALLOWED_HOSTS="a.test, b.test,", JWT_PREVIOUS_KEYS=", ".join(keys), PORT="")
    assert (["a.test", "b.test"], keys, 8000) == (settings.ALLOWED_HOSTS, settings.JWT_PREVIOUS_KEYS, settings.PORT)


def test_a_space_separates_as_a_comma_does(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        METRICS_NETWORKS="10.0.0.0/8 2001:db8::/32\t::1",
    )
    assert [str(network) for network in settings.METRICS_NETWORKS] == ["10.0.0.0/8", "2001:db8::/32", "::1/128"]


@pytest.mark.parametrize(
    ("host", "added"),
    [
        ("192.0.2.7", ["192.0.2.7"]),
        *((host, ["[2001:db8::1]"]) for host in ("2001:db8::1", "[2001:db8::1]")),
        *((host, []) for host in ("0.0.0.0", "::", "[::]", "localhost")),
    ],
)
def test_the_listening_address_is_an_allowed_host(tmp_path: Path, host: str, added: list[str]) -> None:
    assert load(tmp_path, HOST=host).ALLOWED_HOSTS[3:] == added


@pytest.mark.parametrize(("given", "limits"), [("", (500, 0.75)), ("700", (700, 0.95)), ("0", (0, None))])
def test_only_the_serving_process_has_time_limits(tmp_path: Path, given: str, limits: tuple[int, float | None]) -> None:
    environment = {**PRODUCTION, **generated_keys()}
    serving = load(tmp_path, **environment, DB_STATEMENT_TIMEOUT_MS=given, CALLERID_SERVING="true")
    assert limits == (serving.DB_STATEMENT_TIMEOUT_MS, serving.DB_MAX_WAIT_S)
    command = load(tmp_path, **environment)
    assert (command.DB_STATEMENT_TIMEOUT_MS, command.DB_MAX_WAIT_S) == (0, None)


def test_check_deploy_is_clean_on_the_production_profile(tmp_path: Path) -> None:
    environment = {**PRODUCTION, **generated_keys(), "TRUSTED_PROXIES": "1"}
    done = manage(tmp_path, "check", "--deploy", "--fail-level", "WARNING", **environment)
    assert done.returncode == 0, done.stderr


def test_check_deploy_warns_of_what_production_lacks(tmp_path: Path) -> None:
    done = manage(tmp_path, "check", "--deploy", **PRODUCTION, **generated_keys(), REQUIRE_2FA="false")
    assert "(callerid.W001) TRUSTED_PROXIES" in done.stderr
    assert "TRUSTED_PROXIES=1" in done.stderr
    assert "(callerid.W002) REQUIRE_2FA" in done.stderr


def test_embedded_profile_needs_no_proxy_or_second_factor(settings: Any) -> None:
    settings.EMBEDDED, settings.TRUSTED_PROXIES, settings.REQUIRE_2FA = True, 0, False
    assert [*system_checks.check_trusted_proxies(), *system_checks.check_two_factor_authentication()] == []


def test_production_requires_two_factor_authentication(tmp_path: Path) -> None:
    assert load(tmp_path, **PRODUCTION, **generated_keys()).REQUIRE_2FA
    assert not load(tmp_path).REQUIRE_2FA


def test_every_setting_is_documented() -> None:
    documented = (ROOT / "docs" / "settings.md").read_text()
    assert {name for name in our_settings() if f"`{name}`" not in documented} <= {"DJANGO_SETTINGS_MODULE"}


def test_settings_of_addons_are_under_their_names() -> None:
    documented = (ROOT / "docs" / "settings.md").read_text()
    of_kernel = settings_read_by(ROOT / "callerid_project" / "settings.py")
    for path in (ROOT / "contrib").glob("*/conf.py"):
        section = documented.partition(f"\n### `{path.parent.name}`\n")[2].partition("\n##")[0]
        assert {name for name in settings_read_by(path) if f"`{name}`" not in section} <= of_kernel, path.parent.name


def test_lost_keys_of_a_database_are_not_replaced(tmp_path: Path) -> None:
    load(tmp_path)
    with closing(sqlite3.connect(tmp_path / "var" / "callerid.sqlite3")) as database:
        database.execute("CREATE TABLE accounts_apitoken (id integer)")
    (tmp_path / "var" / "keys.json").unlink()
    with pytest.raises(ImproperlyConfigured, match="Restore it"):
        load(tmp_path)
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
    assert load(tmp_path, CALLERID_ENV_FILE=str(tmp_path / "other.env")).EMBEDDED
    assert not load(tmp_path, **beside, **PRODUCTION, **generated_keys()).EMBEDDED
