"""The IP addresses that a server may have: protection against server-side request forgery (SSRF), so that neither a
preset, a redirect nor DNS makes the service call its own network."""

import ipaddress
import re
from typing import Literal
from urllib.parse import urlsplit

#: "private" also allows the operator's own network; "loopback" allows only this machine.
AddressPolicy = Literal["public", "private", "loopback"]


#: Hosts that are this machine.
LOOPBACK = re.compile(r"localhost|127\.\d+\.\d+\.\d+|::1")


def _networks(*texts: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    return [ipaddress.ip_network(text) for text in texts]


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# The only range from which IANA assigns global unicast addresses (RFC 4291).
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
_PRIVATE = _networks("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
# Cloud metadata and credential services outside the link-local range, from each cloud's documentation.
_METADATA = _networks(
    "168.63.129.16",  # Azure's WireServer
    "100.100.100.200",  # Alibaba Cloud
    "fd00:100::100:200",  # Alibaba Cloud, IPv6
    "192.0.0.192",  # Oracle Cloud Classic
    "fd00:c1::a9fe:a9fe",  # Oracle Cloud, IPv6
    "fd00:ec2::/32",  # AWS, IPv6: instance metadata, and EKS Pod Identity credentials
    "fd20:ce::254",  # Google Cloud, IPv6
    "fd00:42::42",  # Scaleway, IPv6
    "fd00:a9fe:a9fe::1",  # Akamai, IPv6
)


class AddressNotAllowed(OSError):
    """The host has an address that its policy excludes."""


def policy_for(origin: str, *, private_network: bool) -> AddressPolicy:
    """The addresses that the host of a URL may have."""
    if LOOPBACK.fullmatch(urlsplit(origin).hostname or ""):
        return "loopback"
    return "private" if private_network else "public"


def require_allowed(address: str, policy: AddressPolicy) -> None:
    """Raises AddressNotAllowed; always for link-local addresses and cloud metadata services."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        # An IPv4 address inside an IPv6 one: mapped (RFC 4291), 6to4 (RFC 3056), NAT64 (RFC 6052).
        translated = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _NAT64 else None
        ip = ip.ipv4_mapped or ip.sixtofour or translated or ip
    if policy == "loopback":
        allowed = ip.is_loopback
    else:
        public = ip.is_global and not ip.is_multicast and (ip.version == 4 or ip in _GLOBAL_UNICAST)
        private = policy == "private" and any(ip in network for network in _PRIVATE)
        allowed = (public or private) and not any(ip in network for network in _METADATA)
    if not allowed:
        raise AddressNotAllowed


def require_url(url: str, *, public: bool = False) -> None:
    """Raises ValueError unless `url` is HTTPS, or HTTP to localhost or to a private address. `public`: unless it is
    HTTPS, and its host is not known to be private. What a name resolves to is checked when it is used."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if not host or parts.port == 0 or re.search(r"\s", url) or parts.fragment:
        raise ValueError
    if parts.scheme == "http" and host != "localhost" and not ipaddress.ip_address(host).is_private:
        raise ValueError
    if parts.scheme not in ("http", "https"):
        raise ValueError
    if public:
        if parts.scheme == "http" or LOOPBACK.fullmatch(host):
            raise ValueError
        try:
            require_allowed(host, "public")
        except AddressNotAllowed as error:
            raise ValueError from error
        except ValueError:  # the host is a name
            pass
