"""integrations/asterisk in Asterisk itself: what a telephone receives of calls by SIPp."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integrations.answers import answer, by_number
from tests.integrations.asterisk import Asterisk
from tests.integrations.sip import NUMBER, Caller, Message, Network
from tests.integrations.vectors import GERMANY, NAMES, NUMBERS, by_settings
from tests.servers import required
from tests.service import Service
from tests.upstream import Upstream, drips_body, hangs, says

pytestmark = [pytest.mark.once, pytest.mark.slow]

StartVendor = Callable[..., Upstream]
#: Of every call that the service does not change: what the caller sends.
UNCHANGED = "Caller"
ASSERTED = f"P-Asserted-Identity: <sip:{NUMBER}@192.0.2.10>"


class Telephone:
    """Number 100, and callers that reach it through Asterisk."""

    def __init__(self, network: Network, opened: ExitStack) -> None:
        self._network, self._opened = network, opened

    def start(self, url: str, **settings: str) -> Asterisk:
        settings = {"TOKEN": "a.b.c", **settings}
        with required():
            asterisk = Asterisk(telephone=self._network.url.replace("sip:", "sip:100@"), URL=url, **settings)
            asterisk.start()
        self._opened.callback(asterisk.close)
        return asterisk

    def receives(self, asterisk: Asterisk, *numbers: str, steps: str = "", at_once: int = 1) -> list[Message]:
        """The INVITEs of calls from each of the numbers. Every call is answered and ended in order."""
        before = len(self._invites())
        caller = self._network.start(asterisk, numbers, steps or Caller().call(), "-l", str(at_once), "-r", "1000")
        caller.require_success()
        return self._invites()[before:]

    def _invites(self) -> list[Message]:
        messages = self._network.system.messages()
        return [message for message in messages if not message.sent and message.start.startswith("INVITE ")]


@pytest.fixture
def telephone(tmp_path: Path) -> Iterator[Telephone]:
    with required(), Network(tmp_path) as network, ExitStack() as opened:
        yield Telephone(network, opened)


def caller(invite: Message) -> tuple[str, str]:
    """Number and name in From."""
    found = re.fullmatch(r'"(.*)" <sip:(.*)@127\.0\.0\.1>;tag=.*', invite["From"])
    assert found, invite["From"]
    return found[2], found[1]


def spam(invite: Message) -> list[str]:
    return invite.all("X-Caller-Spam")


def test_name_and_spam_of_a_real_search(serve: Callable[..., Service], telephone: Telephone) -> None:
    service = serve()
    service.manage("set_rule", "493023125555", "--spam", "yes", "--name", "Musterhaus Advisors")
    service.manage("set_rule", "12125550123", "--spam", "no", "--name", "Example Bakery")
    key = service.manage("create_token", "telephone", "--credits", "2", "--quiet").strip()
    asterisk = telephone.start(f"{service.url}/", TOKEN=key, **GERMANY)

    first, second, third = telephone.receives(asterisk, "03023125555", "+12125550123", NUMBER)
    assert (caller(first), spam(first)) == (("03023125555", "Spam: Musterhaus Advisors"), ["yes"])
    assert (caller(second), spam(second)) == (("+12125550123", "Example Bakery"), [])
    # No credit is left; then nothing answers.
    assert (caller(third), spam(third)) == ((NUMBER, UNCHANGED), [])
    asterisk.wait_for_log("caller identification: no name, status 403")
    service.kill()
    (fourth,) = telephone.receives(asterisk, NUMBER)
    assert (caller(fourth), spam(fourth)) == ((NUMBER, UNCHANGED), [])
    asterisk.wait_for_log("caller identification: no name, ConnectionRefusedError")
    assert not [secret for secret in (key, "3023125555", "Musterhaus") if secret in asterisk.log()]


@pytest.mark.parametrize("behaviour", [hangs, drips_body])
def test_call_goes_through_without_an_answer(telephone: Telephone, vendor: StartVendor, behaviour: object) -> None:
    """The service is still silent, or in the middle of its answer, when the telephone rings."""
    http = vendor(behaviour)
    asterisk = telephone.start(http.url)
    (invite,) = telephone.receives(asterisk, NUMBER, steps=Caller(headers="X-Caller-Spam: yes").call())
    assert len(http.bodies) == 1
    http.release()
    assert (caller(invite), spam(invite)) == ((NUMBER, UNCHANGED), [])
    asterisk.wait_for_log("caller identification: no name, no answer in time")


def test_no_name_can_break_or_add_a_header(telephone: Telephone, vendor: StartVendor) -> None:
    names = {f"49302312{index:04}": name for index, (name, _) in enumerate(NAMES)}
    http = vendor(by_number({number: says(answer(name, spam=True)) for number, name in names.items()}))
    asterisk = telephone.start(http.url, SPAM_MARK="")
    invites = telephone.receives(asterisk, *(f"+{number}" for number in names), at_once=6)
    shown = dict(caller(invite) for invite in invites)
    assert shown == {
        f"+{number}": displayed or f"+{number}" for number, (_, displayed) in zip(names, NAMES, strict=True)
    }
    usual = {name for name, _ in invites[0].fields}
    for invite in invites:
        assert spam(invite) == ["yes"]
        assert {name for name, _ in invite.fields} == usual


def test_numbers_are_searched_with_their_country_code(telephone: Telephone, vendor: StartVendor) -> None:
    http = vendor(says(answer("Example Bakery")))
    for settings, arrived in by_settings(NUMBERS):  # all countries: the test of the script
        http.bodies.clear()
        invites = telephone.receives(telephone.start(http.url, **settings), *arrived)
        searched = [json.loads(body) for body in http.bodies]
        assert searched == [{"api_key": "a.b.c", "query": query} for query in arrived.values() if query]
        names = ["Example Bakery" if query else UNCHANGED for query in arrived.values()]
        assert [caller(invite)[1] for invite in invites] == names


@pytest.mark.parametrize(
    ("from_", "headers"),
    [
        ('"Anonymous" <sip:anonymous@anonymous.invalid>', ""),
        ('"Anonymous" <sip:anonymous@anonymous.invalid>', f"{ASSERTED}\nPrivacy: id"),
        ('"Caller" <sip:[field0]@198.51.100.5>', f"{ASSERTED}\nPrivacy: id"),
        ('"Caller" <sip:[field0]@198.51.100.5>', "Privacy: id"),
        ('"Caller" <sip:[field0]@198.51.100.5>', "Privacy: header;session"),
        ('"Caller" <sip:[field0]@198.51.100.5>', f"Remote-Party-ID: <sip:{NUMBER}@192.0.2.10>;privacy=full"),
        ("<sip:198.51.100.5>", ""),
    ],
)
def test_withheld_number_is_not_searched(telephone: Telephone, vendor: StartVendor, from_: str, headers: str) -> None:
    http = vendor(says(answer("Example Bakery")))
    asterisk = telephone.start(http.url)
    (invite,) = telephone.receives(asterisk, NUMBER, steps=Caller(from_, headers).call())
    assert http.bodies == []
    assert "Bakery" not in invite["From"]


def test_number_that_the_provider_asserts_is_searched(telephone: Telephone, vendor: StartVendor) -> None:
    http = vendor(says(answer("Example Bakery")))
    asterisk = telephone.start(http.url)
    steps = Caller('"x" <sip:anonymous@anonymous.invalid>', f"{ASSERTED}\nPrivacy: none").call()
    (invite,) = telephone.receives(asterisk, NUMBER, steps=steps)
    assert caller(invite) == (NUMBER, "Example Bakery")


def test_called_number_reaches_only_its_telephone(telephone: Telephone, vendor: StartVendor) -> None:
    """Of what is called, only digits are dialled; a trunk that sends no number rings the default telephone."""
    http = vendor(says(answer("Example Bakery")))
    asterisk = telephone.start(http.url)
    for called in ("+100", "1&00", "s"):
        steps = Caller().call().replace("sip:100@192.0.2.10", f"sip:{called}@192.0.2.10".replace("&", "%26"))
        (invite,) = telephone.receives(asterisk, NUMBER, steps=steps)
        assert caller(invite) == (NUMBER, "Example Bakery"), called
        assert invite.start.startswith("INVITE sip:100@"), called
