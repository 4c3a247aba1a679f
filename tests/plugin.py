"""Settles the environment before Django reads it (pyproject.toml loads this first, with `-p`).

A developer's or a CI machine's settings must not leak into the tests, and the tests must not touch its data. The same
suite runs on both profiles: `CALLERID_TEST_PROFILE=production` takes PostgreSQL and Redis from TEST_DATABASE_URL and
TEST_REDIS_URL, and where they are not set starts temporary servers. A Redis that is named is emptied: name none that
holds anything (so DATABASE_URL and REDIS_URL, which may be a service's own, name none). With TEST_DB_PREPARE=false the
database may be named by a pooler's URL.
"""

import atexit
import os
import re
import secrets
import shutil
import signal
import tempfile
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
KEYS = ("SECRET_KEY", "JWT_SIGNING_KEY", "NUMBER_HASH_KEY")

#: Each starts a server process, or a browser.
SLOW_FIXTURES = {"serve", "postgres_server", "redis_server", "start_redis", "page", "admin_page"}

#: The servers that the environment named, by the name of their setting.
named: dict[str, str] = {}


def our_settings() -> set[str]:
    """Every name that settings.py and the add-ons read, the keys, and what `run` reads beside them."""
    files = [ROOT / "callerid_project" / "settings.py", *(ROOT / "contrib").glob("*/conf.py")]
    return {*KEYS, "PYTHON", "DJANGO_SETTINGS_MODULE"}.union(*map(settings_read_by, files))


def settings_read_by(path: Path) -> set[str]:
    return set(re.findall(r'(?:env\.\w+\(\s*|\(env, )"([A-Z0-9_]+)"', path.read_text(encoding="utf-8")))


def of_addons(name: str) -> dict[Any, Any]:
    """What chosen add-ons add to a table of the tests: the dictionaries with this name in their `tests` packages."""
    from django.conf import settings

    from core import addons

    packages = [f"{addons.load(addon).name}.tests" for addon in settings.ADDONS]
    found = [getattr(import_module(package), name, {}) for package in packages if find_spec(package)]
    return {key: value for each in found for key, value in each.items()}


def generated_keys() -> dict[str, str]:
    return {name: secrets.token_urlsafe(48) for name in KEYS}


def production() -> bool:
    return os.environ.get("CALLERID_TEST_PROFILE", "embedded") == "production"


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests() -> Iterator[None]:
    # `timeout` and CI send SIGTERM: like Ctrl-C, it has to end the servers too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # A job in a shell's background ignores Ctrl-C, and so would all that tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    profile = os.environ.get("CALLERID_TEST_PROFILE", "embedded")
    if profile not in ("embedded", "production"):
        raise pytest.UsageError("CALLERID_TEST_PROFILE is embedded or production.")
    for name in ("DATABASE_URL", "REDIS_URL"):
        if url := os.environ.pop(f"TEST_{name}", None):
            named[name] = url
    if (worker := os.environ.get("PYTEST_XDIST_WORKER")) and "REDIS_URL" in named:
        # Each worker process empties a Redis database of its own. Redis has 16.
        named["REDIS_URL"] = f"{named['REDIS_URL'].rstrip('/').removesuffix('/0')}/{int(worker[2:]) % 16}"
    for name in our_settings() - {"ADDONS"}:  # which chooses the tests too
        os.environ.pop(name, None)
    os.environ["DJANGO_SETTINGS_MODULE"] = "callerid_project.settings"
    # On a busy machine Redis may take more than 100 ms, and most tests are not about what a process counts alone.
    os.environ["REDIS_TIMEOUT_S"] = "5"
    # Production requires a second factor; tests of anything else log in without.
    os.environ["REQUIRE_2FA"] = "false"
    os.environ["LOG_FORMAT"] = "text"
    os.environ["CALLERID_DATA_DIR"] = tempfile.mkdtemp(prefix="callerid-test-data-")
    atexit.register(shutil.rmtree, os.environ["CALLERID_DATA_DIR"], ignore_errors=True)
    if profile == "production":
        os.environ |= generated_keys()
        # With the pool and the time limits of the serving process, but that nothing is late on a busy machine.
        os.environ |= {"CALLERID_SERVING": "true", "DB_STATEMENT_TIMEOUT_MS": "20000"}
        os.environ["DB_PREPARE"] = os.environ.get("TEST_DB_PREPARE", "true")  # "false" behind PgBouncer
        for name in ("DATABASE_URL", "REDIS_URL"):
            os.environ[name] = named[name] = named.get(name) or _own_server(name)
    # Worker processes of pytest-xdist share the servers that their controller has named or started.
    if "PYTEST_XDIST_WORKER" not in os.environ:
        os.environ |= {f"TEST_{name}": url for name, url in named.items()}
    return (yield)


def _own_server(name: str) -> str:
    from tests import servers

    try:
        server = (servers.PostgresServer() if name == "DATABASE_URL" else servers.RedisServer()).start()
    except servers.Unavailable as error:
        raise pytest.UsageError(f"The production profile needs TEST_{name}: {error}") from error
    return server.url
