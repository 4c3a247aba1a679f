"""Which IP addresses a vendor's host may have, so that a preset cannot make the service call its own network."""

import ipaddress
from typing import Literal
from urllib.parse import urlsplit

from lookup.connectors.preset import LOOPBACK

#: Which addresses a host may have: "private" also means the operator's own network, "loopback" only this machine.
Peers = Literal["public", "private", "loopback"]

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# What IANA has handed out (RFC 4291).
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
_PRIVATE = [
    ipaddress.ip_network(network)
    for network in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
]
# Metadata and credential services of clouds that are not at a link-local address, from each operator's documentation.
_METADATA = [
    ipaddress.ip_network(network)
    for network in (
        "168.63.129.16",  # Azure's WireServer
        "100.100.100.200",  # Alibaba Cloud
        "fd00:100::100:200",  # Alibaba Cloud, IPv6
        "192.0.0.192",  # Oracle Cloud Classic
        "fd00:c1::a9fe:a9fe",  # Oracle Cloud, IPv6
        "fd00:ec2::/32",  # AWS, IPv6: instance metadata, and EKS Pod Identity's credentials
        "fd20:ce::254",  # Google Cloud, IPv6
        "fd00:42::42",  # Scaleway, IPv6
        "fd00:a9fe:a9fe::1",  # Akamai, IPv6
    )
]


class AddressRefused(Exception):
    """A host has an address that this vendor may not have."""


def peers_for(origin: str, *, private_network: bool) -> Peers:
    """Which addresses the host of a URL may have."""
    if LOOPBACK.fullmatch(urlsplit(origin).hostname or ""):
        return "loopback"
    return "private" if private_network else "public"


def require_allowed(address: str, peers: Peers) -> None:
    """Raises AddressRefused. Link-local addresses and the clouds' metadata services are never allowed."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        # An IPv4 address inside an IPv6 one: mapped (RFC 4291), 6to4 (RFC 3056), NAT64 (RFC 6052).
        translated = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _NAT64 else None
        ip = ip.ipv4_mapped or ip.sixtofour or translated or ip
    if peers == "loopback":
        allowed = ip.is_loopback
    else:
        public = ip.is_global and not ip.is_multicast and (ip.version == 4 or ip in _GLOBAL_UNICAST)
        private = peers == "private" and any(ip in network for network in _PRIVATE)
        allowed = (public or private) and not any(ip in network for network in _METADATA)
    if not allowed:
        raise AddressRefused
