"""integrations/freeswitch in FreeSWITCH itself: what a telephone receives of calls by SIPp."""

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integrations.answers import answer, by_number
from tests.integrations.freeswitch import FreeSwitch
from tests.integrations.sip import NUMBER, Caller, Message, Network
from tests.integrations.vectors import GERMANY, NAMES, NUMBERS, by_settings
from tests.servers import required
from tests.service import Service
from tests.upstream import Upstream, drips_body, hangs, says

pytestmark = [
    pytest.mark.once,
    pytest.mark.slow,
    # Not `required`: no machine of CI has it.
    pytest.mark.skipif("TEST_FREESWITCH" not in os.environ, reason="TEST_FREESWITCH does not name an installation"),
]

StartVendor = Callable[..., Upstream]
#: Of every call that the service does not change: what the caller sends.
UNCHANGED = "Caller"


class Telephone:
    """A telephone, and callers that reach it through FreeSWITCH."""

    def __init__(self, network: Network, opened: ExitStack) -> None:
        self._network, self._opened = network, opened

    def start(self, url: str, **settings: str) -> FreeSwitch:
        settings = {"TOKEN": "a.b.c", **settings}
        with required():
            telephone = self._network.url.replace("sip:", "100@")
            freeswitch = FreeSwitch(telephone=telephone, URL=url, **settings)
            freeswitch.start()
        self._opened.callback(freeswitch.close)
        return freeswitch

    def receives(self, freeswitch: FreeSwitch, *numbers: str, steps: str = "") -> list[Message]:
        """The INVITEs of calls from each of the numbers, one after the other."""
        before = len(self._invites())
        self._network.start(freeswitch, numbers, steps or Caller().call(), "-l", "1", "-r", "1000").require_success()
        return self._invites()[before:]

    def _invites(self) -> list[Message]:
        messages = self._network.system.messages()
        return [message for message in messages if not message.sent and message.start.startswith("INVITE ")]


@pytest.fixture
def telephone(tmp_path: Path) -> Iterator[Telephone]:
    with required(), Network(tmp_path) as network, ExitStack() as opened:
        yield Telephone(network, opened)


def name(invite: Message) -> str:
    """In From, and the same in Remote-Party-ID if there is one."""
    found = re.match(r'"(.*)" <sip:', invite["From"])
    assert found, invite["From"]
    for identity in invite.all("Remote-Party-ID"):
        assert identity.startswith(f'"{found[1]}" <sip:')
    return found[1]


def spam(invite: Message) -> list[str]:
    return invite.all("X-Caller-Spam")


def test_name_and_spam_of_a_real_search(serve: Callable[..., Service], telephone: Telephone) -> None:
    service = serve()
    service.manage("set_rule", NUMBER[1:], "--spam", "yes", "--name", "Musterhaus Advisors")
    service.manage("set_rule", "12125550123", "--spam", "no", "--name", "Example Bakery")
    key = service.manage("create_token", "telephone", "--credits", "2", "--quiet").strip()
    freeswitch = telephone.start(f"{service.url}/", TOKEN=key, **GERMANY)
    first, second, third = telephone.receives(freeswitch, "03023125555", "+12125550123", NUMBER)
    assert (name(first), spam(first)) == ("Spam Musterhaus Advisors", ["yes"])
    assert (name(second), spam(second)) == ("Example Bakery", [])
    assert (name(third), spam(third)) == (UNCHANGED, [])  # no credit is left
    freeswitch.wait_for_log("caller identification: no name, status 403")
    service.kill()
    (fourth,) = telephone.receives(freeswitch, NUMBER)
    assert (name(fourth), spam(fourth)) == (UNCHANGED, [])
    freeswitch.wait_for_log("caller identification: no name, no answer")
    assert not [secret for secret in (key, "3023125555", "Musterhaus") if secret in freeswitch.log()]


@pytest.mark.parametrize("behaviour", [hangs, drips_body])
def test_call_goes_through_without_an_answer(telephone: Telephone, vendor: StartVendor, behaviour: object) -> None:
    """The service is still silent, or in the middle of its answer, when the telephone rings."""
    http = vendor(behaviour)
    freeswitch = telephone.start(http.url)
    (invite,) = telephone.receives(freeswitch, NUMBER, steps=Caller(headers="X-Caller-Spam: yes").call())
    assert len(http.bodies) == 1
    http.release()
    assert (name(invite), spam(invite)) == (UNCHANGED, [])


def test_no_name_can_break_or_add_a_header(telephone: Telephone, vendor: StartVendor) -> None:
    pairs = [*NAMES, ("A/B: c@d", "A B c d")]
    names = {f"49302312{index:04}": pair for index, pair in enumerate(pairs)}
    http = vendor(by_number({number: says(answer(sent, spam=False)) for number, (sent, _) in names.items()}))
    freeswitch = telephone.start(http.url)
    invites = telephone.receives(freeswitch, *(f"+{number}" for number in names))
    # What FreeSWITCH takes for a variable, or for a part of an address, is removed.
    expected = [
        re.sub(" +", " ", re.sub(r"\$[{(]|[/:@]", " ", cleaned)).strip() or UNCHANGED for _, cleaned in names.values()
    ]
    assert [name(invite) for invite in invites] == expected
    usual = {field for field, _ in invites[0].fields}
    assert all({field for field, _ in invite.fields} == usual for invite in invites)


def test_numbers_are_searched_with_their_country_code(telephone: Telephone, vendor: StartVendor) -> None:
    http = vendor(says(answer("Example Bakery")))
    for settings, arrived in by_settings(NUMBERS):  # all countries: the test of the script
        http.bodies.clear()
        invites = telephone.receives(telephone.start(http.url, **settings), *arrived)
        searched = [json.loads(body) for body in http.bodies]
        assert searched == [{"api_key": "a.b.c", "query": query} for query in arrived.values() if query]
        assert [name(invite) == "Example Bakery" for invite in invites] == [bool(query) for query in arrived.values()]


@pytest.mark.parametrize(
    ("from_", "headers"),
    [
        ('"Anonymous" <sip:anonymous@anonymous.invalid>', ""),
        ('"Caller" <sip:[field0]@198.51.100.5>', "Privacy: id"),
        ('"Caller" <sip:[field0]@198.51.100.5>', f"P-Asserted-Identity: <sip:{NUMBER}@192.0.2.10>\nPrivacy: id"),
        ('"Caller" <sip:[field0]@198.51.100.5>', f"Remote-Party-ID: <sip:{NUMBER}@192.0.2.10>;privacy=full"),
    ],
)
def test_withheld_number_is_not_searched(telephone: Telephone, vendor: StartVendor, from_: str, headers: str) -> None:
    http = vendor(says(answer("Example Bakery")))
    freeswitch = telephone.start(http.url)
    (invite,) = telephone.receives(freeswitch, NUMBER, steps=Caller(from_, headers).call())
    assert http.bodies == []
    assert "Bakery" not in invite["From"]
