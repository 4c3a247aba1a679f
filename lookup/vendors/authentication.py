"""How a preset authenticates its requests."""

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from core.addresses import LOOPBACK

_HOST = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*\.?|[0-9a-f:.]+")
ENVIRONMENT_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
Text = Annotated[str, Meta(min_length=1)]
HeaderName = Annotated[str, Meta(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")]
#: Each is a function of lookup.vendors.signatures.
SignatureScheme = Literal["telesign"]


class Strict(Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a preset."""


class OAuth2(Strict, frozen=True):
    """Client credentials (RFC 6749, section 4.4): a token is requested from `url`. `id` and `secret` are the names of
    environment variables. `params`: further parameters of the request, such as `scope`. `in_form`: id and secret are
    sent in the form, by a server that does not accept them as HTTP Basic."""

    url: Text
    id: str
    secret: str
    params: dict[str, str] = {}
    in_form: bool = False

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise ValueError("the url of oauth2 has no user, query or fragment")
        require_safe_scheme(self.url)


class Signature(Strict, frozen=True):
    """A signature of each request (lookup.vendors.signatures). `id` and `key` are names of environment variables."""

    scheme: SignatureScheme
    id: str
    key: str


class Auth(Strict, frozen=True):
    """Authentication. Each value is the name of an environment variable; at most one of basic, bearer, oauth2 and
    signature."""

    basic: tuple[str, str] | None = None
    bearer: str | None = None
    oauth2: OAuth2 | None = None
    signature: Signature | None = None
    headers: dict[HeaderName, str] = {}
    query: dict[str, str] = {}
    form: dict[str, str] = {}
    json: dict[str, str] = {}
    path: str | None = None
    optional: bool = False

    def __post_init__(self) -> None:
        own_header = "authorization" in map(str.lower, self.headers)
        if sum(map(bool, (self.basic, self.bearer, self.oauth2, self.signature, own_header))) > 1:
            raise ValueError("only one of basic, bearer, oauth2, signature and a header Authorization")
        if not all(map(ENVIRONMENT_NAME.fullmatch, self.names)):
            # The value is not repeated: it may be a key that was pasted here.
            raise ValueError("a value is not the name of an environment variable (capitals, digits and _)")
        if self.optional and self.path:
            raise ValueError("a key in the path cannot be optional")

    @property
    def names(self) -> tuple[str, ...]:
        """The environment variables that hold the secrets."""
        single = [name for name in (self.bearer, self.path) if name]
        pairs = [self.basic or ()]
        pairs += [(self.oauth2.id, self.oauth2.secret)] if self.oauth2 else []
        pairs += [(self.signature.id, self.signature.key)] if self.signature else []
        named = (self.headers, self.query, self.form, self.json)
        return (
            *(name for pair in pairs for name in pair),
            *single,
            *(name for names in named for name in names.values()),
        )


def require_safe_scheme(url: str) -> None:
    """HTTPS is required, except for loopback. Raises ValueError, also for an invalid host or port."""
    parts = urlsplit(url)
    if not _HOST.fullmatch(parts.hostname or "") or parts.port == 0:
        raise ValueError("the host or port is invalid")
    if parts.scheme != "https" and not (parts.scheme == "http" and LOOPBACK.fullmatch(parts.hostname or "")):
        raise ValueError("https:// is required; http:// is for loopback only")
