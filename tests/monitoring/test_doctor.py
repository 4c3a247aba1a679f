"""`doctor` finds each kind of problem, says what to do, exits with status 1, and shows no secret."""

import json
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Min
from django.utils import timezone

from accounts import audit
from accounts.models import CreditEntry
from core import metrics, write_buffer
from lookup.answers import Failed, SourceCall
from monitoring import source_statistics, task_runs
from tests.api import Integrator
from tests.callerid_project.test_settings import manage, variables
from tests.metrics import here
from tests.plugin import ROOT, generated_keys, production
from tests.servers import PostgresServer, RedisServer, free_port

Checks = dict[str, tuple[bool, str]]


def examine() -> Checks:
    """Each check's result, and its detail; the exit status agrees."""
    out, status = StringIO(), 0
    try:
        call_command("doctor", "--json", stdout=out)
    except SystemExit as end:
        status = int(str(end.code))
    return read(out.getvalue(), status)


def read(output: str, status: int) -> Checks:
    result = json.loads(output)
    checks = {check["name"]: (check["ok"], check["detail"]) for check in result["checks"]}
    assert result["ok"] is (status == 0) is all(ok for ok, _ in checks.values())
    assert all(detail for _, detail in checks.values())
    return checks


@pytest.fixture
def sound(integrator: Integrator, settings: Any) -> Integrator:
    """A service without problems."""
    settings.TRUSTED_PROXIES = 1
    for file in Path(settings.DATA_DIR).iterdir():
        file.chmod(0o600)
    return integrator


def problems() -> dict[str, str]:
    """Of the tests' PostgreSQL, not its log: it has the default settings."""
    return {name: detail for name, (ok, detail) in examine().items() if not ok and name != "PostgreSQL log"}


def test_a_sound_service_has_no_problem(sound: Integrator) -> None:
    assert problems() == {}
    text = StringIO()
    with pytest.raises(SystemExit) if production() else pytest.MonkeyPatch.context():
        call_command("doctor", stdout=text)
    assert "ok       Balances" in text.getvalue()


def test_a_wrong_balance_is_found(sound: Integrator) -> None:
    CreditEntry.objects.create(token=sound.token, amount=5, balance_after=5, kind="top-up")
    (problem,) = problems().items()
    assert problem[0] == "Balances"
    assert f"#{sound.token.pk}" in problem[1]
    assert "audit_credits" in problem[1]


def test_a_failing_source_is_a_problem(sound: Integrator, settings: Any) -> None:
    settings.SOURCE_A = "tests.connectors.Fails"
    source_statistics.count("source_a", [SourceCall(settings.SOURCE_A, Failed("auth", "wrong key"), elapsed_s=0.1)])
    write_buffer.process_buffer.flush()
    assert "Source failing: tests.connectors.Fails." in problems()["Sources"]


def test_readable_key_files_are_a_problem(sound: Integrator, settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path
    (tmp_path / "keys.json").touch(0o600)
    assert problems() == {}
    (tmp_path / "keys.json").chmod(0o640)
    assert f"chmod 600 {tmp_path / 'keys.json'}" in problems()["Key files"]


def test_accepting_every_host_is_a_problem(sound: Integrator, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    assert "ALLOWED_HOSTS" in problems()["Proxy"]


def test_redis_that_does_not_answer_is_a_problem(sound: Integrator, settings: Any) -> None:
    settings.REDIS_URL = f"redis://:canary@127.0.0.1:{free_port()}/0"
    detail = problems()["Redis"]
    assert "correct REDIS_URL" in detail
    assert "canary" not in detail


@pytest.mark.django_db(transaction=True)
def test_metrics_show_when_tasks_ended(transactional_db: None) -> None:
    call_command("audit_credits", stdout=StringIO())
    task_runs.record(audit.TASK_SINCE, succeeded=False)
    before = timezone.now().timestamp() - 600
    metrics.sample()
    figures = here()
    assert figures.of("callerid_task_last_success_timestamp_seconds", task="audit_credits") > before
    assert figures.of("callerid_task_last_failure_timestamp_seconds", task="audit_credits --since") > before
    applied = MigrationRecorder.Migration.objects.aggregate(Min("applied"))["applied__min"]
    assert figures.of("callerid_installed_timestamp_seconds") == applied.timestamp()


@pytest.mark.once
def test_a_low_limit_of_open_files_is_a_problem(tmp_path: Path) -> None:
    command = ["sh", "-c", 'ulimit -n 4000 && exec "$@"', "sh", sys.executable, "manage.py", "doctor", "--json"]
    done = subprocess.run(command, cwd=ROOT, env=variables(tmp_path, {}), capture_output=True, text=True, check=False)
    healthy, detail = read(done.stdout, done.returncode)["Open files"]
    assert not healthy
    assert detail.startswith("A server that is started as this command was may have 4,000 open files and connections")


@pytest.mark.once
def test_keys_missing_is_reported_in_the_same_form(tmp_path: Path) -> None:
    done = manage(tmp_path, "doctor", "--json", DATABASE_URL="postgres://u:hunter2@db.test/callerid")
    checks = read(done.stdout, done.returncode)
    assert list(checks) == ["Configuration"]
    assert "SECRET_KEY, JWT_SIGNING_KEY, NUMBER_HASH_KEY" in checks["Configuration"][1]
    assert "hunter2" not in done.stdout + done.stderr
    assert "PROBLEM  Configuration" in manage(tmp_path, "doctor", RATE_LIMIT="many").stdout


@pytest.mark.once
def test_unapplied_migrations_are_reported_on_sqlite(tmp_path: Path) -> None:
    done = manage(tmp_path, "doctor", "--json")
    checks = read(done.stdout, done.returncode)
    assert checks["Database"] == (False, "Migrations are not applied. Run ./run manage migrate.")
    assert checks["Maintenance"] == (False, "Not checked: correct the database first.")
    assert checks["Key files"][0]
    (tmp_path / "var" / "callerid.sqlite3").write_bytes(b"no database" * 100)
    done = manage(tmp_path, "doctor", "--json")
    assert "CALLERID_DATA_DIR" in read(done.stdout, done.returncode)["Database"][1]


@pytest.mark.once
@pytest.mark.slow
def test_servers_that_are_down_or_stall_are_reported(
    tmp_path: Path, postgres_server: PostgresServer, redis_server: RedisServer
) -> None:
    keys = generated_keys()
    url = postgres_server.url.replace("postgres@", "postgres:hunter2@")
    environment = {**keys, "DATABASE_URL": url, "REDIS_URL": redis_server.url.replace("//", "//:canary@")}

    def database_and_redis() -> list[tuple[bool, str]]:
        done = manage(tmp_path, "doctor", "--json", **environment)
        checks = read(done.stdout, done.returncode)
        shown = done.stdout + done.stderr
        assert [secret for secret in ("hunter2", "canary", *keys.values()) if secret in shown] == []
        return [checks["Database"], checks["Redis"]]

    assert database_and_redis()[0] == (
        False,
        "Migrations are not applied. Run ./run manage migrate as the owner of the database.",
    )
    postgres_server.pause()
    assert database_and_redis()[0][1].startswith(("No answer within", "OperationalError: connection"))
    postgres_server.kill()
    redis_server.stop()
    database, cache = database_and_redis()
    assert "correct DATABASE_URL" in database[1]
    assert "correct REDIS_URL" in cache[1]
