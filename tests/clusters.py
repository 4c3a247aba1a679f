"""Servers that work together: a Redis with a replica and a Sentinel, a PostgreSQL with a standby."""

import subprocess
from typing import Self

import psycopg
import redis

from tests.load import wait_for
from tests.servers import PostgresServer, RedisServer, Unavailable, free_port, postgres_binary

PASSWORD = "of-the-redis"


class RedisNode(RedisServer):
    """With a password, which its replicas know too."""

    def __init__(self, replica_of: RedisServer | None = None) -> None:
        super().__init__()
        self._replica_of = replica_of

    @property
    def url(self) -> str:
        return f"redis://:{PASSWORD}@127.0.0.1:{self.port}/0"

    def command(self) -> list[str]:
        master = ["--replicaof", "127.0.0.1", str(self._replica_of.port)] if self._replica_of else []
        secret = ["--requirepass", PASSWORD, "--masterauth", PASSWORD]
        return [*super().command(), *secret, "--repl-diskless-sync-delay", "0", *master]


class Sentinel(RedisServer):
    """Alone, so it decides alone: within a second of the master's end."""

    def __init__(self, master: RedisServer) -> None:
        super().__init__()
        self._master = master

    def start(self) -> Self:
        name = "sentinel {} mymaster"
        (self.directory / "sentinel.conf").write_text(
            f"port {self.port}\nbind 127.0.0.1\n"
            f"{name.format('monitor')} 127.0.0.1 {self._master.port} 1\n"
            f"{name.format('auth-pass')} {PASSWORD}\n"
            f"{name.format('down-after-milliseconds')} 500\n"
            f"{name.format('failover-timeout')} 2000\n"
        )
        return super().start()

    def command(self) -> list[str]:
        binary = super().command()[0]
        return [binary, str(self.directory / "sentinel.conf"), "--sentinel"]


class RedisCluster:
    """A master, its replica and a Sentinel. `url` names two Sentinels, the first of which does not run."""

    def __init__(self) -> None:
        self.master = RedisNode()
        self.replica = RedisNode(self.master)
        self.sentinel = Sentinel(self.master)
        sentinels = f"127.0.0.1:{free_port()},127.0.0.1:{self.sentinel.port}"
        self.url = f"sentinel://:{PASSWORD}@{sentinels}/mymaster/0"

    def start(self) -> Self:
        self.master.start()
        self.replica.start()
        self.sentinel.start()
        with redis.Redis.from_url(self.sentinel.url, decode_responses=True) as client:
            wait_for(lambda: any(row["flags"] == "slave" for row in client.sentinel_slaves("mymaster")))
        return self

    def wait_for_failover(self) -> None:
        """Until the Sentinel says that the replica is the master, and it is."""
        master = {"ip": "127.0.0.1", "port": self.replica.port, "is_sdown": False}
        with redis.Redis.from_url(self.sentinel.url) as sentinel, redis.Redis.from_url(self.replica.url) as replica:
            wait_for(lambda: master.items() <= sentinel.sentinel_masters()["mymaster"].items())
            wait_for(lambda: replica.role()[0] == b"master")

    def close(self) -> None:
        for server in (self.sentinel, self.replica, self.master):
            server.close()


class Standby(PostgresServer):
    """A hot standby by streaming replication, until `promote`."""

    def __init__(self, primary: PostgresServer) -> None:
        super().__init__()
        self._primary = primary

    def _make_cluster(self) -> None:
        command = [postgres_binary("pg_basebackup"), "-D", str(self.directory / "data"), "-d", self._primary.url]
        options = ["--write-recovery-conf", "--checkpoint=fast", "--no-sync"]
        made = subprocess.run(
            [*command, *options],
            cwd=self.directory,
            capture_output=True,
            text=True,
            check=False,
            **self.as_unprivileged_user(),
        )
        if made.returncode:
            raise Unavailable(f"pg_basebackup failed:\n{made.stderr}")

    def promote(self) -> None:
        """Returns once it accepts writes."""
        with psycopg.connect(self.url) as admin:
            assert admin.execute("SELECT pg_promote(true, 30)").fetchone() == (True,)


class PostgresPair:
    """A primary and its standby. `url`: of whichever accepts writes."""

    def __init__(self) -> None:
        self.primary = PostgresServer()
        self.standby = Standby(self.primary)
        hosts = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}"
        self.url = f"postgres://postgres@{hosts}/postgres?target_session_attrs=read-write"

    def start(self, *, synchronous: bool) -> Self:
        self.primary.start()
        self.standby.start()
        with psycopg.connect(self.primary.url, autocommit=True) as admin:
            if synchronous:
                admin.execute("ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'")
                admin.execute("SELECT pg_reload_conf()")
            state = "quorum" if synchronous else "async"
            query = "SELECT state, sync_state FROM pg_stat_replication"
            wait_for(lambda: admin.execute(query).fetchall() == [("streaming", state)])
        return self

    def close(self) -> None:
        for server in (self.standby, self.primary):
            server.close()
