"""integrations/ldap: telephones' searches, by ldapsearch through a real slapd."""

import asyncio
import contextlib
import gc
import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import OperationalError

from contrib.telephones import directory, paid_search, slapd_socket
from contrib.telephones.slapd_socket import USER
from contrib.telephones.tests.slapd import PASSWORD, SlapdForTelephones
from core import loop
from core.text import storable
from phonebook import rules
from phonebook.models import Contact
from tests import plugin
from tests.integrations.vectors import GERMANY, NAMES
from tests.servers import PostgresServer, required
from tests.service import Service
from tests.upstream import Upstream, hangs, raw, says

NUMBER = 493023125555
NAME = "Musterhaus Advisors"
ANSWER = {
    "data": {
        "source_a": {"name": NAME, "location": "Berlin"},
        "source_b": {"spam": False},
        "combined": {"source_a_available": True, "source_b_available": False},
    },
    "credits_remaining": 4,
}
#: % is the number or the name.
BY_NUMBER = [
    "(|(telephoneNumber=%)(mobile=%)(ipPhone=%))",
    "(&(telephoneNumber=%)(sn=*))",
    "(|(telephoneNumber=%)(Mobile=%))",
]
BY_NAME = ["(|(cn=%)(sn=%))", "(&(telephoneNumber=*)(sn=%))", "(|(cn=*%*)(sn=*%*))"]


@contextlib.contextmanager
def started(changes: dict[str, str]) -> Iterator[SlapdForTelephones]:
    """What it asks is answered only in `answered`."""
    with required():
        server = SlapdForTelephones(changes).start()
    listening = loop.run(slapd_socket.serve(server.socket))

    async def close() -> None:
        listening.close()

    yield server
    server.close()
    loop.run(close())


@pytest.fixture(scope="module")
def slapd() -> Iterator[SlapdForTelephones]:
    with started({}) as server:
        yield server


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.LDAP_PASSWORD = PASSWORD
    for name, value in GERMANY.items():
        setattr(settings, name, value)
    monkeypatch.setattr(slapd_socket, "DEADLINE_S", 20)
    monkeypatch.setattr(paid_search, "SHARED_S", 0)


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """`answered(function, ...)`: its result. Meanwhile searches run in this thread, with the test's connection."""
    jobs: SimpleQueue[loop.Job | None] = SimpleQueue()

    async def run_with_connection(function: Callable[[], Any]) -> Any:
        future: Future[Any] = Future()
        jobs.put((function, future))
        return await asyncio.wrap_future(future)

    def run(function: Callable[..., list[str]], *arguments: Any, **options: Any) -> list[str]:
        with ThreadPoolExecutor(1) as threads:
            done = threads.submit(function, *arguments, **options)
            done.add_done_callback(lambda _: jobs.put(None))
            while job := jobs.get():
                loop.execute(*job)
            return done.result()

    monkeypatch.setattr(loop, "run_with_connection", run_with_connection)
    return run


@pytest.fixture
def search(slapd: SlapdForTelephones, answered: Callable[..., list[str]]) -> Callable[..., list[str]]:
    return partial(answered, slapd.search)


def test_filters_are_the_documented_ones() -> None:
    page = (plugin.ROOT / "docs" / "telephone-systems.md").read_text(encoding="utf-8")
    assert all(each in page for each in [*BY_NUMBER, *BY_NAME[:2]])


@pytest.mark.django_db
def test_telephones_filters_find_the_number(search: Callable[..., list[str]]) -> None:
    Contact.objects.create(number=NUMBER, name=NAME, location="Berlin")
    assert search(f"(telephoneNumber=+{NUMBER})") == [
        "dn: uid=493023125555,dc=callerid",
        "objectClass: inetOrgPerson",
        "uid: 493023125555",
        f"cn: {NAME}",
        f"sn: {NAME}",
        f"displayName: {NAME}",
        "l: Berlin",
        "telephoneNumber: +493023125555",
    ]
    for each in BY_NUMBER:
        for caller in ("+493023125555", "00493023125555", "03023125555", "493023125555", "+49 30 2312-5555"):
            found = search(each.replace("%", caller), "cn")
            assert found == ["dn: uid=493023125555,dc=callerid", f"cn: {NAME}"], (each, caller)
    # What a prefix search of a complete number adds.
    assert len(search(f"(|(telephoneNumber=+{NUMBER}*)(mobile=*{NUMBER}*))", "cn")) == 2
    for other in ("+493023125556", "+4930231255550", "030231", "anonymous", "1" * 16):
        for each in BY_NUMBER:
            assert search(each.replace("%", other)) == [], other


@pytest.mark.django_db
def test_rules_apply_as_in_a_search(search: Callable[..., list[str]]) -> None:
    Contact.objects.create(number=NUMBER, name=NAME)
    rules.set_rule("4930", is_prefix=True, spam=True)
    assert search(f"(mobile=+{NUMBER})", "cn")[1:] == [f"cn: Spam: {NAME}"]
    assert search("(mobile=+493023125556)", "cn")[1:] == ["cn: Spam: +493023125556"]
    rules.set_rule(str(NUMBER), name="Known", spam=False)
    assert search(f"(mobile=+{NUMBER})", "cn")[1:] == ["cn: Known"]


@pytest.mark.django_db
def test_telephones_filters_find_names(search: Callable[..., list[str]]) -> None:
    Contact.objects.create(number=NUMBER, name=NAME)
    Contact.objects.create(number=NUMBER + 1, name="B\u00e4ckerei M\u00fcller (S\u00fcd)*")
    Contact.objects.create(number=NUMBER + 2, name="Alpha Muster")
    for each in BY_NAME:
        assert [line for line in search(each.replace("%", "Muster"), "cn") if line.startswith("cn")] == [
            "cn: Alpha Muster",
            f"cn: {NAME}",
        ]
        assert search(each.replace("%", "m\u00fcller \\28s\u00fcd\\29\\2a"), "telephoneNumber")[1:] == [
            "telephoneNumber: 03023125556",
            "telephoneNumber: +493023125556",
        ]
        assert search(each.replace("%", "m")) == []
        assert search(each.replace("%", "nobody")) == []
    assert search("(objectClass=*)") == []
    assert search("(cn=*)") == []


@pytest.mark.django_db
def test_filter_is_no_injection(search: Callable[..., list[str]]) -> None:
    Contact.objects.create(number=NUMBER, name=NAME)
    for value in (
        "x\\0aRESULT\\0acode: 0\\0a\\0a",
        "\\29\\28cn=\\2a",
        "' OR 1=1 --",
        "%",
        "_u%",
        "\\00\\ff",
        "\\5c2a",
    ):
        assert search(f"(cn={value})") == [], value
        assert search(f"(telephoneNumber={value})") == [], value
    # An attribute's name, which arrives as the telephone sends it.
    with contextlib.suppress(subprocess.CalledProcessError):
        assert search("(cn=nobody)", "cn\nfilter: (cn=Muster)\n\n") == []


@pytest.mark.django_db
def test_names_are_cleaned_and_stay_one_value(search: Callable[..., list[str]]) -> None:
    hostile = [(name, shown) for name, shown in NAMES if shown and storable(name) == name and len(name) <= 200] + [
        ("x\ndn: uid=1,dc=callerid", "x dn: uid=1,dc=callerid"),
        (" x", "x"),
        (":: eA==", ":: eA=="),
        ("< file:///etc/passwd", "file:///etc/passwd"),
        ("x\n\nRESULT\ncode: 80", "x RESULT code: 80"),
    ]
    for number, (name, shown) in enumerate(hostile, NUMBER):
        Contact.objects.bulk_create([Contact(number=number, name=name, location=name)])
        lines = search(f"(telephoneNumber=+{number})", "cn", "l", "telephoneNumber")
        found = [f"dn: uid={number},dc=callerid", f"cn: {shown}", f"l: {shown}", f"telephoneNumber: +{number}"]
        assert lines == found, name


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("filter_", "numbers"),
    [
        ("(telephoneNumber=+493023125555)", "telephoneNumber: +493023125555"),
        ("(telephoneNumber=03023125555)", "telephoneNumber: 03023125555, telephoneNumber: +493023125555"),
        ("(mobile=03023125555)", "telephoneNumber: 03023125555, telephoneNumber: +493023125555, mobile: 03023125555"),
        (
            "(|(homePhone=*493023125555*)(ipPhone=493023125555))",
            "telephoneNumber: 493023125555, telephoneNumber: +493023125555, homePhone: 493023125555",
        ),
        # Spaces and hyphens do not count in these attributes, and an entry with equal values would be lost.
        (
            "(|(telephoneNumber=0049 30 2312-5555)(ipPhone=00493023125555)(ipPhone=\\28030\\29 2312\u20115555))",
            "telephoneNumber: 00493023125555, telephoneNumber: (030)23125555, telephoneNumber: +493023125555",
        ),
    ],
)
def test_entry_has_the_number_that_was_asked_for(search: Callable[..., list[str]], filter_: str, numbers: str) -> None:
    Contact.objects.create(number=NUMBER, name=NAME)
    found = search(filter_, "telephoneNumber", "mobile", "homePhone", "ipPhone")
    assert found[1:] == numbers.split(", ")


@pytest.mark.django_db
def test_telephone_reads_an_entry_that_it_found(slapd: SlapdForTelephones, answered: Callable[..., Any]) -> None:
    """https://github.com/affordablemobiles/freepbx-ldap/issues/2: Gigaset, by its DN and without a limit."""
    Contact.objects.create(number=NUMBER, name=NAME)

    def read(dn: str) -> list[str]:
        options = ("-LLL", "-b", dn, "-s", "base", "-z", "none")
        found: list[str] = answered(slapd.run, "ldapsearch", *options, "(objectClass=*)", "cn", "telephoneNumber")
        return found

    assert read(f"uid={NUMBER},dc=callerid") == [
        f"dn: uid={NUMBER},dc=callerid",
        f"cn: {NAME}",
        "telephoneNumber: 03023125555",
        f"telephoneNumber: +{NUMBER}",
    ]
    assert read(f"uid={NUMBER + 1},dc=callerid") == read("uid=x,dc=callerid") == read("dc=callerid") == []


@pytest.mark.django_db
def test_number_of_entries_is_limited(slapd: SlapdForTelephones, answered: Callable[..., Any]) -> None:
    Contact.objects.bulk_create(Contact(number=NUMBER + n, name=f"{NAME} {n:04}") for n in range(2_000))
    found = answered(slapd.run, "ldapsearch", "-LLL", "-z", "none", "-b", "dc=callerid", "(cn=*musterhaus*)", "cn")
    assert len([line for line in found if line.startswith("dn:")]) == slapd_socket.MAX_ENTRIES
    found = answered(slapd.run, "ldapsearch", "-LLL", "-z", "3", "-b", "dc=callerid", "(cn=*musterhaus*)", "cn")
    assert len([line for line in found if line.startswith("dn:")]) == 3


@pytest.mark.django_db
@pytest.mark.parametrize(
    "login",
    [
        None,
        (slapd_socket.USER, "wrong"),
        (slapd_socket.USER, ""),
        ("cn=other,dc=callerid", PASSWORD),
        ("cn=x,dc=y", "z"),
    ],
)
def test_search_needs_the_password(search: Callable[..., list[str]], login: tuple[str, str] | None) -> None:
    Contact.objects.create(number=NUMBER, name=NAME)
    with pytest.raises(subprocess.CalledProcessError):
        search(f"(telephoneNumber=+{NUMBER})", login=login)


@pytest.mark.django_db
def test_anonymous_search_if_configured(answered: Callable[..., list[str]]) -> None:
    Contact.objects.create(number=NUMBER, name=NAME)
    with started({"require authc\n": ""}) as open_slapd:
        assert answered(open_slapd.search, f"(telephoneNumber=+{NUMBER})", "cn", login=None)[1:] == [f"cn: {NAME}"]


@pytest.mark.django_db
def test_no_login_without_a_password(search: Callable[..., list[str]], settings: Any) -> None:
    settings.LDAP_PASSWORD = ""
    for password in ("", PASSWORD, "x"):
        with pytest.raises(subprocess.CalledProcessError):
            search("(cn=muster)", login=(USER, password))


@pytest.mark.django_db
def test_writes_are_refused(slapd: SlapdForTelephones, answered: Callable[..., Any]) -> None:
    Contact.objects.create(number=NUMBER, name=NAME)
    dn = f"dn: uid={NUMBER},dc=callerid\n"
    for change in (
        f"{dn}changetype: delete\n",
        f"{dn}changetype: modify\nreplace: cn\ncn: x\n",
        f"{dn}changetype: modrdn\nnewrdn: uid=1\ndeleteoldrdn: 1\n",
        "dn: uid=1,dc=callerid\nchangetype: add\nobjectClass: inetOrgPerson\nuid: 1\ncn: x\nsn: x\n",
    ):
        with pytest.raises(subprocess.CalledProcessError) as raised:
            answered(slapd.run, "ldapmodify", ldif=change)
        assert raised.value.returncode == 53
    assert Contact.objects.get().name == NAME


@pytest.mark.django_db
def test_token_pays_once_for_a_number_without_an_entry(
    search: Callable[..., list[str]], serve: Callable[..., Service], settings: Any
) -> None:
    """The service has a rule that the directory's own database lacks, in place of a vendor."""
    service = serve()
    service.manage("set_rule", str(NUMBER), "--spam", "yes", "--name", NAME)
    settings.LDAP_URL = service.url
    settings.LDAP_TOKEN = service.manage("create_token", "telephones", "--credits", "5", "--quiet").strip()
    assert search(f"(telephoneNumber=+{NUMBER}*)") == []
    for filter_ in BY_NUMBER:
        assert f"cn: Spam: {NAME}" in search(filter_.replace("%", "03023125555"))
    Contact.objects.create(number=NUMBER + 1, name="own contact")
    assert "cn: own contact" in search(f"(telephoneNumber=+{NUMBER + 1})")
    assert search(f"(&(telephoneNumber=+{NUMBER + 2})(mobile=+{NUMBER + 3}))") == []
    [token] = json.loads(service.manage("list_tokens", "--json"))
    assert token["credits"] == 4


def test_telephones_that_ring_together_share_a_paid_search(
    vendor: Callable[..., Upstream], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paid_search, "SHARED_S", 30)
    monkeypatch.setattr(paid_search, "_searches", {})
    answer = vendor(says(ANSWER))
    settings.LDAP_TOKEN, settings.LDAP_URL = "a.b.c", answer.url

    async def ring() -> list[directory.Entry | None]:
        return await asyncio.gather(*(paid_search.shared_search(str(NUMBER), timeout_s=20) for _ in range(5)))

    assert loop.run(ring()) == [directory.Entry(str(NUMBER), NAME, "Berlin")] * 5
    assert len(answer.bodies) == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("behave", "message"),
    [
        (says({"detail": "No credits remaining"}, 403), "directory: no name, status 403"),
        (says({"success": True}), "directory: no entry, Refused"),
        (raw(b"[]"), "directory: no entry, Refused"),
        (hangs, "directory: no entry, TimeoutError"),
    ],
)
def test_refused_and_failed_paid_searches_find_nothing(
    search: Callable[..., list[str]],
    vendor: Callable[..., Upstream],
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    behave: Any,
    message: str,
) -> None:
    settings.LDAP_TOKEN, settings.LDAP_URL = "a.b.c", vendor(behave).url
    monkeypatch.setattr(slapd_socket, "DEADLINE_S", 2)
    assert search(f"(telephoneNumber=+{NUMBER})") == []
    assert message in caplog.messages


def test_failure_that_nobody_waits_for_is_not_logged(
    vendor: Callable[..., Upstream], settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(paid_search, "SHARED_S", 30)
    settings.LDAP_TOKEN, settings.LDAP_URL = "a.b.c", vendor(hangs).url

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(paid_search.shared_search(str(NUMBER), timeout_s=0.5), 0.1)
        await asyncio.wait([paid_search._searches.pop(str(NUMBER))])
        gc.collect()  # asyncio reports what was not read

    loop.run(give_up())
    assert caplog.messages == []


@pytest.mark.django_db
def test_failures_find_nothing(
    search: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(number: str) -> None:
        raise OperationalError(f"{number} {NAME}")

    monkeypatch.setattr(directory, "of_number", fails)
    with caplog.at_level(logging.INFO):
        assert search(f"(telephoneNumber=+{NUMBER})") == []
    assert caplog.messages == ["directory: no entry, OperationalError"]


@pytest.mark.parametrize(
    "request_", [b"BIND\n" + b"x" * 70_000 + b"\n\n", b"BIND\ncred: x\n\n", b"BIND\ndn: cn", b"", b"SEARCHED\n\n"]
)
def test_login_that_cannot_be_read_is_refused(request_: bytes) -> None:
    async def reply() -> bytes:
        reader, writer = asyncio.StreamReader(limit=slapd_socket.MAX_REQUEST_BYTES), Mock()
        reader.feed_data(request_)
        reader.feed_eof()
        await slapd_socket._answer(reader, writer)
        return bytes(writer.write.call_args[0][0])

    assert loop.run(reply()) in (b"RESULT\ncode: 49\n\n", b"RESULT\ncode: 53\n\n")


def test_search_that_hangs_finds_nothing_in_time(
    slapd: SlapdForTelephones, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def hangs(function: Callable[[], Any]) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(loop, "run_with_connection", hangs)
    monkeypatch.setattr(slapd_socket, "DEADLINE_S", 0.5)
    assert slapd.search(f"(telephoneNumber=+{NUMBER})") == []
    assert caplog.messages == ["directory: no entry, TimeoutError"]


@pytest.mark.django_db
def test_log_has_neither_number_nor_name(search: Callable[..., list[str]], caplog: pytest.LogCaptureFixture) -> None:
    Contact.objects.create(number=NUMBER, name=NAME)
    with caplog.at_level(logging.DEBUG, "contrib.telephones"):
        search(f"(telephoneNumber=+{NUMBER})")
        search("(cn=muster)")
    assert caplog.messages == ["directory: search by number, 1 found", "directory: search by name, 1 found"]


@pytest.mark.slow
def test_command_survives_its_database(serve: Callable[..., Service], postgres_server: PostgresServer) -> None:
    """Telephones get no entry while the database is stopped or frozen, and entries again afterwards."""
    service = serve(DATABASE_URL=postgres_server.url, CALLERID_LDAP_PASSWORD=PASSWORD)
    service.manage("set_rule", str(NUMBER), "--name", NAME)
    with required():
        slapd = SlapdForTelephones({}).start()
    command = [sys.executable, "manage.py", "serve_directory", "--socket", str(slapd.socket)]
    process = subprocess.Popen(command, cwd=plugin.ROOT, env=service.env, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        assert process.stderr.readline() == f"Answering slapd on {slapd.socket}.\n"
        assert slapd.socket.stat().st_mode & 0o777 == 0o660

        def found() -> bool:
            return bool(slapd.search(f"(telephoneNumber=+{NUMBER})"))

        def found_again() -> None:
            deadline = time.monotonic() + 30
            while not found():
                assert time.monotonic() < deadline

        found_again()
        postgres_server.pause()
        assert [found() for _ in range(6)] == [False] * 6  # more than it has threads
        postgres_server.resume()
        found_again()
        postgres_server.stop()
        assert not found()
        postgres_server.start()
        found_again()
    finally:
        process.terminate()
        said = process.communicate(timeout=20)[1]
        slapd.close()
    assert "directory: no entry, TimeoutError" in said
    assert str(NUMBER) not in said
    assert NAME not in said
