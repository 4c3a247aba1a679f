"""The TLS options of DATABASE_URL are passed to libpq."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.callerid_project.test_settings import manage
from tests.plugin import generated_keys
from tests.servers import PostgresServer, required

pytestmark = [pytest.mark.once, pytest.mark.slow]

SHOW_TLS = (
    "from django.db import connection; cursor = connection.cursor(); "
    "print(cursor.execute('SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()').fetchone()[0])"
)


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


def connect(tmp_path: Path, url: str) -> tuple[str, str]:
    """Whether Django's connection uses TLS, and its error."""
    done = manage(tmp_path, "shell", "--no-imports", "-c", SHOW_TLS, DATABASE_URL=url, **generated_keys())
    return done.stdout.strip(), done.stderr


def test_certificate_of_a_private_authority_is_verified(server: TLSPostgresServer, tmp_path: Path) -> None:
    url = server.url_with(f"sslmode=verify-full&sslrootcert={server.ca}")
    assert connect(tmp_path, url) == ("True", "")


@pytest.mark.parametrize("wrong", ["authority", "name"])
def test_certificate_of_another_authority_or_host_is_refused(
    server: TLSPostgresServer, tmp_path: Path, wrong: str
) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    ca, host = (tmp_path / "other.pem", "localhost") if wrong == "authority" else (server.ca, "127.0.0.1")
    shown, error = connect(tmp_path, server.url_with(f"sslmode=verify-full&sslrootcert={ca}", host))
    assert shown == ""
    expected = "certificate verify failed" if wrong == "authority" else 'does not match host name "127.0.0.1"'
    assert expected in error
