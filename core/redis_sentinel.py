"""Redis Sentinel's URLs. core.redis connects."""

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

_URL = re.compile(
    r"sentinel(?P<tls>s?)://((?P<auth>[^/?#]*)@)?(?P<hosts>[^/?#@]+)/(?P<name>[^/?#]+)/?(?P<db>[0-9]*)(\?(?P<query>[^#]*))?"
)
_HOST = re.compile(r"([^][:,\s]+|\[[0-9A-Fa-f:.]+\])(?P<port>:[1-9][0-9]{0,4})?")


@dataclass(frozen=True, slots=True)
class Master:
    """`name`: the Sentinels' name for it. `url`: a Redis URL without a host. `sentinels`: the Redis URL of each."""

    name: str
    url: str
    sentinels: tuple[str, ...]


def parse(url: str) -> Master | None:
    """`sentinel://user:password@s1:26379,s2:26379/mymaster/0`, or `sentinels://` for TLS to both; None for other URLs.

    User, password and database are the master's. The Sentinels' password is the parameter `sentinel_password`; the
    other parameters are those of redis-py, for both.
    """
    match = _URL.fullmatch(url)
    hosts = [_HOST.fullmatch(host.strip()) for host in match["hosts"].split(",")] if match else [None]
    if not (match and all(hosts)):
        return None
    scheme = f"redis{match['tls']}"
    options = dict(parse_qsl(match["query"] or ""))
    password = options.pop("sentinel_password", "")
    sentinel_auth = f":{quote(password, safe='')}@" if password else ""
    addresses = [host[0] if host["port"] else f"{host[0]}:26379" for host in hosts if host]
    query = urlencode(options)
    return Master(
        match["name"],
        f"{scheme}://{match['auth'] or ''}@/{match['db']}?{query}",
        tuple(f"{scheme}://{sentinel_auth}{address}?{query}" for address in addresses),
    )


def options(master: Master) -> dict[str, Any]:
    """What the library's Sentinel needs for connections to the master: password, database, TLS and others."""
    from redis.connection import SSLConnection, parse_url

    options = {name: value for name, value in parse_url(master.url).items() if name not in ("host", "port")}
    if options.pop("connection_class", None) is SSLConnection:
        options["ssl"] = True
    return options
