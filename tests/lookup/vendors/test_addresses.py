"""Which addresses a call may connect to, whatever DNS says, and which certificates it accepts."""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme

from core.addresses import AddressNotAllowed, AddressPolicy, policy_for, require_allowed
from core.http import RequestFailed
from tests.lookup.vendors.calls import close_clients, get, resolve_to
from tests.upstream import Upstream, says


@pytest.fixture(autouse=True)
def _new_clients() -> None:
    close_clients()


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
def test_which_addresses_a_vendor_may_have(address: str, allowed: set[AddressPolicy]) -> None:
    seen: set[AddressPolicy] = set()
    policies: tuple[AddressPolicy, ...] = ("public", "private", "loopback")
    for policy in policies:
        try:
            require_allowed(address, policy)
        except AddressNotAllowed:
            continue
        seen.add(policy)
    assert seen == allowed


def test_name_of_a_private_address_is_not_connected_to(
    vendor: Callable[..., Upstream], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = vendor(says({}))
    resolve_to(monkeypatch, "127.0.0.1")
    policies: tuple[AddressPolicy, ...] = ("public", "private")
    for policy in policies:
        with pytest.raises(RequestFailed, match="address that is not allowed"):
            get(f"http://vendor.example.com:{server.port}", policy=policy)
    assert (server.heads, server.connections) == ([], 0)


@pytest.mark.parametrize(
    ("origin", "private_network", "policy"),
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
def test_address_policy_of_a_url(origin: str, private_network: bool, policy: AddressPolicy) -> None:
    assert policy_for(origin, private_network=private_network) == policy


# --- TLS ------------------------------------------------------------------------------------------------------------


def server_context(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


def test_only_trusted_certificates_are_accepted(vendor: Callable[..., Upstream], settings: Any, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    server = vendor(says({}), server_context(authority, "127.0.0.1"))
    with pytest.raises(RequestFailed, match="certificate"):
        get(server.url)
    settings.CA_BUNDLE = str(tmp_path / "ca.pem")
    close_clients()
    assert get(server.url).status == 200
    elsewhere = vendor(says({}), server_context(authority, "vendor.example.com"))
    with pytest.raises(RequestFailed, match="certificate"):
        get(elsewhere.url)
    assert elsewhere.heads == []
