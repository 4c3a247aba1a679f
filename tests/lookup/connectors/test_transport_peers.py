"""Whom a call may reach, whatever DNS says, and whose certificate it takes."""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme

from lookup.connectors.addresses import AddressRefused, Peers, peers_for, require_allowed
from lookup.connectors.transport import NoReply
from tests import upstream
from tests.lookup.connectors.calls import clients, get, names_lead_to
from tests.upstream import Upstream, says


@pytest.fixture(autouse=True)
def _new_clients() -> None:
    clients.clear()


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("8.8.8.8", {"public", "private"}),
        ("2606:4700::1111", {"public", "private"}),
        ("127.0.0.1", {"loopback"}),
        ("::1", {"loopback"}),
        ("::ffff:127.0.0.1", {"loopback"}),
        ("10.1.2.3", {"private"}),
        ("192.168.1.1", {"private"}),
        ("172.16.0.1", {"private"}),
        ("100.64.0.1", {"private"}),
        ("fd00::1", {"private"}),
        ("::ffff:10.0.0.1", {"private"}),
        ("64:ff9b::a00:1", {"private"}),
        ("2002:a00:1::1", {"private"}),
        ("169.254.169.254", set()),
        ("169.254.170.2", set()),
        ("169.254.42.42", set()),
        ("192.0.0.192", set()),
        ("fe80::a9fe:a9fe", set()),
        ("168.63.129.16", set()),
        ("100.100.100.200", set()),
        ("fd00:100::100:200", set()),
        ("fd00:ec2::254", set()),
        ("fd00:ec2::23", set()),
        ("fd20:ce::254", set()),
        ("fd20:ce::255", {"private"}),
        ("fd00:c1::a9fe:a9fe", set()),
        ("fd00:42::42", set()),
        ("fd00:a9fe:a9fe::1", set()),
        ("fec0::1", set()),
        ("::ffff:0:a9fe:a9fe", set()),
        ("::a9fe:a9fe", set()),
        ("::7f00:1", set()),
        ("64:ff9b:1::a9fe:a9fe", set()),
        ("2001:db8::1", set()),
        ("192.0.2.1", set()),
        ("64:ff9b::a9fe:a9fe", set()),
        ("fe80::1%eth0", set()),
        ("0.0.0.0", set()),
        ("::", set()),
        ("224.0.0.1", set()),
        ("ff0e::1", set()),
    ],
)
def test_which_addresses_a_vendor_may_have(address: str, allowed: set[Peers]) -> None:
    seen: set[Peers] = set()
    policies: tuple[Peers, ...] = ("public", "private", "loopback")
    for peers in policies:
        try:
            require_allowed(address, peers)
        except AddressRefused:
            continue
        seen.add(peers)
    assert seen == allowed


def test_a_host_whose_name_leads_inside_is_refused_before_a_word_is_said(
    vendor: Callable[..., Upstream], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = vendor(says({}))
    names_lead_to(monkeypatch, "127.0.0.1")
    policies: tuple[Peers, ...] = ("public", "private")
    for peers in policies:
        with pytest.raises(NoReply, match="address that is not allowed"):
            get(f"http://vendor.example.com:{server.port}", peers=peers)
    assert (server.heads, server.connections) == ([], 0)


@pytest.mark.parametrize(
    ("origin", "private_network", "peers"),
    [
        ("https://api.example.com", False, "public"),
        ("https://api.example.com", True, "private"),
        ("http://127.0.0.1:8080", False, "loopback"),
        ("http://localhost", True, "loopback"),
        ("http://[::1]:8080", False, "loopback"),
        ("https://127.0.0.1.example.com", False, "public"),
        ("https://localhost.example.com", False, "public"),
    ],
)
def test_loopback_is_for_hosts_that_say_so(origin: str, private_network: bool, peers: Peers) -> None:
    assert peers_for(origin, private_network=private_network) == peers


# --- TLS ------------------------------------------------------------------------------------------------------------


def server_context(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


def test_a_certificate_of_a_trusted_authority_is_taken_and_any_other_refused(
    vendor: Callable[..., Upstream], settings: Any, tmp_path: Path
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    server = vendor(says({}), server_context(authority, "127.0.0.1"))
    with pytest.raises(NoReply, match="certificate"):
        get(server.url)
    settings.CA_BUNDLE = str(tmp_path / "ca.pem")
    clients.clear()
    assert get(server.url).status == 200
    elsewhere = vendor(says({}), server_context(authority, "vendor.example.com"))
    with pytest.raises(NoReply, match="certificate"):
        get(elsewhere.url)
    assert elsewhere.heads == []


def test_a_call_over_tls_ends_after_its_lifetime(
    vendor: Callable[..., Upstream], settings: Any, tmp_path: Path
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    settings.CA_BUNDLE = str(tmp_path / "ca.pem")
    server = vendor(upstream.drips_body, server_context(authority, "127.0.0.1"))
    with pytest.raises(NoReply, match=r"not done after 0\.3 s"):
        get(server.url, lifetime_s=0.3)
