"""docs/backup.md: a dump under load, and a return to the time before a mistake. Credits add up after both."""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests import plugin
from tests.load import Load
from tests.servers import PostgresServer, postgres_binary, required
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.reliability]

Serve = Callable[..., Service]
NUMBER = "493023125042"


def documented(section: str, language: str) -> str:
    """The first code block of a section of docs/backup.md."""
    text = (plugin.ROOT / "docs" / "backup.md").read_text()
    found = re.search(rf"^## {section}\n.*?```{language}\n(.*?)```", text, re.DOTALL | re.MULTILINE)
    assert found is not None
    return re.sub("^    ", "", found[1], flags=re.MULTILINE)


def documented_base_backup(server: PostgresServer) -> list[str]:
    """The command of docs/backup.md, without runuser."""
    text = (plugin.ROOT / "docs" / "backup.md").read_text()
    (line,) = re.findall("^runuser -u postgres -- (pg_basebackup .*)$", text, re.MULTILINE)
    directory = {"/var/backups/callerid/base-$(date -I)": str(server.directory / "base")}
    for documented_text, here in {**directory, "--port=5432": f"--port={server.port}"}.items():
        assert documented_text in line
        line = line.replace(documented_text, here)
    return shlex.split(line)


class ArchivingPostgres(PostgresServer):
    """With the documented settings; the archive is a directory beside the data."""

    @property
    def archive(self) -> Path:
        return self.directory / "archive"

    def _make_cluster(self) -> None:
        super()._make_cluster()
        self._make_private(self.archive)
        settings = documented("Point-in-time recovery", "ini").replace("/var/lib/postgresql/archive", str(self.archive))
        with (self.directory / "data" / "postgresql.conf").open("a") as file:
            file.write(settings)

    def _make_private(self, directory: Path) -> None:
        directory.mkdir(mode=0o700)
        if user := self._running_as.get("user"):
            os.chown(directory, user, self._running_as["group"])


class RecoveredPostgres(ArchivingPostgres):
    """A copy of `source`'s base backup, recovered from its archive up to `target_time`."""

    def __init__(self, source: ArchivingPostgres, target_time: str) -> None:
        super().__init__()
        self._source, self._target_time = source, target_time

    def _make_cluster(self) -> None:
        self._running_as = self._source._running_as
        if user := self._running_as.get("user"):
            os.chown(self.directory, user, self._running_as["group"])
        subprocess.run(
            ["cp", "-a", self._source.directory / "base", self.directory / "data"], check=True, **self._running_as
        )
        settings = documented("Recovery to a point in time", "sh").partition("<<'END'\n")[2].partition("END\n")[0]
        settings = settings.replace("/var/lib/postgresql/archive", str(self._source.archive))
        settings = re.sub("recovery_target_time = '[^']+'", f"recovery_target_time = '{self._target_time}'", settings)
        with (self.directory / "data" / "postgresql.auto.conf").open("a") as file:
            file.write(settings)
        (self.directory / "data" / "recovery.signal").touch()


@pytest.fixture
def archiving() -> Iterator[ArchivingPostgres]:
    with required():
        server = ArchivingPostgres().start()
        for tool in ("pg_dump", "pg_restore", "pg_basebackup"):
            postgres_binary(tool)
    yield server
    server.close()


def environment(server: PostgresServer) -> dict[str, str]:
    """libpq's variables, and PATH with PostgreSQL's programs."""
    path = f"{Path(postgres_binary('pg_dump')).parent}:{os.environ['PATH']}"
    return {"PATH": path, "PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGUSER": "postgres"}


def rows(url: str) -> int:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT count(*) FROM accounts_creditentry").fetchone()
    assert found is not None
    return int(found[0])


def rules(url: str) -> list[tuple[int]]:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT number FROM phonebook_numberrule").fetchall()


def assert_audit_is_clean(service: Service, url: str) -> None:
    service.env["DATABASE_URL"] = url
    assert json.loads(service.manage("audit_credits", "--json")) == {"disagreements": []}


def test_credits_add_up_after_a_restore_and_a_recovery(serve: Serve, archiving: ArchivingPostgres) -> None:
    url = archiving.url
    service = serve(DATABASE_URL=url, REDIS_URL="", RATE_LIMIT="1000000/m")
    service.manage("set_rule", NUMBER, "--spam", "no")
    with Load(service, keep_alive=2, phone_numbers=[NUMBER]) as load:
        load.more(20)
        before = rows(url)
        dump = run_backup(archiving, archiving.directory / "dumps")
        load.more(1)
        after = rows(url)

        base = documented_base_backup(archiving)
        subprocess.run(base, env=environment(archiving), capture_output=True, check=True, **archiving._running_as)
        load.more(20)
        with psycopg.connect(url, autocommit=True) as admin:
            charged = rows(url)
            (good,) = admin.execute("SELECT now()::text").fetchone() or ("",)
            load.more(1)
            admin.execute("DELETE FROM phonebook_numberrule")  # the mistake
            load.more(5)
            (last,) = admin.execute("SELECT pg_walfile_name(pg_switch_wal())").fetchone() or ("",)
    wait_for_archive(archiving, last)

    restored = f"{url.rpartition('/')[0]}/callerid"
    with psycopg.connect(url, autocommit=True) as admin:
        for role in ("callerid", "callerid_serving", "callerid_readonly"):
            admin.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
        admin.execute("CREATE DATABASE callerid")
    with psycopg.connect(restored):  # as what still serves
        restore(archiving, dump)
    assert before <= rows(restored) <= after
    assert_audit_is_clean(service, restored)
    with psycopg.connect(restored) as connection, pytest.raises(psycopg.errors.RestrictViolation):
        connection.execute("DELETE FROM accounts_creditentry")  # its triggers are restored too

    assert rules(url) == []
    recovered = RecoveredPostgres(archiving, good)
    try:
        recovered.start()
        wait_for_promotion(recovered)
        assert rules(recovered.url) == [(int(NUMBER),)]
        assert rows(recovered.url) >= charged
        assert rows(recovered.url) < rows(url)
        assert_audit_is_clean(service, recovered.url)
        copy_lost_rows(recovered, archiving)
        assert rules(url) == [(int(NUMBER),)]
        service.env["DATABASE_URL"] = url
        service.manage("set_rule", f"{NUMBER[:-1]}3", "--spam", "no")  # its id is no other row's
    finally:
        recovered.close()


def restore(server: PostgresServer, dump: Path) -> None:
    """By the documented commands."""
    lines = documented("Restore a dump", "sh").splitlines()
    commands = [line.removeprefix("runuser -u postgres -- ") for line in lines if line.startswith("runuser")]
    assert [command.split()[0] for command in commands] == ["createdb", "pg_restore", "psql", "psql", "psql"]
    for command in commands:
        words = shlex.split(command.replace("/var/backups/callerid/callerid-….dump", str(dump)))
        subprocess.run(words, env=environment(server), capture_output=True, check=True)


def copy_lost_rows(source: PostgresServer, target: PostgresServer) -> None:
    """By the documented commands."""
    text = (plugin.ROOT / "docs" / "backup.md").read_text()
    copies = re.findall(r"-- psql .*-c '(COPY .*)'", text)
    rows = b""
    for server, copy in zip((source, target), copies, strict=True):
        command = ["psql", "-d", "postgres", "-c", copy.replace("12125550142", NUMBER)]
        rows = subprocess.run(command, env=environment(server), input=rows, capture_output=True, check=True).stdout


def run_backup(server: PostgresServer, directory: Path) -> Path:
    """deploy/backup.sh, which also deletes an old dump, and leaves nothing where it fails."""
    directory.mkdir()
    old = directory / "callerid-20200101T000000Z.dump"
    old.touch()
    os.utime(old, (0, 0))
    # A copy, since the user postgres may not be allowed to read where the tests are.
    script = [shutil.copy(plugin.ROOT / "deploy" / "backup.sh", directory.parent), str(directory)]
    missing = {**environment(server), "PGDATABASE": "missing"}
    assert subprocess.run(script, env=missing, capture_output=True, check=False).returncode != 0
    assert list(directory.iterdir()) == [old]
    # In a directory that its user may not enter, as root's is to the user postgres.
    closed = directory.parent / "closed"
    closed.mkdir(mode=0o700)
    user = server.as_unprivileged_user()
    for each in (directory, old):
        if uid := user.get("user"):
            os.chown(each, uid, user["group"])
    done = subprocess.run(
        script,
        cwd=closed,
        env={**environment(server), "PGDATABASE": "postgres"},
        capture_output=True,
        text=True,
        check=True,
        **user,
    )
    (dump,) = directory.iterdir()
    assert (done.stdout, dump.stat().st_mode & 0o777) == (f"{dump}\n", 0o600)
    return dump


def wait_for_archive(server: ArchivingPostgres, segment: str) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        for _ in range(600):
            query = "SELECT last_archived_wal >= %s, pg_sleep(0.1) FROM pg_stat_archiver"
            if (connection.execute(query, [segment]).fetchone() or (False,))[0]:
                return
    raise AssertionError((server.directory / "log").read_text())


def wait_for_promotion(server: PostgresServer) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        for _ in range(600):
            if connection.execute("SELECT NOT pg_is_in_recovery(), pg_sleep(0.1)").fetchone() == (True, ""):
                return
    raise AssertionError((server.directory / "log").read_text())
