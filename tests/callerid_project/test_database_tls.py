"""The TLS options of DATABASE_URL apply to Django's connections and to those of searches."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.callerid_project.test_settings import manage
from tests.plugin import generated_keys
from tests.servers import PostgresServer, required

pytestmark = [pytest.mark.once, pytest.mark.slow]

SHOW_TLS = {
    "Django": (
        "from django.db import connection; cursor = connection.cursor(); "
        "print(cursor.execute('SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()').fetchone()[0])"
    ),
    "pool": """
from core import loop
from core.postgresql.pool import Pool

async def show():
    pool = Pool(1, 20)
    await pool.open()
    print((await pool.fetch("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", []))[0][0])

loop.run(show())
""",
}


class TLSPostgresServer(PostgresServer):
    """With a certificate for `localhost`, issued by a private authority."""

    def __init__(self, authority: trustme.CA) -> None:
        super().__init__()
        self.ca = self.directory / "ca.pem"
        authority.cert_pem.write_to_path(self.ca)
        self._certificate = authority.issue_cert("localhost")

    def url_with(self, options: str, host: str = "localhost") -> str:
        return f"postgres://postgres@{host}:{self.port}/postgres?{options}"

    def command(self) -> list[str]:
        pem = self.directory / "server.pem"
        if not pem.exists():
            self._certificate.private_key_and_cert_chain_pem.write_to_path(pem)
            pem.chmod(0o600)
            os.chown(pem, self._running_as.get("user", -1), self._running_as.get("group", -1))
        return [*super().command(), "-c", "ssl=on", "-c", f"ssl_cert_file={pem}", "-c", f"ssl_key_file={pem}"]


@pytest.fixture(scope="module")
def server() -> Iterator[TLSPostgresServer]:
    with required():
        server = TLSPostgresServer(trustme.CA()).start()
    yield server
    server.close()


def connect(tmp_path: Path, url: str, by: str) -> tuple[str, str]:
    """Whether the connection uses TLS, and its error."""
    done = manage(tmp_path, "shell", "--no-imports", "-c", SHOW_TLS[by], DATABASE_URL=url, **generated_keys())
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize("by", SHOW_TLS)
@pytest.mark.parametrize(("options", "encrypted"), [("sslmode=disable", "False"), ("sslmode=require", "True")])
def test_sslmode_says_whether_a_connection_is_encrypted(
    server: TLSPostgresServer, tmp_path: Path, by: str, options: str, encrypted: str
) -> None:
    assert connect(tmp_path, server.url_with(options), by) == (encrypted, "")


@pytest.mark.parametrize("by", SHOW_TLS)
@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
def test_certificate_of_a_private_authority_is_verified(
    server: TLSPostgresServer, tmp_path: Path, by: str, mode: str
) -> None:
    url = server.url_with(f"sslmode={mode}&sslrootcert={server.ca}")
    assert connect(tmp_path, url, by) == ("True", "")


@pytest.mark.parametrize("by", SHOW_TLS)
@pytest.mark.parametrize("wrong", ["authority", "name"])
def test_certificate_of_another_authority_or_host_is_refused(
    server: TLSPostgresServer, tmp_path: Path, by: str, wrong: str
) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    ca, host = (tmp_path / "other.pem", "localhost") if wrong == "authority" else (server.ca, "127.0.0.1")
    shown, error = connect(tmp_path, server.url_with(f"sslmode=verify-full&sslrootcert={ca}", host), by)
    assert shown == ""
    assert "certificate verify failed" in error or 'does not match host name "127.0.0.1"' in error
