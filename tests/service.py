"""The service in its own server process and with its own database, reached over real sockets."""

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import psycopg

from tests import plugin, servers

START_S = 60
#: Set in this process if a test has imported asgi.py, or on the production profile, but meant for servers only.
SERVING_ONLY = ("CALLERID_SERVING", "DB_STATEMENT_TIMEOUT_MS")
#: No timeout expires on a busy machine, and no test waits at its end, unless it is about that.
LONG_TIMEOUTS = {
    "DB_STATEMENT_TIMEOUT_MS": "20000",
    "SQLITE_TIMEOUT_S": "20",
    "SEARCH_DEADLINE_S": "20",
}


class Service:
    """What `./run serve` starts, on a free port. `env`: what it runs in, for commands beside it.

    `module`: what Python runs instead, with its arguments, where `{port}` stands for the port.
    """

    def __init__(
        self, directory: Path, environment: dict[str, str], module: Sequence[str] = ("callerid_project.serve",)
    ) -> None:
        self.port = servers.free_port()
        self._command = [sys.executable, "-m", *(part.format(port=self.port) for part in module)]
        self.url = f"http://127.0.0.1:{self.port}"
        self.env = {
            **{name: value for name, value in os.environ.items() if name not in SERVING_ONLY},
            "HOST": "127.0.0.1",
            "CALLERID_DATA_DIR": str(directory / "data"),
            **environment,
            "PORT": str(self.port),
        }
        self._log = directory / "log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Returns when it answers. Raises RuntimeError, with its log, when it does not."""
        with self._log.open("ab") as output:
            self.process = subprocess.Popen(
                self._command,
                cwd=plugin.ROOT,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_S
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"The service does not start:\n{self.log()}")
            time.sleep(0.02)
        return self

    def answers(self) -> bool:
        """Whether `/livez` answers now."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/livez")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def run_command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`manage.py` with `arguments`, in the service's environment."""
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=plugin.ROOT,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def manage(self, *arguments: str) -> str:
        """What the command writes on stdout. Raises RuntimeError, with its stderr, when it fails."""
        done = self.run_command(*arguments)
        if done.returncode:
            raise RuntimeError(f"manage.py {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr}")
        return done.stdout

    def doctor(self, name: str) -> dict[str, Any]:
        """The check of this name, as the command `doctor` reports it."""
        checks = json.loads(self.run_command("doctor", "--json").stdout)["checks"]
        (found,) = (check for check in checks if check["name"] == name)
        return dict(found)

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def unknown_charges(self) -> list[str]:
        """The files of the searches answered with 500 whose charge it has not settled yet."""
        return [file.name for file in Path(self.env["CALLERID_DATA_DIR"], "unknown-charges").glob("*")]

    def stop(self) -> int:
        """Stop it in order; the exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(15)

    def kill(self) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def resident_mb(self) -> float:
        """Its memory."""
        assert self.process is not None
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGESIZE") / 2**20


@contextlib.contextmanager
def serving(
    directory: Path,
    environment: dict[str, str],
    *,
    shared: Path,
    module: Sequence[str] = ("callerid_project.serve",),
) -> Iterator[Service]:
    """The service, started in `environment` on a migrated database; where that names one, the keys are made up.

    `shared`: a directory where all services find the database that one of them migrated. `module`: as for Service.
    """
    if environment.get("DATABASE_URL"):
        environment = {**plugin.generated_keys(), **environment}
    service = Service(directory, {**LONG_TIMEOUTS, **environment}, module)
    try:
        _migrate(service, shared)
        yield service.start()
    finally:
        service.kill()


def _migrate(service: Service, shared: Path) -> None:
    """Migrations take longest here: they run once for each kind of database, whose file or dump is copied."""
    if url := service.env.get("DATABASE_URL"):
        _migrate_postgresql(service, url, shared / "migrated.sql")
        return
    template, data_dir = shared / "migrated", Path(service.env["CALLERID_DATA_DIR"])
    if not template.exists() or data_dir.exists():
        service.manage("migrate", "--verbosity=0")
    if not data_dir.exists():
        shutil.copytree(template, data_dir)
    elif not template.exists():
        shutil.copytree(data_dir, template)


def _migrate_postgresql(service: Service, url: str, dump: Path) -> None:
    with psycopg.connect(url) as database:
        if database.execute("SELECT to_regclass('django_migrations')").fetchone() != (None,):
            return  # another instance's
        if dump.exists():
            database.execute(dump.read_bytes())
            return
    service.manage("migrate", "--verbosity=0")
    if service.env.get("DB_PREPARE") == "false":
        return  # behind a pooler, whose connections would keep pg_dump's settings
    options = ["--no-owner", "--no-privileges", "--inserts"]
    dumped = subprocess.run(
        [servers.postgres_binary("pg_dump"), *options, url], capture_output=True, text=True, check=True
    ).stdout
    # Names are qualified. Settings would outlive the transaction, and psql's own commands are not SQL.
    statements = [line for line in dumped.splitlines() if not re.match(r"SET |SELECT pg_catalog\.set_config|\\", line)]
    dump.write_text("SET LOCAL check_function_bodies = false;\n" + "\n".join(statements), encoding="utf-8")
