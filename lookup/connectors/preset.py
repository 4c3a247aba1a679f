"""A vendor's API as data: one TOML file, read and checked whole. docs/presets.md tells how to write one.

Expressions are JMESPath (jmespath.org), on the vendor's JSON.
"""

import hashlib
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit

import msgspec
from django.core.exceptions import ImproperlyConfigured
from msgspec import Meta, Struct

from lookup import numbers
from lookup.answers import FIELDS
from lookup.connectors.templates import Expression, JsonTemplate, Template, Templates

SHIPPED = Path(__file__).with_name("presets")
NAME = re.compile(r"[a-z][a-z0-9_]*")
LOOPBACK = re.compile(r"localhost|127\.\d+\.\d+\.\d+|::1")
_HOST = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*\.?|[0-9a-f:.]+")
_INDEX = re.compile(r"\[(\d+)\]")
_ENVIRONMENT_NAME = re.compile(r"[A-Z][A-Z0-9_]*")

Outcome = Literal[
    "found", "not_found", "invalid_number", "auth", "quota", "rate_limited", "unavailable", "bad_response"
]
#: How well a fact is known: the vendor's own documents, third-party code only, measured, or general knowledge.
Grade = Literal["V", "T", "M", "K"]
Text = Annotated[str, Meta(min_length=1)]
Status = Annotated[int, Meta(ge=100, le=599)]
Seconds = Annotated[float, Meta(ge=0, le=31_536_000)]
HeaderName = Annotated[str, Meta(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")]
_CHOICES = {
    **dict.fromkeys(("is", "outcome"), get_args(Outcome)),
    **dict.fromkeys(("evidence", "grade"), get_args(Grade)),
    "method": ("GET", "POST"),
    "body": ("json", "text"),
}


class EnvironmentLacks(ImproperlyConfigured):
    """What a preset asks for is not in the environment, or is not usable. `hint`: what to set."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Invalid(Exception):
    """This file is no preset. `file`: its path; `key`: where in it, as `request.url` or `outcome[1].when`, which is the
    first rule's; `problem`: what is wrong."""

    def __init__(self, file: Path, key: str, problem: str) -> None:
        super().__init__(f"{file.name}: {key}: {problem}" if key else f"{file.name}: {problem}")
        self.file, self.key, self.problem = file, key, problem


class _Strict(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Request(_Strict, frozen=True):
    url: Template
    method: Literal["GET", "POST"] = "GET"
    query: dict[str, Templates] = {}
    headers: dict[HeaderName, Template] = {}
    json: JsonTemplate | None = None
    form: dict[str, Template] = {}

    def __post_init__(self) -> None:
        parts = urlsplit(self.url.text)
        if parts.scheme not in ("https", "http") or not parts.hostname:
            raise ValueError("url must begin with https:// and a host")
        if set("{}@") & set(parts.netloc):
            raise ValueError("url's host is fixed: no placeholder, user or password")
        if parts.query or parts.fragment:
            raise ValueError("url has no ? and no #: write the query under request.query")
        require_safe_scheme(self.url.text)
        if self.method == "GET" and (self.json is not None or self.form):
            raise ValueError("a GET request has no body")
        if self.json is not None and self.form:
            raise ValueError("json and form exclude each other")

    @property
    def origin(self) -> str:
        parts = urlsplit(self.url.text)
        return f"{parts.scheme}://{parts.netloc}"

    def templates(self) -> Iterator[Template]:
        yield self.url
        for repeated in self.query.values():
            yield from repeated
        yield from (*self.headers.values(), *self.form.values(), *(self.json.templates if self.json else ()))


class Auth(_Strict, frozen=True):
    """At most one way. Each value is the name of an environment variable."""

    basic: tuple[str, str] | None = None
    bearer: str | None = None
    headers: dict[HeaderName, str] = {}
    query: dict[str, str] = {}
    path: str | None = None
    optional: bool = False

    def __post_init__(self) -> None:
        if sum(map(bool, (self.basic, self.bearer, self.headers, self.query, self.path))) > 1:
            raise ValueError("one of basic, bearer, headers, query and path")
        for name in self.names:
            if not _ENVIRONMENT_NAME.fullmatch(name):
                # Not repeated: it may be a key that was pasted here.
                raise ValueError("a value is no name of an environment variable (capitals, digits and _)")
        if self.optional and self.path:
            raise ValueError("a key in the path cannot be optional")

    @property
    def names(self) -> tuple[str, ...]:
        """The environment variables that hold the secrets."""
        single = [name for name in (self.bearer, self.path) if name]
        return (*(self.basic or ()), *single, *self.headers.values(), *self.query.values())


class Coverage(_Strict, frozen=True):
    """Numbers outside are never asked about. Empty: no such limit."""

    country_codes: list[Annotated[str, Meta(pattern="^[1-9][0-9]{0,2}$")]] = []
    regions: list[Annotated[str, Meta(pattern="^[A-Z]{2}$")]] = []

    def __contains__(self, number: str) -> bool:
        if self.country_codes and numbers.country_code(number) not in self.country_codes:
            return False
        return not self.regions or numbers.region(number) in self.regions


class Rule(_Strict, frozen=True):
    """`outcome` is what it is when the status is one of `status` and `when` is true of the body. `number_specific`: a
    failure that concerns this number alone, so the circuit breaker does not count it."""

    outcome: Outcome = msgspec.field(name="is")
    status: list[Status] = []
    when: Expression | None = None
    fix: str = ""
    number_specific: bool = False

    def __post_init__(self) -> None:
        if not self.status and self.when is None:
            raise ValueError("a rule needs status, when, or both")
        if self.number_specific and self.outcome not in ("unavailable", "bad_response"):
            raise ValueError("number_specific is for the outcomes unavailable and bad_response")


class Spam(_Strict, frozen=True):
    """`never` true: not spam. Else any of `yes` true: spam. Else, with `known` and all of it true: not spam. Else
    unknown."""

    yes: Annotated[list[Expression], Meta(min_length=1)]
    known: list[Expression] = []
    never: Expression | None = None


class Fields(_Strict, frozen=True):
    name: list[Expression] = []
    location: list[Expression] = []
    spam: Spam | None = None
    #: Values that mean "nothing", in any case of letters.
    empty: list[str] = msgspec.field(default_factory=lambda: ["n/a", "none", "null", "unknown", "unavailable"])
    max_length: Annotated[int, Meta(ge=1, le=200)] = 200
    #: Fields in which "WAUKEGAN, IL" is to become "Waukegan, IL".
    capitals: list[Literal["name", "location"]] = []

    def __post_init__(self) -> None:
        if not self.supplied:
            raise ValueError("at least one of name, location and spam")

    @property
    def supplied(self) -> frozenset[str]:
        return frozenset(field for field in FIELDS if getattr(self, field))


class Budget(_Strict, frozen=True):
    """`timeout_s`: how long a search waits for this vendor, at most its own deadline. Cache: 0 keeps nothing."""

    timeout_s: Annotated[float, Meta(gt=0, le=60)] | None = None
    max_body_bytes: Annotated[int, Meta(ge=1, le=16 * 2**20)] = 64 * 1024
    cache_hit_s: Seconds = 24 * 3600
    cache_miss_s: Seconds = 3600
    concurrency: Annotated[int, Meta(ge=1, le=256)] = 16


class Expect(_Strict, frozen=True):
    outcome: Outcome
    name: str | None = None
    location: str | None = None
    spam: bool | None = None


class Sample(_Strict, frozen=True):
    """An answer as the vendor documents it, and what has to be read from it."""

    title: Text
    source: Text
    grade: Grade
    number: Annotated[str, Meta(pattern=f"^{numbers.PATTERN}$")]
    expect: Expect
    status: Status = 200
    headers: dict[str, str] = {}
    body: str = ""
    #: The request that asks for it, `GET https://…`, without the secrets.
    request: str = ""


class Preset(_Strict, frozen=True):
    title: Text
    documentation: Annotated[str, Meta(pattern="^https?://")]
    evidence: Grade
    #: Where the facts come from.
    source: Text
    request: Request
    outcome: Annotated[list[Rule], Meta(min_length=1)]
    fields: Fields
    sample: list[Sample]
    caveats: list[str] = []
    auth: Auth = Auth()
    coverage: Coverage = Coverage()
    budget: Budget = Budget()
    #: Whether the vendor's host may have an address that is not public (a host of the operator's own).
    private_network: bool = False
    #: How the body is read: as JSON whatever its Content-Type, or as one piece of text, which expressions see as `@`.
    body: Literal["json", "text"] = "json"
    #: The file's name without `.toml`, and a hash of all that it says: `load` sets both.
    name: str = ""
    fingerprint: str = ""

    def __post_init__(self) -> None:
        if any(t.wants_key for t in self.request.templates() if t is not self.request.url):
            raise ValueError("{key} belongs into the path of request.url")
        if self.request.url.wants_key != bool(self.auth.path):
            raise ValueError("{key} in request.url and auth.path belong together")
        outcomes = {sample.expect.outcome for sample in self.sample}
        if not (outcomes & {"found"} and outcomes & {"not_found", "invalid_number"} and len(outcomes) > 2):
            raise ValueError("sample: at least one that is found, one that is not found, and one error are needed")

    @property
    def base_url_name(self) -> str:
        return f"{self.name.upper()}_BASE_URL"

    def covers(self, number: str) -> bool:
        """Whether the vendor can be asked about `number` at all."""
        return number in self.coverage and all(template.fits(number) for template in self.request.templates())


def load(file: Path) -> Preset:
    """Raises Invalid."""
    name = file.name.removesuffix(".toml")
    if not NAME.fullmatch(name):
        raise Invalid(file, "", "a preset's file is named in lower case letters, digits and _, as in acme_cnam.toml")
    try:
        content = file.read_bytes()
        document = tomllib.loads(content.decode())
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(file, "", f"cannot be read: {type(error).__name__}") from error
    except tomllib.TOMLDecodeError as error:
        raise Invalid(file, "", f"not TOML: {error}") from error
    for own in ("name", "fingerprint"):
        if own in document:
            raise Invalid(file, own, "not for a preset to say")
    try:
        preset = msgspec.convert(document, Preset, dec_hook=lambda wanted, value: _DECODERS[wanted](value))
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `")
        key = path.rstrip("`").removeprefix("key` in `").removeprefix("$").removeprefix(".")
        key = _INDEX.sub(lambda index: f"[{int(index[1]) + 1}]", key)
        if allowed := _CHOICES.get(key.rpartition(".")[2]) if problem.startswith("Invalid enum value") else None:
            problem += f", which is none of {', '.join(allowed)}"
        raise Invalid(file, key, problem) from error
    for secret in preset.auth.names:
        if not secret.startswith(f"{name.upper()}_"):
            raise Invalid(file, "auth", f"the name of a variable must begin with {name.upper()}_")
    return msgspec.structs.replace(preset, name=name, fingerprint=hashlib.sha256(content).hexdigest())


def folder(directory: Path) -> dict[str, Path]:
    """The presets in a folder: name → file."""
    return {file.name.removesuffix(".toml"): file for file in sorted(directory.glob("*.toml"))}


def require_safe_scheme(url: str) -> None:
    """HTTPS only, but for a host on loopback. Raises ValueError; also for a host or port that cannot be one."""
    parts = urlsplit(url)
    if not _HOST.fullmatch(parts.hostname or "") or parts.port == 0:
        raise ValueError("its host or port cannot be one")
    if parts.scheme != "https" and not (parts.scheme == "http" and LOOPBACK.fullmatch(parts.hostname or "")):
        raise ValueError("https:// is needed; http:// is for a host on loopback alone")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"Expected `str`, got `{type(value).__name__}`")
    return value


#: How msgspec's hook makes what is not of its own types.
_DECODERS: dict[type, Callable[[Any], Any]] = {
    Expression: lambda value: Expression(_text(value)),
    JsonTemplate: JsonTemplate,
    Template: lambda value: Template(_text(value)),
    Templates: lambda value: Templates(
        Template(_text(item)) for item in (value if isinstance(value, list) else [value])
    ),
}
