"""OpenLDAP's slapd with integrations/ldap/slapd.conf, and ldapsearch in a telephone's place."""

import base64
import shutil
import socket
import subprocess

from contrib.telephones.slapd_socket import SUFFIX, USER
from tests import plugin
from tests.servers import Server, Unavailable

PASSWORD = "p\u00e4ssword-7"
CONFIGURATION = plugin.ROOT / "integrations" / "ldap" / "slapd.conf"


class SlapdForTelephones(Server):
    """`changes`: texts of the configuration, each with the one that replaces it. It connects to `socket`."""

    def __init__(self, changes: dict[str, str]) -> None:
        super().__init__()
        self.socket = self.directory / "callerid.sock"
        self.changes = changes

    @property
    def url(self) -> str:
        return f"ldap://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        program = shutil.which("slapd", path="/usr/sbin:/usr/bin:/usr/lib/openldap:/usr/local/libexec")
        if program is None or not all(map(shutil.which, ("ldapsearch", "ldapmodify"))):
            raise Unavailable("there is no slapd, or no ldapsearch (Debian: slapd, ldap-utils)")
        text = CONFIGURATION.read_text(encoding="utf-8")
        ours = {
            "/run/slapd/": f"{self.directory}/",
            "/run/callerid-directory/slapd.sock": str(self.socket),
        }
        for old, new in {**ours, **self.changes}.items():
            assert old in text
            text = text.replace(old, new)
        (self.directory / "slapd.conf").write_text(text, encoding="utf-8")
        return [program, "-d", "0", "-f", str(self.directory / "slapd.conf"), "-h", self.url]

    def require_answer(self) -> None:
        socket.create_connection(("127.0.0.1", self.port), timeout=5).close()

    def search(self, filter_: str, *attributes: str, login: tuple[str, str] | None = (USER, PASSWORD)) -> list[str]:
        """The lines of the entries, without base64, each entry after an empty line. Raises CalledProcessError."""
        return self.run("ldapsearch", "-LLL", "-o", "ldif_wrap=no", "-b", SUFFIX, filter_, *attributes, login=login)

    def run(
        self, program: str, *arguments: str, login: tuple[str, str] | None = (USER, PASSWORD), ldif: str = ""
    ) -> list[str]:
        credentials = ["-D", login[0], "-w", login[1]] if login else []
        done = subprocess.run(
            [program, "-x", "-H", self.url, *credentials, *arguments],
            input=ldif.encode(),
            capture_output=True,
            check=True,
            timeout=60,
        )
        return [_text(line) for line in done.stdout.decode().rstrip("\n").split("\n")] if done.stdout.strip() else []


def _text(line: str) -> str:
    name, separator, value = line.partition(":: ")
    return f"{name}: {base64.b64decode(value).decode()}" if separator else line
