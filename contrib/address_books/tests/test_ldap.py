"""Synchronization with OpenLDAP: listing, changes, pages, TLS and failures."""

import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import trustme

from contrib.address_books import ldapsearch
from contrib.address_books.books import Book, BookFailed, Changes, read
from contrib.address_books.tests.conftest import Configure, contacts, counts, run
from contrib.address_books.tests.servers import Slapd

ALICE, BOB = 12125550142, 12125550143


def fetch(slapd: Slapd, known: Mapping[str, str] | None = None, **more: str) -> Changes:
    return ldapsearch.fetch(read("staff", slapd.environment(**more)), known=known or {})


@pytest.mark.django_db
def test_only_changes_are_transferred(slapd: Slapd, configure: Configure) -> None:
    configure(slapd.environment())
    slapd.add("a", "Alice Example", "+1 212 555 0142", place="Berlin")
    slapd.add("b", "Bob Example", "+1 212 555 0143")
    slapd.add("c", "Without Number")
    assert counts(run("staff")) == (2, 2, 0, 0)
    assert contacts() == {ALICE: ("Alice Example", "Berlin", "staff"), BOB: ("Bob Example", "", "staff")}
    assert counts(run("staff")) == (0, 0, 0, 0)
    slapd.replace("b", "displayName", "Bob Changed")
    slapd.delete("a")
    assert counts(run("staff")) == (1, 0, 1, 1)
    assert contacts() == {BOB: ("Bob Changed", "", "staff")}
    slapd.replace("c", "mobile", "+1 212 555 0142")
    assert counts(run("staff")) == (1, 1, 0, 0)
    assert counts(run("staff", full=True)) == (2, 0, 0, 0)


@pytest.mark.django_db
def test_incomplete_list_deletes_nothing(slapd: Slapd, configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(slapd.environment())
    slapd.add("a", "Alice Example", "+1 212 555 0142")
    run("staff")
    people = (slapd.person(f"p{n}", f"Person {n}", f"+1 212 555 {n:04}") for n in range(100, 400))
    slapd.change("".join(people))
    monkeypatch.setattr(ldapsearch, "PAGE", 1_000)  # more than the server allows
    assert run("staff").errors == ["an administrative limit of the server ended the list"]
    assert contacts().keys() == {ALICE}


@pytest.mark.once
def test_more_entries_than_the_size_limit_are_read_in_pages(slapd: Slapd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ldapsearch, "PAGE", 100)
    slapd.change("".join(slapd.person(f"p{n}", f"Person {n}", f"+1 212 555 {n:04}") for n in range(100, 400)))
    changes = fetch(slapd)
    assert len(changes.cards) == 300
    known = {key: card.version for key, card in changes.cards.items()}
    slapd.delete("p100")
    slapd.replace("p101", "l", "Springfield")
    slapd.replace("p102", "description", "An attribute that is not read")
    later = fetch(slapd, known)
    assert [card.contacts for card in later.cards.values()] == [{12125550101: ("Person 101", "Springfield")}]
    assert len(later.removed) == 1


@pytest.mark.once
def test_url_selects_attributes_scope_and_filter(slapd: Slapd) -> None:
    slapd.add("a", "Alice Example", "+1 212 555 0142")
    slapd.replace("a", "pager", "+1 212 555 0144")
    slapd.add("b", "Bob Example", "+1 212 555 0143")
    slapd.add("c", "\u5f20\u4f1f", "+1 212 555 0145", place="M\u00fcnchen")

    def found(query: str) -> list[dict[int, tuple[str, str]]]:
        return [card.contacts for card in fetch(slapd, URL=f"{slapd.url}/{slapd.PEOPLE}{query}").cards.values()]

    assert found("?pager,telephoneNumber?one?(uid=a)") == [
        {12125550144: ("Alice Example", ""), ALICE: ("Alice Example", "")}
    ]
    assert found("?pager") == [{12125550144: ("Alice Example", "")}]
    assert found("??base") == []
    assert found("???(cn=%E5%BC%A0%E4%BC%9F)") == [{12125550145: ("\u5f20\u4f1f", "M\u00fcnchen")}]


@pytest.mark.once
@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"PASSWORD": "wrong"}, "the server rejected the user or the password"),
        ({"USER": "nonsense"}, "the server says that the base or the user is no valid DN"),
        ({"URL": "ldap://127.0.0.1:9/dc=example,dc=org"}, "the server could not be reached"),
        ({"URL": "{url}/ou=nobody,dc=example,dc=org"}, "the server has no such base"),
        ({"URL": "{url}/dc=example,dc=org???(!!)"}, "the filter is invalid"),
    ],
)
def test_failures_are_explained(slapd: Slapd, more: dict[str, str], reason: str) -> None:
    changed = {name: value.replace("{url}", slapd.url) for name, value in more.items()}
    with pytest.raises(BookFailed) as error:
        fetch(slapd, None, **changed)
    assert str(error.value).startswith(reason)


@pytest.mark.once
@pytest.mark.parametrize("trusted", [True, False], ids=["right", "wrong"])
@pytest.mark.parametrize("scheme", ["ldaps", "ldap"])
def test_certificate_is_verified(
    slapd: Slapd,
    authority: trustme.CA,
    tmp_path: Path,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    scheme: str,
    trusted: bool,
) -> None:
    (authority if trusted else trustme.CA()).cert_pem.write_to_path(tmp_path / "authority.pem")
    settings.CA_BUNDLE = str(tmp_path / "authority.pem")
    monkeypatch.setattr(Book, "is_loopback", False)  # so ldap:// needs StartTLS
    slapd.add("a", "Alice Example", "+1 212 555 0142")
    url = f"{slapd.tls_url if scheme == 'ldaps' else slapd.url}/{slapd.PEOPLE}"
    if trusted:
        assert len(fetch(slapd, URL=url).cards) == 1
    else:
        with pytest.raises(BookFailed, match="TLS"):
            fetch(slapd, URL=url)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """`program(script)`: instead of ldapsearch."""

    def write(script: str) -> None:
        file = tmp_path / "bin" / "ldapsearch"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!{shutil.which('sh')}\n{script}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{file.parent}:/usr/bin:/bin")

    return write


STAFF = {
    "ADDRESS_BOOK_STAFF_URL": "ldaps://ldap.example.org/dc=example,dc=org",
    "ADDRESS_BOOK_STAFF_USER": "cn=reader",
    "ADDRESS_BOOK_STAFF_PASSWORD": "secret-7",
}


@pytest.mark.once
def test_password_is_neither_argument_nor_environment(program: Callable[[str], None], tmp_path: Path) -> None:
    program(f'echo "$@" >{tmp_path}/seen; env >>{tmp_path}/seen; cat >{tmp_path}/password')
    assert ldapsearch.fetch(read("staff", STAFF), known={}) == Changes()
    seen = (tmp_path / "seen").read_text()
    assert "-y /dev/stdin" in seen
    assert "LDAPTLS_REQCERT=demand" in seen
    assert "secret-7" not in seen
    assert (tmp_path / "password").read_text() == "secret-7"


@pytest.mark.once
def test_endless_and_late_results_are_cut_off(program: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ldapsearch, "MAX_RESULT_BYTES", 2**20)
    program("exec yes 'uid: a'")
    with pytest.raises(BookFailed, match="the result is larger than 1 MiB"):
        ldapsearch.fetch(read("staff", STAFF), known={})
    monkeypatch.setattr(ldapsearch, "SEARCH_TIMEOUT_S", 0.3)
    program("exec sleep 60")
    with pytest.raises(BookFailed, match="the result did not arrive within 0 s"):
        ldapsearch.fetch(read("staff", STAFF), known={})


@pytest.mark.once
def test_entries_of_active_directory_are_understood(program: Callable[[str], None]) -> None:
    program(
        "cat <<'END'\n"
        "dn: CN=Alice\nobjectGUID:: AQIDBAUGBwgJCgsMDQ4PEA==\ndisplayName: Alice Example\n"
        "telephoneNumber: +12125550142\nl: Berlin\nco: Germany\n\n# refldaps://other.example.org/\n\nEND"
    )
    changes = ldapsearch.fetch(read("staff", STAFF), known={})
    (card,) = changes.cards.values()
    assert card.label == "(objectGUID=\\01\\02\\03\\04\\05\\06\\07\\08\\09\\0a\\0b\\0c\\0d\\0e\\0f\\10)"
    assert card.contacts == {ALICE: ("Alice Example", "Berlin")}
    known = {key: card.version for key, card in changes.cards.items()}
    assert ldapsearch.fetch(read("staff", STAFF), known=known) == Changes()


@pytest.mark.once
def test_entries_without_an_id_are_refused(program: Callable[[str], None]) -> None:
    program("printf 'dn: cn=a\\ncn: a\\n\\n'")
    with pytest.raises(BookFailed, match="entries without an entryUUID"):
        ldapsearch.fetch(read("staff", STAFF), known={})


@pytest.mark.once
def test_missing_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BookFailed, match="ldap-utils"):
        ldapsearch.fetch(read("staff", STAFF), known={})
