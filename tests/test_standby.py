"""A synchronous standby: the documented commands, and how the service notices that commits do not complete."""

import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
import requests

from tests import plugin
from tests.api import NUMBER
from tests.clusters import PostgresPair
from tests.load import wait_for
from tests.servers import PostgresServer, postgres_binary, required
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.reliability]

Serve = Callable[..., Service]
LIMITS = {"DB_STATEMENT_TIMEOUT_MS": "500", "SEARCH_DEADLINE_S": "1.5", "RATE_LIMIT": "1000/m", "REDIS_URL": ""}
#: Less than wal_sender_timeout, after which PostgreSQL itself disconnects a standby that does not answer.
NOTICED_S = 30


def readiness(service: Service) -> tuple[int, str]:
    answer = requests.get(f"{service.url}/readyz", timeout=10)
    return answer.status_code, answer.json().get("detail", "")


def search(service: Service, key: str) -> int:
    body = {"api_key": key, "query": NUMBER}
    return requests.post(f"{service.url}/callerid/search", json=body, timeout=30).status_code


def new_key(service: Service) -> str:
    return service.manage("create_token", "standby", "--credits", "1000", "--quiet").strip()


def require_readiness(service: Service, *expected: object) -> None:
    deadline = time.monotonic() + NOTICED_S
    while (found := readiness(service)) != expected:
        assert time.monotonic() < deadline, (found, service.log()[-4000:])
        time.sleep(0.1)


def require_ready(service: Service) -> None:
    require_readiness(service, 200, "")


# --- The documented commands -------------------------------------------------------------------------------------


class Host(PostgresServer):
    """A host of docs/reliability.md, on which `run` executes the commands that are documented for it."""

    def __init__(self, name: str) -> None:
        super().__init__(durable=True)
        self.name = name

    def run(self, step: str, others: "dict[str, Host]", *, but: str = "", swap: bool = False) -> None:
        """The commands of `step`, without those that contain `but`; with db1 and db2 exchanged if `swap`."""
        for line in documented(step).splitlines():
            if not but or but not in line:
                self._execute(exchanged(line) if swap else line, others)

    def _execute(self, line: str, others: "dict[str, Host]") -> None:
        words = shlex.split(line, comments=True)
        if words[:1] == ["systemctl"]:
            if words[1] in ("stop", "restart"):
                self.stop()
            if words[1] in ("start", "restart"):
                self.start()
            return
        if words[-1:] == [">/etc/postgresql/$PG/main/start.conf"]:  # Debian's
            return
        assert words[:4] == ["runuser", "-u", "postgres", "--"], line
        user = self.as_unprivileged_user()
        program, *arguments = [self._here(word, others) for word in words[4:] if word != "--pwprompt"]
        done = subprocess.run(
            [program if program == "rm" else postgres_binary(program), *arguments],
            env={"PGHOST": "127.0.0.1", "PGPORT": str(self.port), "PGUSER": "postgres", "PATH": os.defpath},
            cwd=self.directory,
            capture_output=True,
            text=True,
            check=False,
            **user,
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"

    def _here(self, word: str, others: "dict[str, Host]") -> str:
        word = word.replace("/var/lib/postgresql/$PG/main", str(self.directory / "data"))
        word = word.replace("/etc/postgresql/$PG/main", str(self.directory / "data"))
        word = word.replace("/usr/lib/postgresql/$PG/bin/", "")
        return re.sub(r"host=(db\d)", lambda host: f"host=127.0.0.1 port={others[host[1]].port}", word)


def documented(step: str) -> str:
    """The commands below the paragraph that begins with `step`."""
    text = (plugin.ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    section = text.partition("\n### Build, promote and rebuild a standby\n")[2].partition("\n## ")[0]
    found = re.search(rf"^\*\*{step}\*\*.*?^```sh\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def exchanged(line: str) -> str:
    return re.sub("db([12])", lambda host: f"db{3 - int(host[1])}", line)


@pytest.fixture
def hosts() -> Iterator[dict[str, Host]]:
    """db1 runs, without a standby."""
    with required():
        for program in ("pg_basebackup", "pg_rewind", "createuser", "psql"):
            postgres_binary(program)
        hosts = {name: Host(name) for name in ("db1", "db2")}
        hosts["db1"].start()
    yield hosts
    for host in hosts.values():
        host.close()


def url(hosts: dict[str, Host]) -> str:
    addresses = ",".join(f"127.0.0.1:{host.port}" for host in hosts.values())
    return f"postgres://postgres@{addresses}/postgres?target_session_attrs=read-write"


def standbys(host: Host) -> list[tuple[str, str, str]]:
    with psycopg.connect(host.url) as admin:
        return admin.execute("SELECT application_name, state, sync_state FROM pg_stat_replication").fetchall()


def wait_until_confirmed(primary: Host, by: str) -> None:
    wait_for(lambda: standbys(primary) == [(by, "streaming", "quorum")])


def test_documented_standby_is_promoted_and_rebuilt(serve: Serve, hosts: dict[str, Host]) -> None:
    db1, db2 = hosts["db1"], hosts["db2"]
    db1.run("Once, on db1", hosts)
    db2.run("Build, on db2", hosts)
    db1.run("Make it synchronous, on db1", hosts)
    wait_until_confirmed(db1, "db2")
    db2.run("Build, on db2", hosts)  # again: now the copied settings require a standby
    wait_until_confirmed(db1, "db2")
    service = serve(DATABASE_URL=url(hosts), **LIMITS)
    key = new_key(service)
    assert search(service, key) == 200
    db1.kill()
    db2.run("Promote, on db2", hosts)
    require_ready(service)
    wait_for(lambda: search(service, key) == 200)
    # pg_rewind copies the configuration that is in the data directory: on Debian postgresql.auto.conf alone.
    configured = {"postgresql.auto.conf": "deadlock_timeout = '4711'\n", "pg_hba.conf": "# of db2\n"}
    for name, line in configured.items():
        with (db2.directory / "data" / name).open("a") as file:
            file.write(line)
    db1.run("Rebuild, on db1", hosts)
    assert [name for name, line in configured.items() if line not in (db1.directory / "data" / name).read_text()] == []
    db2.run("Make it synchronous, on db1", hosts, swap=True)
    wait_until_confirmed(db2, "db1")
    require_ready(service)
    assert search(service, key) == 200
    db2.kill()
    db1.run("Promote, on db2", hosts)
    require_ready(service)
    wait_for(lambda: search(service, key) == 200)
    assert json.loads(service.manage("audit_credits", "--json")) == {"disagreements": []}


def test_promoted_copy_of_a_synchronous_primary_is_not_ready(serve: Serve, hosts: dict[str, Host]) -> None:
    """It requires the standby that it was itself."""
    db1, db2 = hosts["db1"], hosts["db2"]
    db1.run("Once, on db1", hosts)
    db2.run("Build, on db2", hosts)
    db1.run("Make it synchronous, on db1", hosts)
    wait_until_confirmed(db1, "db2")
    db2.run("Build, on db2", hosts, but="RESET")
    wait_until_confirmed(db1, "db2")
    service = serve(DATABASE_URL=url(hosts), **LIMITS)
    require_ready(service)
    db1.kill()
    db2.run("Promote, on db2", hosts, but="RESET")
    problem = "Commits wait for 1 synchronous standbys, of which 0 are connected"
    require_readiness(service, 503, problem)
    db2.run("Promote, on db2", hosts, but="pg_promote")
    require_ready(service)
    assert search(service, new_key(service)) == 200


# --- What the service notices ------------------------------------------------------------------------------------


@pytest.fixture
def pair() -> Iterator[PostgresPair]:
    """Synchronous; the role `callerid` owns the database and sees nothing of other roles' sessions."""
    with required():
        pair = PostgresPair().start(synchronous=True)
    with psycopg.connect(pair.primary.url, autocommit=True) as admin:
        admin.execute("CREATE ROLE callerid LOGIN")
        admin.execute("ALTER DATABASE postgres OWNER TO callerid")
    yield pair
    pair.close()


def serve_unprivileged(serve: Serve, pair: PostgresPair) -> Service:
    service = serve(DATABASE_URL=pair.primary.url.replace("postgres@", "callerid@"), **LIMITS)
    require_ready(service)
    assert service.doctor("Commits")["ok"] is True
    return service


def test_stopped_standby_is_noticed_without_a_search(serve: Serve, pair: PostgresPair) -> None:
    service = serve_unprivileged(serve, pair)
    key = new_key(service)
    pair.standby.kill()
    problem = "Commits wait for 1 synchronous standbys, of which 0 are connected"
    require_readiness(service, 503, problem)
    check = service.doctor("Commits")
    assert check["ok"] is False
    assert str(check["detail"]).startswith(problem)
    # That conclusion alone refuses no search: a role may not see all standbys.
    assert search(service, key) == 500
    wait_for(lambda: readiness(service) == (503, problem))
    assert search(service, key) == 503
    pair.standby.start()
    require_ready(service)
    wait_for(lambda: search(service, key) == 200)


def test_frozen_standby_is_noticed_after_a_commit(serve: Serve, pair: PostgresPair) -> None:
    """Its connection stays open, and PostgreSQL reports it as streaming."""
    service = serve_unprivileged(serve, pair)
    key = new_key(service)
    assert search(service, key) == 200
    pair.standby.pause()
    assert search(service, key) == 500
    problem = "Commits wait for a synchronous standby that does not confirm them"
    require_readiness(service, 503, problem)
    assert str(service.doctor("Commits")["detail"]).startswith(problem)
    assert readiness(service) == (503, problem)  # without a further commit
    pair.standby.resume()
    require_ready(service)
    assert search(service, key) == 200


def sessions_that_wait(pair: PostgresPair) -> int:
    with psycopg.connect(pair.primary.url) as admin:
        row = admin.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'").fetchone()
        assert row
        return int(row[0])


@pytest.mark.parametrize("idempotent", [False, True], ids=["without keys", "with keys"])
def test_hanging_standby_uses_up_few_connections(serve: Serve, pair: PostgresPair, idempotent: bool) -> None:
    """Each commit keeps its connection, although its client has gone."""
    service = serve_unprivileged(serve, pair)
    keys = [new_key(service) for _ in range(3)]
    answers: list[requests.Response] = []

    def send(index: int) -> requests.Response:
        headers = {"Idempotency-Key": f"search-{index}"} if idempotent else {}
        body = {"api_key": keys[index % 3], "query": NUMBER}
        return requests.post(f"{service.url}/callerid/search", json=body, headers=headers, timeout=30)

    with ThreadPoolExecutor(24) as callers:
        pair.standby.pause()
        while len([each for each in answers if each.status_code == 503]) < 100:
            answers += callers.map(send, range(len(answers), len(answers) + 24))
        assert {each.status_code for each in answers} == {500, 503}
        refused = [each for each in answers if each.status_code == 503]
        assert {(each.headers["Retry-After"], each.json()["detail"]) for each in refused} == {
            ("1", "Service overloaded")
        }
        assert sessions_that_wait(pair) <= 8  # DB_POOL_SIZE
        service.stop()
        service.start()  # and a new process begins none
        require_readiness(service, 503, "Commits wait for a synchronous standby that does not confirm them")
        assert {each.status_code for each in callers.map(send, range(1000, 1024))} == {503}
        assert sessions_that_wait(pair) <= 8
        pair.standby.resume()
        require_ready(service)
        wait_for(lambda: send(2000).status_code == 200)
        wait_for(lambda: not service.unknown_charges())
        assert {each.status_code for each in callers.map(send, range(3000, 3024))} == {200}
    result = json.loads(service.manage("audit_credits", "--json"))
    assert (result["disagreements"], result.get("unknown_charges", {}).get("unknown", 0)) == ([], 0)


def test_hang_that_is_not_shown_keeps_one_session(serve: Serve, pair: PostgresPair) -> None:
    """The service does not see since when it waits; nor would any session wait for a standby if the disk of the
    write-ahead log stalled."""
    with psycopg.connect(pair.primary.url, autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET track_activities = off")
        admin.execute("SELECT pg_reload_conf()")
        service = serve_unprivileged(serve, pair)
        key = new_key(service)
        assert search(service, key) == 200
        pair.standby.pause()
        end = time.monotonic() + 8
        statuses = [search(service, key)]
        while time.monotonic() < end:
            statuses.append(search(service, key))
            time.sleep(0.05)
        assert statuses[0] == 500
        assert set(statuses[1:]) == {503}
        assert sessions_that_wait(pair) == 1
        assert readiness(service) == (503, "A commit did not complete in time")
        pair.standby.resume()
        require_ready(service)
        assert search(service, key) == 200


def test_pages_begin_no_commit_while_a_standby_hangs(serve: Serve, pair: PostgresPair) -> None:
    service = serve_unprivileged(serve, pair)
    script = "from django.contrib.auth.models import User; User.objects.create_superuser('boss', '', 'the right one')"
    service.manage("shell", "--no-imports", "-c", script)
    https = {"X-Forwarded-Proto": "https", "Referer": f"{service.url.replace('http:', 'https:')}/admin/login/"}

    def log_in() -> requests.Response:
        page = requests.get(f"{service.url}/admin/login/", timeout=30)
        form = {"username": "boss", "password": "the right one"}
        form["csrfmiddlewaretoken"] = re.findall(r'csrfmiddlewaretoken" value="(\w+)"', page.text)[0]
        cookies = {"Cookie": "; ".join(f"{name}={value}" for name, value in page.cookies.get_dict().items())}
        url = f"{service.url}/admin/login/"
        return requests.post(url, form, headers=https | cookies, timeout=30, allow_redirects=False)

    assert log_in().status_code == 302
    pair.standby.pause()
    answers = [log_in() for _ in range(9)]
    assert [answer.status_code for answer in answers] == [500] + [503] * 8
    assert "Changes cannot be saved now" in answers[-1].text
    assert answers[-1].headers["Retry-After"] == "1"
    assert sessions_that_wait(pair) == 1
    pair.standby.resume()
    wait_for(lambda: log_in().status_code == 302)
    assert "commits complete again" in service.log()


def test_asynchronous_standby_does_not_count(serve: Serve, pair: PostgresPair) -> None:
    """The service's role does not see that it is asynchronous, but that a commit waits."""
    service = serve_unprivileged(serve, pair)
    key = new_key(service)
    with psycopg.connect(pair.primary.url, autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET synchronous_standby_names = 'another'")
        admin.execute("SELECT pg_reload_conf()")
        wait_for(lambda: admin.execute("SELECT sync_state FROM pg_stat_replication").fetchall() == [("async",)])
        assert search(service, key) == 500
        wait_for(lambda: readiness(service)[0] == 503, timeout_s=NOTICED_S)
        admin.execute("SET synchronous_commit = local")
        admin.execute("GRANT pg_read_all_stats TO callerid")
        problem = "Commits wait for 1 synchronous standbys, of which 0 are connected"
        require_readiness(service, 503, problem)


def test_database_that_accepts_no_writes_is_not_ready(serve: Serve, pair: PostgresPair) -> None:
    service = serve_unprivileged(serve, pair)
    pair.primary.kill()
    service.env["DATABASE_URL"] = pair.standby.url
    check = service.doctor("Commits")
    assert check["ok"] is False
    assert "it is a standby" in str(check["detail"])
