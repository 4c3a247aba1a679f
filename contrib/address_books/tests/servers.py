"""Real servers of address books: Radicale (CardDAV) behind a proxy that records and fails, and OpenLDAP's slapd."""

import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self
from uuid import uuid4

import requests
import trustme
from requests.auth import HTTPBasicAuth

from tests.servers import Server, Unavailable, free_port
from tests.upstream import Behaviour, Conversation, Upstream

USER, PASSWORD = "desk", "p\u00e4ssword-7"


class Radicale(Server):
    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        (self.directory / "users").write_text(f"{USER}:{PASSWORD}\n", encoding="utf-8")
        options = {
            "server-hosts": f"127.0.0.1:{self.port}",
            "auth-type": "htpasswd",
            "auth-htpasswd-filename": str(self.directory / "users"),
            "auth-htpasswd-encryption": "plain",
            "auth-delay": "0",
            "storage-filesystem-folder": str(self.directory / "collections"),
            "web-type": "none",
            "logging-level": "warning",
        }
        return [
            sys.executable,
            "-m",
            "radicale",
            "--config",
            "",
            *(f"--{name}={text}" for name, text in options.items()),
        ]

    def require_answer(self) -> None:
        requests.get(self.url, timeout=5)


def vcard(name: str, *numbers: str, place: str = "") -> str:
    lines = ["BEGIN:VCARD", "VERSION:3.0", "UID:", f"FN:{name}", f"N:{name};;;;"]
    lines += [f"ADR:;;;{place};;;"] if place else []
    return "\r\n".join([*lines, *(f"TEL:{number}" for number in numbers), "END:VCARD", ""])


def multistatus(*members: str) -> str:
    return f'<multistatus xmlns="DAV:" xmlns:C="urn:ietf:params:xml:ns:carddav">{"".join(members)}</multistatus>'


def collection(path: str) -> str:
    """The address book itself."""
    return (
        f"<response><href>{path}</href><propstat><prop><resourcetype><collection/><C:addressbook/></resourcetype></prop>"
        "<status>HTTP/1.1 200 OK</status></propstat></response>"
    )


def member(path: str, etag: str, card: str = "") -> str:
    data = f"<C:address-data>{card}</C:address-data>" if card else ""
    return (
        f"<response><href>{path}</href><propstat><prop><getetag>{etag}</getetag>{data}</prop>"
        "<status>HTTP/1.1 200 OK</status></propstat></response>"
    )


def status_of(path: str, status: int) -> str:
    return f"<response><href>{path}</href><status>HTTP/1.1 {status} X</status></response>"


@dataclass
class CardDAVBook:
    """An address book of its own on Radicale. The service reaches it through a proxy, which records the requests;
    `faults`: how the next ones are answered instead, None by Radicale."""

    radicale: Radicale
    faults: list[Behaviour | None] = field(default_factory=list)
    tls: ssl.SSLContext | None = None

    def start(self) -> Self:
        self.path = f"/{USER}/{uuid4().hex}/"
        self.proxy = Upstream(self._behave, self.tls).start()
        body = (
            '<?xml version="1.0"?><mkcol xmlns="DAV:" xmlns:C="urn:ietf:params:xml:ns:carddav"><set><prop>'
            "<resourcetype><collection/><C:addressbook/></resourcetype></prop></set></mkcol>"
        )
        self._change("MKCOL", "", body)
        return self

    @property
    def url(self) -> str:
        return self.proxy.url + self.path

    def environment(self, name: str = "office") -> dict[str, str]:
        prefix = f"ADDRESS_BOOK_{name.upper()}"
        return {f"{prefix}_URL": self.url, f"{prefix}_USER": USER, f"{prefix}_PASSWORD": PASSWORD}

    def put(self, **cards: str) -> None:
        for name, text in cards.items():
            self._change("PUT", f"{name}.vcf", text.replace("UID:", f"UID:{name}"))

    def delete(self, *names: str) -> None:
        for name in names:
            self._change("DELETE", f"{name}.vcf")

    def requests(self) -> list[str]:
        """The method of each request since the last call: PROPFIND lists, REPORT transfers."""
        found = [head.split(b" ", 1)[0].decode() for head in self.proxy.heads]
        self.proxy.heads.clear()
        self.proxy.bodies.clear()
        return found

    def _change(self, method: str, name: str, body: str = "") -> None:
        response = requests.request(
            method,
            self.radicale.url + self.path + name,
            data=body.encode(),
            auth=HTTPBasicAuth(USER.encode(), PASSWORD.encode()),
            headers={"Content-Type": "text/vcard" if method == "PUT" else "application/xml"},
            timeout=30,
        )
        response.raise_for_status()

    def _behave(self, conversation: Conversation) -> bool:
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            return fault(conversation)
        first, *lines = conversation.head.decode("latin-1").split("\r\n")
        headers: Mapping[str, str] = dict(line.split(": ", 1) for line in lines)
        method, path, _ = first.split(" ")
        answer = requests.request(
            method, self.radicale.url + path, data=conversation.body, headers=headers, timeout=30, allow_redirects=False
        )
        conversation.reply(answer.status_code, answer.content, f"Content-Type: {answer.headers['Content-Type']}\r\n")
        return True


class Slapd(Server):
    """With the suffix dc=example,dc=org, an administrator, and a reader, who may not read more than 200 entries but in
    pages. `authority`: of its certificate for 127.0.0.1."""

    ADMIN, READER, PASSWORD = "cn=admin,dc=example,dc=org", "cn=reader,dc=example,dc=org", "p\u00e4ssword-7"
    PEOPLE = "ou=people,dc=example,dc=org"

    def __init__(self, authority: trustme.CA) -> None:
        super().__init__()
        self.tls_port = free_port()
        certificate = authority.issue_cert("127.0.0.1")
        certificate.private_key_pem.write_to_path(self.directory / "key.pem")
        certificate.cert_chain_pems[0].write_to_path(self.directory / "certificate.pem")
        authority.cert_pem.write_to_path(self.directory / "authority.pem")

    @property
    def url(self) -> str:
        return f"ldap://127.0.0.1:{self.port}"

    @property
    def tls_url(self) -> str:
        return f"ldaps://127.0.0.1:{self.tls_port}"

    def command(self) -> list[str]:
        program = shutil.which("slapd", path="/usr/sbin:/usr/bin:/usr/lib/openldap:/usr/local/libexec")
        if program is None or shutil.which("ldapsearch") is None or shutil.which("ldapmodify") is None:
            raise Unavailable("there is no slapd, or no ldapsearch (Debian: slapd, ldap-utils)")
        (self.directory / "data").mkdir(exist_ok=True)
        (self.directory / "slapd.conf").write_text(
            "\n".join(
                [
                    *(f"include /etc/ldap/schema/{name}.schema" for name in ("core", "cosine", "inetorgperson")),
                    "modulepath /usr/lib/ldap",
                    "moduleload back_mdb",
                    f"pidfile {self.directory}/pid",
                    f"TLSCertificateFile {self.directory}/certificate.pem",
                    f"TLSCertificateKeyFile {self.directory}/key.pem",
                    "database mdb",
                    "suffix dc=example,dc=org",
                    f"rootdn {self.ADMIN}",
                    f"rootpw {self.PASSWORD}",
                    f"directory {self.directory}/data",
                    "dbnosync",
                    "limits users size.soft=200 size.hard=200 size.prtotal=unlimited size.pr=500",
                    "access to attrs=userPassword by anonymous auth by * none",
                    "access to * by users read by * none",
                    "",
                ]
            ),
            encoding="utf-8",
        )
        urls = f"{self.url} {self.tls_url}"
        return [program, "-d", "0", "-f", str(self.directory / "slapd.conf"), "-h", urls]

    def require_answer(self) -> None:
        socket.create_connection(("127.0.0.1", self.tls_port), timeout=5).close()

    def start(self) -> Self:
        super().start()
        self.change(
            "dn: dc=example,dc=org\nchangetype: add\nobjectClass: dcObject\nobjectClass: organization\n"
            "dc: example\no: Example\n\n"
            f"dn: {self.READER}\nchangetype: add\nobjectClass: organizationalRole\nobjectClass: simpleSecurityObject\n"
            f"cn: reader\nuserPassword: {self.PASSWORD}\n\n"
            f"dn: {self.PEOPLE}\nchangetype: add\nobjectClass: organizationalUnit\nou: people\n"
        )
        return self

    def change(self, ldif: str) -> None:
        """Apply changes (RFC 2849)."""
        subprocess.run(
            ["ldapmodify", "-x", "-H", self.url, "-D", self.ADMIN, "-w", self.PASSWORD],
            input=ldif.encode(),
            check=True,
            capture_output=True,
        )

    def add(self, uid: str, name: str, *numbers: str, place: str = "") -> None:
        self.change(self.person(uid, name, *numbers, place=place))

    def person(self, uid: str, name: str, *numbers: str, place: str = "") -> str:
        lines = [f"dn: uid={uid},{self.PEOPLE}", "changetype: add", "objectClass: inetOrgPerson", f"uid: {uid}"]
        lines += [f"cn: {name}", f"sn: {name}", *(f"telephoneNumber: {number}" for number in numbers)]
        return "\n".join([*lines, *([f"l: {place}"] if place else []), "", ""])

    def replace(self, uid: str, attribute: str, value: str) -> None:
        self.change(f"dn: uid={uid},{self.PEOPLE}\nchangetype: modify\nreplace: {attribute}\n{attribute}: {value}\n")

    def delete(self, *uids: str) -> None:
        self.change("\n".join(f"dn: uid={uid},{self.PEOPLE}\nchangetype: delete\n" for uid in uids))

    def environment(self, name: str = "staff", url: str = "", **more: str) -> dict[str, str]:
        prefix = f"ADDRESS_BOOK_{name.upper()}"
        settings = {"URL": f"{url or self.url}/{self.PEOPLE}", "USER": self.READER, "PASSWORD": self.PASSWORD, **more}
        return {f"{prefix}_{key}": value for key, value in settings.items()}

    def empty(self) -> None:
        listed = subprocess.run(
            [
                *("ldapsearch", "-x", "-LLL", "-H", self.url, "-D", self.ADMIN, "-w", self.PASSWORD),
                *("-o", "ldif_wrap=no", "-b", self.PEOPLE, "-s", "one", "(uid=*)", "1.1"),
            ],
            check=True,
            capture_output=True,
            text=True,
        )
        names = [line for line in listed.stdout.splitlines() if line.startswith("dn:")]
        if names:
            self.change("\n".join(f"{name}\nchangetype: delete\n" for name in names))
