"""The way to a first installation, with the shipped files: roles, the command `callerid`, grants, PgBouncer."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from core.postgresql.client import DatabaseClient
from tests import plugin
from tests.clusters import PostgresPair
from tests.servers import PgBouncer, PostgresServer, Unavailable, required

pytestmark = [pytest.mark.once, pytest.mark.slow]

DEPLOY = plugin.ROOT / "deploy"
PASSWORD = "right"


def callerid(etc: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """deploy/systemd/callerid, with almost no environment; `etc`: instead of /etc/callerid."""
    environment = {
        "PATH": os.environ["PATH"],
        "CALLERID_ROOT": str(plugin.ROOT),
        "CALLERID_ENV_FILE": str(etc / "callerid.env"),
        "CALLERID_OWNER_ENV_FILE": str(etc / "owner.env"),
    }
    return subprocess.run(
        [DEPLOY / "systemd" / "callerid", *arguments],
        cwd="/",
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=check,
    )


def documented_userlist(postgres: PostgresServer) -> str:
    """What the command of docs/postgresql.md writes to userlist.txt."""
    text = (plugin.ROOT / "docs" / "postgresql.md").read_text(encoding="utf-8")
    (command,) = re.findall("^runuser -u postgres -- (psql .+) >/etc/pgbouncer/userlist.txt$", text, re.MULTILINE)
    environment = {
        "PATH": os.environ["PATH"],
        "PGHOST": "127.0.0.1",
        "PGPORT": str(postgres.port),
        "PGUSER": "postgres",
    }
    return subprocess.run(command, shell=True, env=environment, capture_output=True, text=True, check=True).stdout


class ShippedPgBouncer(PgBouncer):
    """With deploy/pgbouncer/pgbouncer.ini and the documented userlist.txt."""

    def __init__(self, postgres: PostgresServer) -> None:
        super().__init__(f"postgres://callerid_serving:{PASSWORD}@127.0.0.1:{postgres.port}/callerid")
        text = (DEPLOY / "pgbouncer" / "pgbouncer.ini").read_text()
        for shipped, here in {
            "port=5432": f"port={postgres.port}",
            "listen_port = 6432": f"listen_port = {self.port}",
            "/etc/pgbouncer/userlist.txt": str(self.directory / "userlist.txt"),
            "/var/log/postgresql/": f"{self.directory}/",
            "/var/run/postgresql/": f"{self.directory}/",
        }.items():
            assert shipped in text
            text = text.replace(shipped, here)
        (self.directory / "shipped.ini").write_text(text)
        (self.directory / "userlist.txt").write_text(documented_userlist(postgres))
        self.directory.chmod(0o755)

    def command(self) -> list[str]:
        return [super().command()[0], str(self.directory / "shipped.ini")]

    @property
    def url(self) -> str:
        return f"postgres://callerid_serving:{PASSWORD}@127.0.0.1:{self.port}/callerid"


@pytest.fixture
def database(postgres_server: PostgresServer) -> PostgresServer:
    """With the roles of database.sql, which must log in with a password."""
    with required():
        if (psql := shutil.which("psql")) is None:
            raise Unavailable("there is no psql on PATH (Debian: postgresql-client)")
    for _ in range(2):  # it may be repeated
        subprocess.run(
            [psql, postgres_server.url, "-qv", "ON_ERROR_STOP=1", "-f", DEPLOY / "postgresql" / "database.sql"],
            check=True,
            capture_output=True,
        )
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        limits = admin.execute("SELECT rolname, rolconnlimit FROM pg_roles WHERE rolname LIKE 'callerid%'").fetchall()
        assert dict(limits) == {"callerid": -1, "callerid_serving": 80, "callerid_readonly": -1}
        for role in ("callerid", "callerid_serving"):
            admin.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(role), PASSWORD))
        rules = postgres_server.directory / "data" / "pg_hba.conf"
        rules.write_text("host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
        admin.execute("SELECT pg_reload_conf()")
    return postgres_server


def test_the_shipped_files_make_an_installation(database: PostgresServer, tmp_path: Path) -> None:
    keys = "".join(f"{name}={value}\n" for name, value in plugin.generated_keys().items())
    url = f"postgres://{{}}:{PASSWORD}@127.0.0.1:{database.port}/callerid\n"
    example = (DEPLOY / "systemd" / "callerid.env.example").read_text()
    example = re.sub(r"^(DATABASE_URL|REDIS_URL|[A-Z_]+_KEY)=.*\n", "", example, flags=re.MULTILINE)
    env_file, owner_file = tmp_path / "callerid.env", tmp_path / "owner.env"
    env_file.write_text(f"{example}{keys}DATABASE_URL={url.format('callerid_serving')}")
    owner_file.write_text(f"DATABASE_URL={url.format('callerid')}")

    refused = callerid(tmp_path, "migrate", check=False)
    assert refused.returncode != 0
    assert "permission denied" in refused.stderr
    callerid(tmp_path, "--owner", "migrate", "--verbosity=0")
    grants = str(DEPLOY / "postgresql" / "grants.sql")
    callerid(tmp_path, "--owner", "dbshell", "--", "-v", "ON_ERROR_STOP=1", "-f", grants)
    callerid(tmp_path, "create_token", "pbx", "--credits", "3", "--quiet")

    with required():
        pooler = ShippedPgBouncer(database).start()
    try:
        pooled = re.sub("DATABASE_URL=.*", f"DATABASE_URL={pooler.url}\nDB_PREPARE=false", env_file.read_text())
        env_file.write_text(pooled)
        for command in (["audit_credits", "--json"], ["prune", "--json"]):
            json.loads(callerid(tmp_path, *command).stdout)
        # Imports, and so refresh_data, work with the serving role, without the pooler.
        env_file.write_text(pooled.replace(pooler.url, url.format("callerid_serving").strip()))
        contacts = tmp_path / "contacts.csv"
        contacts.write_text("number,name\n+493023125042,Example Bakery\n")
        callerid(tmp_path, "import_contacts", str(contacts))
        check = callerid(tmp_path, "check", "--deploy", "--fail-level", "WARNING")
        assert "no issues" in check.stdout
    finally:
        pooler.close()


def test_dbshell_reaches_the_primary_of_two_hosts(tmp_path: Path) -> None:
    with required():
        if shutil.which("psql") is None:
            raise Unavailable("there is no psql on PATH (Debian: postgresql-client)")
        pair = PostgresPair().start(synchronous=False)
    try:
        hosts = f"127.0.0.1:{pair.standby.port},127.0.0.1:{pair.primary.port}"
        url = f"postgres://postgres:s%20cret@{hosts}/postgres?target_session_attrs=read-write&application_name=a%20b"
        keys = "".join(f"{name}={value}\n" for name, value in plugin.generated_keys().items())
        (tmp_path / "callerid.env").write_text(f"{keys}DATABASE_URL=postgres://serving@127.0.0.1/none")
        (tmp_path / "owner.env").write_text(f"DATABASE_URL={url}")
        script = tmp_path / "script.sql"
        script.write_text("CREATE TABLE written (id int);\nSHOW application_name;\n\\conninfo\n")
        done = callerid(tmp_path, "--owner", "dbshell", "--", "-Atv", "ON_ERROR_STOP=1", "-f", str(script))
        assert done.stdout.splitlines()[:2] == ["CREATE TABLE", "a b"]
        assert f'port "{pair.primary.port}"' in done.stdout
    finally:
        pair.close()


def test_dbshell_passes_no_password_as_an_argument() -> None:
    database = {
        "NAME": "d",
        "USER": "u",
        "PASSWORD": "right",
        "HOST": "h1,h2",
        "PORT": ",5433",
        "OPTIONS": {"target_session_attrs": "read-write", "sslpassword": "right", "prepare_threshold": None},
    }
    arguments, environment = DatabaseClient.settings_to_cmd_args_env(database, ["-c", "SELECT 1"])
    assert arguments[:3] == ["psql", "-c", "SELECT 1"]
    assert conninfo_to_dict(arguments[3]) == {
        "dbname": "d",
        "user": "u",
        "host": "h1,h2",
        "port": ",5433",
        "target_session_attrs": "read-write",
    }
    assert environment == {"PGPASSWORD": "right"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('SECRET_KEY="quoted"', "SECRET_KEY contains a quotation mark"),
        ("SECRET_KEY=a$HOME", "SECRET_KEY contains"),
        ("export SECRET_KEY=x", "a line is not NAME=value"),
        ("SECRET KEY=hunter2", "a line is not NAME=value"),
        ("SECRET_KEY hunter2", "a line is not NAME=value"),
    ],
)
def test_the_command_refuses_a_file_that_others_read_otherwise(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "callerid.env").write_text(f"# comment\n\n{line}\n")
    done = callerid(tmp_path, "prune", check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr
    assert "hunter2" not in done.stderr


def test_the_command_needs_its_files(tmp_path: Path) -> None:
    assert "callerid.env does not exist or is not readable" in callerid(tmp_path, "prune", check=False).stderr
    (tmp_path / "callerid.env").write_text("LOG_LEVEL=INFO\n")
    assert "owner.env does not exist or is not readable" in callerid(tmp_path, "--owner", "x", check=False).stderr
    without = callerid(tmp_path, "prune", check=False)  # the file has no DATABASE_URL
    assert (without.returncode, without.stdout) == (1, "")
    assert "DATABASE_URL is not set" in without.stderr
