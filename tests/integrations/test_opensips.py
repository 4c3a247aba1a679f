"""integrations/opensips: the tests of Kamailio that do not depend on its configuration, with OpenSIPS."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integrations.answers import answer, by_number, every_fault
from tests.integrations.opensips import OpenSips, program
from tests.integrations.sip import NUMBER, Caller, Network, changes, named
from tests.integrations.test_kamailio import (  # noqa: F401  (pytest runs what it finds here)
    network,
    test_asserted_identities_without_a_number_are_not_searched,
    test_caller_cannot_assert_identity_or_spam,
    test_caller_without_number_is_not_searched,
    test_first_asserted_identity_with_a_number_is_searched,
    test_identity_of_a_trusted_peer_is_searched,
    test_local_number_is_searched_by_its_context,
    test_name_replaces_any_form_of_display_name,
    test_no_name_can_break_or_add_a_header,
    test_numbers_are_searched_with_their_country_code,
    test_requests_within_a_call_are_not_searched,
    test_retransmitted_invite_is_searched_once,
    test_second_source_names_whom_the_first_does_not,
    test_without_api_key_calls_pass,
)
from tests.servers import required
from tests.service import Service
from tests.upstream import Upstream, held, says

pytestmark = [pytest.mark.once, pytest.mark.slow]
if not program():
    # Not `required`: no machine of CI has it.
    pytest.skip("there is no opensips on PATH, and TEST_OPENSIPS names none", allow_module_level=True)

StartVendor = Callable[..., Upstream]
StartProxy = Callable[..., OpenSips]


@pytest.fixture
def proxy(network: Network) -> Iterator[StartProxy]:  # noqa: F811
    """`proxy(url=..., ...)` starts OpenSIPS in front of the telephone system."""
    with ExitStack() as opened:

        def start(*, url: str, to: Network = network, **settings: str) -> OpenSips:
            settings = {"TOKEN": "a.b.c", "COUNTRY_CODE": "49", "TRUNK_PREFIX": "0", **settings}
            with required():
                opensips = OpenSips(URL=url, NEXT_HOP=to.url, **settings)
                opensips.start()
            opened.callback(opensips.close)
            return opensips

        yield start


def test_name_and_spam_of_a_real_search(
    serve: Callable[..., Service],
    network: Network,  # noqa: F811
    proxy: StartProxy,
    tmp_path: Path,
) -> None:
    service = serve()
    service.manage("set_rule", "493023125555", "--spam", "yes", "--name", "Musterhaus Advisors")
    key = service.manage("create_token", "telephone", "--credits", "1", "--quiet").strip()
    # The same call by two proxies, as after a failover: charged once.
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        with Network(tmp_path / name) as other:
            delivering = proxy(url=f"{service.url}/", TOKEN=key, to=other)
            (delivered,) = other.call(delivering, NUMBER, arguments=["-cid_str", "call-1"])
        assert changes(delivered) == [*named(delivered, "Spam: Musterhaus Advisors"), ("X-Caller-Spam", "yes")]
    opensips = proxy(url=service.url, TOKEN=key)
    (no_credits,) = network.call(opensips, NUMBER)
    assert changes(no_credits) == []
    opensips.wait_for_log("no name, status 403")
    service.kill()
    (refused,) = network.call(opensips, NUMBER)
    assert changes(refused) == []
    opensips.wait_for_log("no name, status 0, result -1")
    assert not [secret for secret in (key, "23125555", "Musterhaus") if secret in opensips.log()]


def test_every_fault_passes_the_call_unchanged(network: Network, proxy: StartProxy, vendor: StartVendor) -> None:  # noqa: F811
    faults = every_fault()
    names = {f"+49302312{index:04}": name for index, name in enumerate(faults)}
    http = vendor(by_number({number[1:]: faults[name] for number, name in names.items()}))
    opensips = proxy(url=http.url)
    try:
        calls = network.call(opensips, *names, arguments=["-r", "1000"])  # all at once: none waits for another
    finally:
        http.release()
    assert {names[call.number]: changes(call) for call in calls} == {name: [] for name in faults}
    assert len(http.bodies) == len(faults)  # no redirect was followed
    assert not [secret for secret in ("a.b.c", "Bakery", "4930231") if secret in opensips.log()]


def test_cancelled_call_does_not_ring(network: Network, proxy: StartProxy, vendor: StartVendor) -> None:  # noqa: F811
    """CANCEL arrives while the search is in progress, and is answered at once."""
    cancelled, caller = threading.Event(), Caller()
    http = vendor(held(cancelled, says(answer("Example Bakery"))))
    steps = (
        caller.invite()
        + '<recv response="100"/>\n'
        + caller.request("CANCEL", 1)
        + '<recv response="200"/>\n<recv response="487"/>\n'
        + caller.request("ACK", 1).replace("branch=[branch]", "branch=z9hG4bK-[pid]-[call_number]")
    )
    opensips = proxy(url=http.url)
    network.start(opensips, [NUMBER], steps).require_success()
    cancelled.set()
    (call,) = network.call(opensips, NUMBER)
    assert changes(call) == named(call, "Example Bakery")
    invites = [message for message in network.system.messages() if message.start.startswith("INVITE")]
    assert [invite["Call-ID"] for invite in invites] == [call.sent["Call-ID"]]
