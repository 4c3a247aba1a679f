"""What a value of ALLOWED_HOSTS means. Standard library only: the image's health check reads it too."""

import re
from ipaddress import ip_address

#: A name or an address, also as a URL or with a port.
_WORD = re.compile(r"(?:https?://)?(?:\[(?P<v6>[^]]+)\]|(?P<host>[^][/:@]+))(?::[0-9]+)?/?", re.IGNORECASE)
#: What Django accepts as a `Host` header, and its patterns.
_NAME = re.compile(r"\*|\.?[a-z0-9-]+(\.[a-z0-9-]+)*")


def read(text: str) -> list[str]:
    """The names and addresses in `text`, separated by commas or spaces, in the form in which Django compares them with
    the `Host` header: without a port, and IPv6 in brackets, which Kubernetes' $(POD_IP) has not. Raises ValueError with
    the word that can match none, such as one with an underscore."""
    return list(dict.fromkeys(_host(word) for word in re.split(r"[\s,]+", text) if word))


def _host(word: str) -> str:
    match = _WORD.fullmatch(word)
    host = ((match["v6"] or match["host"]) if match else word).lower().removesuffix(".")
    host = host.removeprefix("*") if host.startswith("*.") else host
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        if _NAME.fullmatch(host):
            return host
        raise ValueError(word) from None
    return f"[{address}]" if address.version == 6 else str(address)
