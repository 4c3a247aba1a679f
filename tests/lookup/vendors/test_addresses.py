"""Which addresses a call may connect to, whatever DNS says, and which certificates it accepts."""

import ssl
from collections.abc import Callable
from contextlib import nullcontext
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


#: Who may have these addresses.
ADDRESSES: dict[tuple[AddressPolicy, ...], list[str]] = {
    ("public", "private"): ["8.8.8.8", "2606:4700::1111"],
    ("loopback",): ["127.0.0.1", "::1", "::ffff:127.0.0.1"],
    ("private",): [
        *("10.1.2.3", "192.168.1.1", "172.16.0.1", "100.64.0.1", "fd00::1", "fd20:ce::255"),
        *("::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::1"),  # mapped, NAT64, 6to4
    ],
    (): [
        # Metadata and credentials of clouds.
        *("169.254.169.254", "169.254.170.2", "169.254.42.42", "192.0.0.192", "fe80::a9fe:a9fe", "168.63.129.16"),
        *("100.100.100.200", "fd00:100::100:200", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:42::42"),
        *("fd00:c1::a9fe:a9fe", "fd00:a9fe:a9fe::1", "::ffff:0:a9fe:a9fe", "::a9fe:a9fe", "64:ff9b::a9fe:a9fe"),
        # Not of servers.
        *("fec0::1", "::7f00:1", "64:ff9b:1::a9fe:a9fe", "2001:db8::1", "192.0.2.1", "fe80::1%eth0", "0.0.0.0", "::"),
        *("224.0.0.1", "ff0e::1"),
    ],
}


@pytest.mark.parametrize(("allowed", "address"), [(each, address) for each in ADDRESSES for address in ADDRESSES[each]])
def test_which_addresses_a_vendor_may_have(allowed: tuple[AddressPolicy, ...], address: str) -> None:
    policies: tuple[AddressPolicy, ...] = ("public", "private", "loopback")
    for policy in policies:
        with nullcontext() if policy in allowed else pytest.raises(AddressNotAllowed):
            require_allowed(address, policy)


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
