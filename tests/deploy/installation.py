"""The shipped nginx configuration in front of two hosts of the service, in network namespaces of their own."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import trustme
import urllib3

from tests import plugin
from tests.deploy import namespaces
from tests.servers import PostgresServer, RedisServer, Server, Unavailable
from tests.service import LONG_TIMEOUTS, START_S, Service

NAME = "callerid.example.com"
PORT, CONSOLE_PORT = 8000, 8001
NGINX_CONF = plugin.ROOT / "deploy" / "nginx" / "callerid.conf"


class SharedPostgres(PostgresServer):
    """Reachable from the hosts too."""

    def command(self) -> list[str]:
        return [*super().command(), "-c", "listen_addresses=*"]

    def start(self) -> "SharedPostgres":
        if not (self.directory / "data").exists():
            self._make_cluster()
            with (self.directory / "data" / "pg_hba.conf").open("a") as rules:
                rules.write("host all all 10.213.0.0/16 trust\n")
        return super().start()


class SharedRedis(RedisServer):
    def command(self) -> list[str]:
        return [*super().command(), "--bind", "*", "--protected-mode", "no"]


class HostService(Service):
    """One host's service, started again whenever it ends, as its systemd unit does."""

    def __init__(self, host: namespaces.Host, directory: Path, environment: dict[str, str], port: int = PORT) -> None:
        super().__init__(directory, {**environment, "HOST": host.address})
        self.address = host.address
        self.env["PORT"] = str(port)
        self.pid_file = directory / "pid"
        loop = f"while :; do {sys.executable} -m callerid_project.serve & echo $! >{self.pid_file}; wait $!; done"
        self._command = host.command("sh", "-c", loop)

    def answers(self) -> bool:
        url, headers = f"http://{self.address}:{self.env['PORT']}/readyz", {"Host": NAME}
        try:
            return urllib3.request("GET", url, headers=headers, retries=False, timeout=5).status == 200
        except urllib3.exceptions.HTTPError:
            return False

    def wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_S
        while not self.answers():
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.05)

    def main_pid(self) -> int:
        return int(self.pid_file.read_text())

    def signal(self, number: signal.Signals) -> None:
        """To the service, but not to what starts it again."""
        os.kill(self.main_pid(), number)


class Nginx(Server):
    """`nginx.conf` of Debian in short, with the shipped configuration."""

    def __init__(self, upstreams: list[str], console: str) -> None:
        super().__init__()
        binary = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        if binary is None:
            raise Unavailable("there is no nginx on PATH or in /usr/sbin")
        self._binary = binary
        self.authority = trustme.CA()
        self.trust = ssl.create_default_context()
        self.authority.configure_trust(self.trust)
        certificate = self.authority.issue_cert(NAME)
        (self.directory / "key.pem").write_bytes(certificate.private_key_pem.bytes())
        (self.directory / "cert.pem").write_bytes(b"".join(part.bytes() for part in certificate.cert_chain_pems))
        text = NGINX_CONF.read_text()
        for shipped, here in {
            f"/etc/ssl/certs/{NAME}.pem": str(self.directory / "cert.pem"),
            f"/etc/ssl/private/{NAME}.key": str(self.directory / "key.pem"),
            "/var/log/nginx/": f"{self.directory}/",
            "/var/www/html": str(self.directory / "html"),
            "127.0.0.1:8001": upstreams[0],
            "127.0.0.1:8002": upstreams[1],
            "127.0.0.1:8000": console,
        }.items():
            assert shipped in text, shipped
            text = text.replace(shipped, here)
        (self.directory / "callerid.conf").write_text(text)
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        temporary = "".join(f"{kind}_temp_path {self.directory}/{kind};" for kind in kinds)
        (self.directory / "nginx.conf").write_text(
            # worker_connections: as in Debian's nginx.conf
            f"daemon off; pid {self.directory}/nginx.pid; events {{ worker_connections 768; }}\n"
            f"http {{ access_log off; {temporary} include {self.directory}/callerid.conf; }}\n"
        )
        self.directory.chmod(0o755)

    @property
    def url(self) -> str:
        return f"https://{NAME}"

    def command(self) -> list[str]:
        return [self._binary, "-e", "stderr", "-c", str(self.directory / "nginx.conf")]

    def test(self) -> str:
        """What `nginx -t` says; raises CalledProcessError if it finds an error."""
        done = subprocess.run([*self.command(), "-t"], capture_output=True, text=True, check=True)
        return done.stderr

    def require_answer(self) -> None:
        try:
            socket.create_connection(("127.0.0.1", 443), timeout=2).close()
        except OSError as error:
            raise psycopg.OperationalError from error  # what `start` waits for

    def log_until(self, request_id: str) -> list[dict[str, Any]]:
        """The log up to the line of this request, which nginx writes after it has sent the response."""
        deadline = time.monotonic() + START_S
        while True:
            lines = [json.loads(line) for line in (self.directory / "callerid.log").read_text().splitlines()]
            for n, line in enumerate(lines):
                if line["request_id"] == request_id:
                    return lines[: n + 1]
            assert time.monotonic() < deadline, lines
            time.sleep(0.02)


@dataclass
class Installation:
    """`hosts`: each with an instance that answers searches. `console`: the instance for pages, on the first of them.
    `commands`: for management commands, in the hub."""

    nginx: Nginx
    hosts: list[HostService]
    console: HostService
    commands: Service
    database_url: str

    def client(self, source: str = "127.0.0.1") -> urllib3.HTTPSConnectionPool:
        """A client with the address `source`, anywhere in 127.0.0.0/8."""
        return urllib3.HTTPSConnectionPool(
            "127.0.0.1",
            443,
            maxsize=32,
            timeout=30,
            retries=False,
            source_address=(source, 0),
            headers={"Host": NAME},
            server_hostname=NAME,
            assert_hostname=NAME,
            ssl_context=self.nginx.trust,
        )

    def search(
        self, key: str, number: str, client: urllib3.HTTPSConnectionPool, **headers: str
    ) -> urllib3.BaseHTTPResponse:
        body = json.dumps({"api_key": key, "query": number}).encode()
        return client.request(
            "POST",
            "/callerid/search",
            body=body,
            headers={"Host": NAME, "Content-Type": "application/json"}
            | {name.replace("_", "-"): value for name, value in headers.items()},
        )

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database_url) as connection:
            return connection.execute(query.encode()).fetchall()


@contextlib.contextmanager
def installation(directory: Path, **environment: str) -> Iterator[Installation]:
    """nginx, two hosts, PostgreSQL and Redis, started, in the environment of callerid.env.example.

    The calling thread is in the hub's namespace meanwhile.
    """
    with contextlib.ExitStack() as opened:
        found = opened.enter_context(namespaces.hosts(2))
        nginx = Nginx([f"{host.address}:{PORT}" for host in found], f"{found[0].address}:{CONSOLE_PORT}")
        opened.callback(nginx.close)
        postgres, redis = SharedPostgres().start(), SharedRedis().start()
        opened.callback(postgres.close)
        opened.callback(redis.close)
        shared = {**example_settings(), **plugin.generated_keys(), **LONG_TIMEOUTS, **environment}
        local_urls = {"DATABASE_URL": postgres.url, "REDIS_URL": redis.url}
        serves_pages = {"SERVE": "console", "SEARCH_URL": f"http://{found[0].address}:{PORT}"}
        services: list[HostService] = []
        for name, host, more, port in (
            *((f"host{n}", host, {}, PORT) for n, host in enumerate(found)),
            ("console", found[0], serves_pages, CONSOLE_PORT),
        ):
            (directory / name).mkdir()
            urls = {name: url.replace("127.0.0.1", host.hub) for name, url in local_urls.items()}
            services.append(HostService(host, directory / name, {**shared, **urls, **more}, port))
            opened.callback(services[-1].kill)
        commands = Service(directory, {**shared, **local_urls})
        commands.manage("migrate", "--verbosity=0")
        with ThreadPoolExecutor() as starters:  # its threads are in the hub too
            list(starters.map(HostService.start, services))
        nginx.start()
        yield Installation(nginx, services[:-1], services[-1], commands, postgres.url)


def example_settings() -> dict[str, str]:
    """What callerid.env.example sets."""
    text = (plugin.ROOT / "deploy" / "systemd" / "callerid.env.example").read_text()
    return dict(re.findall(r"^([A-Z_]+)=(.+)$", text, re.MULTILINE))
