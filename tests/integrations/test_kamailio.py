"""integrations/kamailio: calls by SIPp through Kamailio come out with a name, or unchanged."""

import json
import re
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme

from tests import plugin
from tests.integrations.answers import answer, by_number, every_fault
from tests.integrations.sip import (
    CONFIGURATION,
    NUMBER,
    SDP,
    Caller,
    Kamailio,
    Message,
    Network,
    Sipp,
    changes,
    compare_with_documentation,
    first_reply,
    named,
    reply,
)
from tests.integrations.vectors import LOCAL, NAMES, NATIONAL, NUMBERS, by_settings
from tests.servers import required
from tests.service import Service
from tests.upstream import Upstream, hangs, held, says

pytestmark = [pytest.mark.once, pytest.mark.slow]

Serve = Callable[..., Service]
StartVendor = Callable[..., Upstream]
StartProxy = Callable[..., Kamailio]
TODAY = datetime.now(UTC).date()
SPAM = ("X-Caller-Spam", "yes")


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    with required(), Network(tmp_path) as started:
        yield started


@pytest.fixture
def proxy(network: Network) -> Iterator[StartProxy]:
    """`proxy(URL=..., ...)` starts Kamailio in front of the telephone system."""
    with ExitStack() as opened:

        def start(*define: str, url: str, to: Network = network, **settings: str) -> Kamailio:
            settings = {"TOKEN": "a.b.c", "COUNTRY_CODE": "49", "TRUNK_PREFIX": "0", **settings}
            with required():
                kamailio = Kamailio(define, URL=url, NEXT_HOP=to.url, **settings)
                kamailio.start()
            opened.callback(kamailio.close)
            return kamailio

        yield start


def test_configuration_has_no_errors(network: Network) -> None:
    with required():
        kamailio = Kamailio()
    said = kamailio.check()
    assert said.returncode == 0
    assert "config file ok" in said.stderr
    assert not [line for line in said.stderr.splitlines() if "ERROR" in line or "WARNING" in line], said.stderr
    kamailio.close()


def test_name_and_spam_of_a_real_search(serve: Serve, network: Network, proxy: StartProxy, tmp_path: Path) -> None:
    service = serve()
    contacts, complaints = tmp_path / "contacts.csv", tmp_path / "complaints.csv"
    contacts.write_text('number,name\n493023125555,Musterhaus Advisors\n12125550123,"Bread ""& more"""\n')
    complaints.write_text(f"number,day,total\n493023125555,{TODAY},40\n12125550199,{TODAY},40\n")
    service.manage("import_contacts", str(contacts))
    service.manage("import_complaints", str(complaints))
    key = service.manage("create_token", "telephone", "--credits", "4", "--quiet").strip()
    kamailio = proxy(url=f"{service.url}/", TOKEN=key)

    (found,) = network.call(kamailio, "+12125550123")
    assert changes(found) == named(found, "Bread & more", "+12125550123")
    (both,) = network.call(kamailio, NUMBER)
    assert changes(both) == [*named(both, "Spam: Musterhaus Advisors"), SPAM]
    (spam,) = network.call(kamailio, "+12125550199")
    assert changes(spam) == [*named(spam, "Spam: +12125550199", "+12125550199"), SPAM]

    # The same call by two proxies, as after a failover: charged once.
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        with Network(tmp_path / name) as other:
            delivering = proxy(url=service.url, TOKEN=key, to=other)
            (delivered,) = other.call(delivering, NUMBER, arguments=["-cid_str", "call-1"])
        assert changes(delivered) == [*named(delivered, "Spam: Musterhaus Advisors"), SPAM]

    (no_credits,) = network.call(kamailio, NUMBER)
    assert changes(no_credits) == []
    kamailio.wait_for_log("no name, status 403")
    service.kill()
    (refused,) = network.call(kamailio, NUMBER)
    assert changes(refused) == []
    kamailio.wait_for_log("no name, status 7")
    assert key not in kamailio.log()
    assert "23125555" not in kamailio.log()
    assert "Musterhaus" not in kamailio.log()
    compare_with_documentation(kamailio, both, no_credits)


def test_every_fault_passes_the_call_unchanged(network: Network, proxy: StartProxy, vendor: StartVendor) -> None:
    """After a second at most: the limit of http_client, which 5.6 has in whole seconds."""
    assert 'modparam("http_client", "connection_timeout", 1)' in CONFIGURATION.read_text(encoding="utf-8")
    faults = every_fault()
    names = {f"+49302312{index:04}": name for index, name in enumerate(faults)}
    http = vendor(by_number({number[1:]: faults[name] for number, name in names.items()}))
    kamailio = proxy(url=http.url)
    try:
        calls = network.call(kamailio, *names, arguments=["-l", "6"])  # fewer at once than SEARCHES
    finally:
        http.release()
    assert {names[call.number]: changes(call) for call in calls} == {name: [] for name in faults}
    assert len(http.bodies) == len(faults)  # no redirect was followed
    assert not [secret for secret in ("a.b.c", "Bakery", "4930231") if secret in kamailio.log()]
    (after,) = network.call(proxy(url=vendor(says(answer("Example Bakery"))).url), NUMBER)
    assert changes(after) == named(after, "Example Bakery")


def test_no_name_can_break_or_add_a_header(network: Network, proxy: StartProxy, vendor: StartVendor) -> None:
    names = {f"+49302312{index:04}": pair for index, pair in enumerate(NAMES)}
    http = vendor(by_number({number[1:]: says(answer(name, spam=False)) for number, (name, _) in names.items()}))
    calls = network.call(proxy(url=http.url), *names, arguments=["-l", "6"])
    assert len(calls) == len(NAMES)
    for call in calls:
        name, displayed = names[call.number]
        assert changes(call) == (named(call, displayed, call.number) if displayed else []), name


def test_second_source_names_whom_the_first_does_not(network: Network, proxy: StartProxy, vendor: StartVendor) -> None:
    http = vendor(by_number({"493023125001": says(answer(other="B")), "493023125002": says(answer("A", other="B"))}))
    calls = network.call(proxy(url=http.url), "+493023125001", "+493023125002")
    assert [changes(call)[1][1].partition(" ")[0] for call in calls] == ['"B"', '"A"']


def test_numbers_are_searched_with_their_country_code(proxy: StartProxy, network: Network, vendor: StartVendor) -> None:
    http = vendor(says(answer()))
    for settings, arrived in by_settings(NUMBERS + NATIONAL):
        http.bodies.clear()
        kamailio = proxy(url=http.url, **{"COUNTRY_CODE": "", "TRUNK_PREFIX": "", **settings})
        calls = network.call(kamailio, *arrived, arguments=["-l", "1"])
        assert [changes(call) for call in calls] == [[]] * len(arrived)
        searched = [json.loads(body) for body in http.bodies]
        assert searched == [{"api_key": "a.b.c", "query": query} for query in arrived.values() if query]


@pytest.mark.parametrize(
    ("from_", "headers"),
    [
        ('"Anonymous" <sip:anonymous@anonymous.invalid>', ""),
        ("<sip:198.51.100.5>", ""),
        ("<sip:alice@example.org>", ""),
        ('"Caller" <sip:+493023125555@example.org>', "Privacy: id"),
        ('"Caller" <sip:+493023125555@example.org>', "Privacy: header;session"),
    ],
)
def test_caller_without_number_is_not_searched(
    network: Network, proxy: StartProxy, vendor: StartVendor, from_: str, headers: str
) -> None:
    http = vendor(says(answer("Example Bakery")))
    (call,) = network.call(proxy(url=http.url), NUMBER, steps=Caller(from_, headers).call())
    assert changes(call) == []
    assert http.bodies == []


@pytest.mark.parametrize(
    "from_",
    [
        '"Your \\"Bank\\"" <sip:+493023125555@198.51.100.5>',
        "<sip:+493023125555@198.51.100.5>",
        "Your Bank <sip:+493023125555;npdi=yes@198.51.100.5;user=phone>",
        "<tel:+493023125555>",
    ],
)
def test_name_replaces_any_form_of_display_name(
    network: Network, proxy: StartProxy, vendor: StartVendor, from_: str
) -> None:
    http = vendor(says(answer("Example Bakery")))
    (call,) = network.call(proxy(url=http.url), NUMBER, steps=Caller(from_, "Privacy: none").call())
    name, uri, number = (
        call.received["From"],
        from_[from_.index("<") : from_.index(">") + 1],
        json.loads(http.bodies[0]),
    )
    assert name.startswith(f'"Example Bakery" {uri};tag=')
    assert number["query"] == "493023125555"
    host = "127.0.0.1" if uri.startswith("<tel:") else "198.51.100.5"
    assert call.received["P-Asserted-Identity"] == f'"Example Bakery" <sip:+493023125555@{host}>'
    # The caller's side sees its own From.
    assert {message["From"].partition(";tag")[0] for message in call.replies} == {from_}


SPOOFED = """
P-Asserted-Identity: "Your Bank" <sip:+493023125000@example.org>
P-Preferred-Identity: <sip:+493023125000@example.org>
Remote-Party-ID: "Your Bank" <sip:+493023125000@example.org>
X-Caller-Spam: no
x-caller-spam: no
"""


def test_caller_cannot_assert_identity_or_spam(network: Network, proxy: StartProxy, vendor: StartVendor) -> None:
    http = vendor(
        by_number({"493023125001": says(answer()), "493023125002": says(answer("Example Bakery", spam=True))})
    )
    calls = network.call(proxy(url=http.url), "+493023125001", "+493023125002", steps=Caller(headers=SPOOFED).call())
    fields = [{name.lower(): value for name, value in call.received.fields} for call in calls]
    for absent in ("p-preferred-identity", "remote-party-id"):
        assert not [given for given in fields if absent in given]
    assert [given.get("p-asserted-identity") for given in fields] == [
        None,
        '"Spam: Example Bakery" <sip:+493023125002@198.51.100.5>',
    ]
    assert [given.get("x-caller-spam") for given in fields] == [None, "yes"]


def test_identity_of_a_trusted_peer_is_searched(network: Network, proxy: StartProxy, vendor: StartVendor) -> None:
    http = vendor(says(answer("Example Bakery")))
    asserted = "P-Asserted-Identity: <sip:+493023125000@example.org>"
    steps = Caller('"x" <sip:anonymous@anonymous.invalid>', asserted).call()
    trusting = proxy(url=http.url, TRUSTED_PEERS="192.0.2.10/32,127.0.0.0/8")
    (call,) = network.call(trusting, NUMBER, steps=steps)
    assert json.loads(http.bodies[0])["query"] == "493023125000"
    assert call.received["P-Asserted-Identity"] == '"Example Bakery" <sip:+493023125000@example.org>'
    (other,) = network.call(proxy(url=http.url, TRUSTED_PEERS="192.0.2.10/32"), NUMBER, steps=steps)
    assert other.received.all("P-Asserted-Identity") == []
    assert len(http.bodies) == 1


@pytest.mark.parametrize(
    "identities",
    [
        "P-Asserted-Identity: <sip:alice@example.org>, <tel:+493023125000>",
        'P-Asserted-Identity: "A, \\"<tel:+12125550123>\\"" <sip:a@example.org>,<tel:03023125000;phone-context=+49>',
        "P-Asserted-Identity: <sip:alice@example.org>\nP-Asserted-Identity: tel:+49-30-23125.000",
        "P-Asserted-Identity: <tel:2125550123;phone-context=+1>\nP-Asserted-Identity: <sip:03023125000@example.org>",
    ],
)
def test_first_asserted_identity_with_a_number_is_searched(
    network: Network, proxy: StartProxy, vendor: StartVendor, identities: str
) -> None:
    http = vendor(says(answer("Example Bakery")))
    steps = Caller('"x" <sip:anonymous@anonymous.invalid>', identities).call()
    kamailio = proxy(url=http.url, TRUSTED_PEERS="127.0.0.0/8")
    (call,) = network.call(kamailio, NUMBER, steps=steps)
    assert [json.loads(body)["query"] for body in http.bodies] == ["493023125000"]
    host = "example.org" if identities.endswith("@example.org>") else "127.0.0.1"
    assert call.received["P-Asserted-Identity"] == f'"Example Bakery" <sip:+493023125000@{host}>'


def test_asserted_identities_without_a_number_are_not_searched(
    network: Network, proxy: StartProxy, vendor: StartVendor
) -> None:
    """Nor the number in From, which the trusted peer has not asserted."""
    http = vendor(says(answer("Example Bakery")))
    steps = Caller(headers="P-Asserted-Identity: <sip:alice@example.org>, <tel:101>").call()
    (call,) = network.call(proxy(url=http.url, TRUSTED_PEERS="127.0.0.0/8"), NUMBER, steps=steps)
    assert changes(call) == []
    assert http.bodies == []


@pytest.mark.parametrize(("uri", "plan", "query"), LOCAL)
def test_local_number_is_searched_by_its_context(
    network: Network, proxy: StartProxy, vendor: StartVendor, uri: str, plan: dict[str, str], query: str
) -> None:
    http = vendor(says(answer()))
    kamailio = proxy(url=http.url, **{"COUNTRY_CODE": "", "TRUNK_PREFIX": "", **plan})
    (call,) = network.call(kamailio, NUMBER, steps=Caller(f"<{uri}>").call())
    assert changes(call) == []
    assert [json.loads(body)["query"] for body in http.bodies] == ([query] if query else [])


def test_retransmitted_invite_is_searched_once(network: Network, proxy: StartProxy, vendor: StartVendor) -> None:
    """While the search goes on, which is until its time limit."""
    http, caller = vendor(hangs), Caller()
    kamailio = proxy(url=http.url)
    steps = (caller.invite() + '<recv response="100"/>\n') * 3 + caller.call()
    running = network.start(kamailio, [NUMBER], steps, "-nr")
    running.require_success()
    assert len(_invites(running, sent=True)) == 4
    assert len(_invites(network.system, sent=False)) == 1
    assert len(http.bodies) == 1
    assert not [line for line in kamailio.log().splitlines() if "ERROR" in line and "timed out" not in line]


def _invites(sipp: Sipp, *, sent: bool) -> list[Message]:
    return [message for message in sipp.messages() if message.sent == sent and message.start.startswith("INVITE")]


def test_requests_within_a_call_are_not_searched(tmp_path: Path, proxy: StartProxy, vendor: StartVendor) -> None:
    """A re-INVITE of the caller, and the BYE of the telephone system, which does not show the caller the name."""
    caller = Caller()
    again = '<pause milliseconds="200"/>\n' + caller.within("INVITE", 2, SDP, SPOOFED)
    again += '<recv response="100"/><recv response="200"/>\n' + caller.within("ACK", 2)
    steps = caller.answered() + again + '<recv request="BYE"/>\n' + reply("200 OK")
    swap = (
        '<recv request="ACK"><action><ereg regexp=": *(.*)" search_in="hdr" header="From" assign_to="1,2"/>'
        '<ereg regexp=": *(.*)" search_in="hdr" header="To" assign_to="3,4"/></action></recv>\n'
    )
    bye = (
        "<send><![CDATA[\nBYE [next_url] SIP/2.0\nVia: SIP/2.0/UDP [local_ip]:[local_port];branch=[branch]\n[routes]\n"
        "From: [$4]\nTo: [$2]\nCall-ID: [call_id]\nCSeq: 1 BYE\nMax-Forwards: 70\nContent-Length: 0\n\n]]></send>\n"
        '<recv response="200"/>\n<Reference variables="1,3"/>\n'
    )
    answer_both = (
        '<recv request="INVITE" rrs="true"/>\n'
        + first_reply("200 OK", SDP)
        + '<recv request="ACK" optional="true"/>\n<recv request="INVITE"/>\n'
        + reply("200 OK", SDP)
        + swap
        + bye
    )
    http = vendor(says(answer("Example Bakery", spam=True)))
    with required(), Network(tmp_path, answer_both) as network:
        running = network.start(proxy(url=http.url, to=network), [NUMBER], steps)
        running.require_success()
    assert len(http.bodies) == 1
    invites = _invites(network.system, sent=False)
    assert len(invites) == 2
    assert invites[1].all("P-Asserted-Identity") == invites[1].all("X-Caller-Spam") == []
    (ended,) = [message for message in running.messages() if message.start.startswith("BYE")]
    assert ended["To"].startswith("<sip:+493023125555@198.51.100.5>;tag=")
    assert not [message for message in running.messages() if not message.sent and b"Bakery" in message.raw]


def test_cancelled_call_does_not_ring(network: Network, proxy: StartProxy, vendor: StartVendor) -> None:
    """CANCEL arrives while the search is in progress, and is answered at once."""
    cancelled, caller = threading.Event(), Caller()
    http = vendor(held(cancelled, says(answer("Example Bakery"))))
    steps = (
        caller.invite()
        + '<recv response="100"/>\n'
        + caller.request("CANCEL", 1)
        + '<recv response="487"/>\n<recv response="200"/>\n'
        + caller.request("ACK", 1).replace("branch=[branch]", "branch=z9hG4bK-[pid]-[call_number]")
    )
    kamailio = proxy("SEARCHES=1", url=http.url)
    network.start(kamailio, [NUMBER], steps).require_success()
    cancelled.set()
    calls = network.call(kamailio, NUMBER)
    while not changes(calls[-1]):  # with a name, it was searched: the search before it has ended
        calls += network.call(kamailio, NUMBER)
    assert len(_invites(network.system, sent=False)) == len(calls)
    assert not [line for line in kamailio.log().splitlines() if "ERROR" in line and "timed out" not in line]


def test_calls_beyond_the_limit_of_searches_pass(network: Network, proxy: StartProxy, vendor: StartVendor) -> None:
    http = vendor(hangs)
    kamailio = proxy("SEARCHES=1", url=http.url)
    calls = network.call(kamailio, NUMBER, "+493023125001", "+493023125002", arguments=["-r", "1000"])
    assert [changes(call) for call in calls] == [[], [], []]
    kamailio.wait_for_log("SEARCHES searches are in progress")
    assert len(http.bodies) < 3


def test_https_is_verified(network: Network, proxy: StartProxy, vendor: StartVendor, tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    http = vendor(says(answer("Example Bakery")), context)
    url = http.url.replace("127.0.0.1", "localhost")
    (refused,) = network.call(proxy(url=url), NUMBER)
    assert changes(refused) == []
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    (call,) = network.call(proxy(url=url, CACERT=str(tmp_path / "ca.pem")), NUMBER)
    assert changes(call) == named(call, "Example Bakery")


def test_without_api_key_calls_pass(network: Network, proxy: StartProxy, vendor: StartVendor) -> None:
    http = vendor(says(answer("Example Bakery")))
    kamailio = proxy(url=http.url, TOKEN="")
    (call,) = network.call(kamailio, NUMBER)
    assert changes(call) == []
    assert http.bodies == []
    assert "CALLERID_TOKEN is not set" in kamailio.log()


def test_documented_settings_are_those_of_the_configuration() -> None:
    page = (plugin.ROOT / "docs" / "telephone-systems.md").read_text(encoding="utf-8")
    settings, *_ = re.findall(r"^ *```ini\n(.*?)^ *```$", page, re.DOTALL | re.MULTILINE)
    names = re.findall(r"^ *(\w+)=", settings, re.MULTILINE)
    configuration = CONFIGURATION.read_text(encoding="utf-8")
    read = re.findall(r"^#!trydefenvs (\w+)$|\$env\((\w+)\)", configuration, re.MULTILINE)
    assert "CALLERID_TOKEN" in names
    assert set(names) <= {name for pair in read for name in pair}
