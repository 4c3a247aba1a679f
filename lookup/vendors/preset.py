"""A preset describes a vendor's API in one TOML file, which is validated completely when it is read.

docs/presets.md explains how to write one. Expressions are JMESPath (jmespath.org) for the vendor's JSON.
"""

import hashlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from django.core.exceptions import ImproperlyConfigured
from msgspec import Meta, inspect

from core import numbers
from lookup.answers import FIELDS
from lookup.vendors import proxy_bodies
from lookup.vendors.authentication import Auth, HeaderName, Strict, Text, require_safe_scheme
from lookup.vendors.bodies import Kind
from lookup.vendors.expressions import Expression, JsonTemplate, Template, Templates

SHIPPED = Path(__file__).with_name("presets")
NAME = re.compile(r"[a-z][a-z0-9_]*")
#: What `load` sets in a preset.
_SET_HERE = {"name", "fingerprint"}
_INDEX = re.compile(r"\[(\d+)\]")

Outcome = Literal[
    "found", "not_found", "invalid_number", "auth", "quota", "rate_limited", "unavailable", "bad_response"
]
#: What a search is charged for.
ANSWERS: tuple[Outcome, ...] = ("found", "not_found", "invalid_number")
#: Where a fact comes from: the vendor's own documents, third-party code only, a measurement, or general knowledge.
Grade = Literal["V", "T", "M", "K"]
Status = Annotated[int, Meta(ge=100, le=599)]
Seconds = Annotated[float, Meta(ge=0, le=31_536_000)]


class MissingEnvironment(ImproperlyConfigured):
    """An environment variable that a preset needs is not set, or not usable. `hint`: what to set."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class InvalidPreset(ImproperlyConfigured):
    """A file is not a valid preset. `key`: where it is wrong: `request.url`, `outcome[1].when` (of the first rule).
    `hint`: what to correct."""

    def __init__(self, file: Path, key: str, problem: str) -> None:
        super().__init__(f"{file.name}: {key}: {problem}" if key else f"{file.name}: {problem}")
        self.key = key
        self.hint = f"Correct {key or 'it'} in {file}; docs/presets.md describes every key."


class RequestTemplate(Strict, frozen=True):
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
            raise ValueError("the host in url is fixed: no placeholder, user or password")
        if parts.query or parts.fragment:
            raise ValueError("url must not contain ? or #: write the query under request.query")
        require_safe_scheme(self.url.text)
        if self.method == "GET" and (self.json is not None or self.form):
            raise ValueError("a GET request has no body")
        if self.json is not None and self.form:
            raise ValueError("json and form are mutually exclusive")
        for name, template in self.headers.items():
            if not (template.text.isascii() and template.text.isprintable()):
                raise ValueError(f"the header {name} has a character that is not printable ASCII")

    @property
    def origin(self) -> str:
        parts = urlsplit(self.url.text)
        return f"{parts.scheme}://{parts.netloc}"

    def templates(self) -> Iterator[tuple[str, Template]]:
        """All templates, each with its key under [request]."""
        yield "url", self.url
        yield from ((f"query.{name}", each) for name, repeated in self.query.items() for each in repeated)
        yield from ((f"headers.{name}", each) for name, each in self.headers.items())
        yield from ((f"form.{name}", each) for name, each in self.form.items())
        yield from (("json", each) for each in (self.json.templates if self.json else ()))


class Coverage(Strict, frozen=True):
    """Numbers outside are never looked up. Empty: no limit."""

    country_codes: list[Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,2}\Z")]] = []
    regions: list[Annotated[str, Meta(pattern=r"^[A-Z]{2}\Z")]] = []

    def __post_init__(self) -> None:
        if unknown := [region for region in self.regions if region not in numbers.REGIONS]:
            raise ValueError(f"no country has the code {', '.join(unknown)}: see ISO 3166-1, as in US, GB (not UK), DE")
        if codes := [code for code in self.country_codes if int(code) not in numbers.COUNTRY_CODES]:
            raise ValueError(f"no country has the calling code {', '.join(codes)}: see ITU E.164, as in 1, 44, 49")

    def __contains__(self, number: str) -> bool:
        if self.country_codes and numbers.country_code(number) not in self.country_codes:
            return False
        return not self.regions or any(region in self.regions for region in numbers.possible_regions(number))


class OutcomeRule(Strict, frozen=True):
    """A reply whose status is in `status`, for whose body `when` is true, and whose body is `text` (surrounding
    whitespace does not count), has this outcome. `number_specific`: the failure concerns this number alone, so the
    circuit breaker does not count it. `status_alone`: where the vendor documents that the status is the answer."""

    outcome: Outcome = msgspec.field(name="is")
    status: list[Status] = []
    when: Expression | None = None
    text: str = ""
    fix: str = ""
    number_specific: bool = False
    status_alone: Annotated[str, Meta(pattern=r"\S")] = ""

    def __post_init__(self) -> None:
        if not self.status and self.when is None and not self.text:
            raise ValueError("a rule needs status, when or text")
        if self.number_specific and self.outcome not in ("unavailable", "bad_response"):
            raise ValueError("number_specific is for the outcomes unavailable and bad_response")
        if not self.status_alone:
            # 202 and 4xx are number-specific without a rule too.
            plain = (
                self.when is None and not self.text and all(each == 202 or 400 <= each < 500 for each in self.status)
            )
            if self.outcome in ANSWERS or (self.number_specific and not plain):
                self._require_proof()
        elif self.outcome not in ANSWERS:
            raise ValueError(f"status_alone is for the outcomes {', '.join(ANSWERS)}")
        elif not self.status or self.when is not None or self.text:
            raise ValueError("status_alone needs status, and neither when nor text")

    def _require_proof(self) -> None:
        """Raises ValueError if a proxy's page would be taken for the vendor's answer, or its failure for that of one
        number: it would be called for every search, and the circuit breaker would never open."""
        needs = "number_specific" if self.number_specific else self.outcome
        if self.when is None and not self.text:
            raise ValueError(
                f"{needs} needs more than a status, which a proxy's page has too: add what the vendor documents "
                'for the body, as in when = "error == \'unknown_number\'" or text = "Unknown number."; if it documents '
                'the status alone, add where: status_alone = "docs.example.com, page Errors"'
            )
        bodies = list(proxy_bodies.of(self.status))
        if self.text and proxy_bodies.folded(self.text) in [[], *map(proxy_bodies.folded, bodies)]:
            raise ValueError(
                f"{needs} needs a `text` that a proxy or a framework does not send too, as in text = "
                '"Unknown number."; for JSON write when'
            )
        if self.when is not None and not self.text and self.when.applies_to_any(bodies):
            raise ValueError(
                f"{needs} needs a `when` that an empty body or a proxy's page does not fulfil: require a member "
                "of the vendor's answer, as in contains(keys(@), 'name'), or what only the vendor's text has, as in "
                "starts_with(@, 'CALLER: ')"
            )


class SpamRules(Strict, frozen=True):
    """In this order: `never` is true: not spam. Any of `yes` is true: spam. All of `known` is true: not spam. Else, and
    without `known`: unknown."""

    yes: Annotated[list[Expression], Meta(min_length=1)]
    known: list[Expression] = []
    never: Expression | None = None


class Fields(Strict, frozen=True):
    #: Where the vendor repeats the number, or several: an answer about another one is a failure.
    number: Expression | None = None
    name: list[Expression] = []
    location: list[Expression] = []
    spam: SpamRules | None = None
    #: Values that mean "nothing", beside those of lookup.vendors.placeholders; case does not matter.
    empty: list[str] = []
    max_length: Annotated[int, Meta(ge=1, le=200)] = 200
    #: Fields in which "ST. LOUIS, MO" becomes "St. Louis, MO" (lookup.vendors.capitals).
    capitals: list[Literal["name", "location"]] = []
    #: The names are of a database of caller names (CNAM), where "ROCKINGHAM NC" stands in place of a name.
    cnam: bool = False

    def __post_init__(self) -> None:
        if not self.supplied:
            raise ValueError("at least one of name, location and spam")

    @property
    def supplied(self) -> frozenset[str]:
        return frozenset(field for field in FIELDS if getattr(self, field))


class Budget(Strict, frozen=True):
    """`timeout_s`: how long a search waits for this vendor, at most until its deadline. Cache: 0 caches nothing."""

    timeout_s: Annotated[float, Meta(gt=0, le=60)] | None = None
    max_body_bytes: Annotated[int, Meta(ge=1, le=16 * 2**20)] = 64 * 1024
    cache_hit_s: Seconds = 24 * 3600
    cache_miss_s: Seconds = 3600
    concurrency: Annotated[int, Meta(ge=1, le=256)] = 16


class ExpectedAnswer(Strict, frozen=True):
    outcome: Outcome
    name: str | None = None
    location: str | None = None
    spam: bool | None = None


class Sample(Strict, frozen=True):
    """A reply as the vendor documents it, and what must be read from it."""

    title: Text
    source: Text
    expect: ExpectedAnswer
    #: That of the preset (`evidence`) unless it differs.
    grade: Grade | None = None
    status: Status = 200
    headers: dict[str, str] = {}
    body: str = ""
    #: The request about `number` for it, as `GET https://…`, without the secrets.
    request: str = ""
    number: Annotated[str, Meta(pattern=rf"^{numbers.PATTERN}\Z")] | None = None

    def __post_init__(self) -> None:
        if self.request and not self.number:
            raise ValueError("request needs the number that it is about")


class Preset(Strict, frozen=True):
    #: The file's name without `.toml`, and a hash of its content: `load` sets both.
    name: str
    fingerprint: str
    title: Text
    documentation: Annotated[str, Meta(pattern="^https?://")]
    evidence: Grade
    #: Where the facts come from.
    source: Text
    request: RequestTemplate
    rules: Annotated[list[OutcomeRule], Meta(min_length=1)] = msgspec.field(name="outcome")
    fields: Fields
    sample: list[Sample] = []
    caveats: list[str] = []
    auth: Auth = Auth()
    coverage: Coverage = Coverage()
    budget: Budget = Budget()
    #: Whether the vendor's host may have an address in the operator's private network.
    private_network: bool = False
    #: The body is JSON or XML (lookup.vendors.xml), whatever its Content-Type, or plain text, which is `@` in
    #: expressions.
    body: Kind = "json"

    def __post_init__(self) -> None:
        prefix = f"{self.name.upper()}_"
        if not all(variable.startswith(prefix) for variable in self.auth.names):
            raise ValueError(f"auth: the names of its variables must begin with {prefix}")
        for key, template in self.request.templates():
            if template.has_key and key != "url":
                raise ValueError("{key} is only allowed in the path of request.url")
            if found := re.search(rf"\b{prefix}[A-Z0-9_]+", template.text):
                raise ValueError(f"request.{key} would send the text {found[0]}, not that variable: name it in [auth]")
        if self.request.url.has_key != bool(self.auth.path):
            raise ValueError("{key} in request.url requires auth.path, and the reverse")
        if self.auth.form and (self.request.method != "POST" or self.request.json is not None):
            raise ValueError('auth.form requires method = "POST" under [request], and no json')
        body = self.request.json
        if self.auth.json and (body is None or not body.is_table or self.auth.json.keys() & body.names):
            raise ValueError("auth.json requires a table json under [request], without these names")

    @property
    def base_url_name(self) -> str:
        return f"{self.name.upper()}_BASE_URL"

    @property
    def token_url_name(self) -> str:
        return f"{self.name.upper()}_TOKEN_URL"

    def covers(self, number: str) -> bool:
        """Whether `number` is in the coverage, and can be written in the formats of the request."""
        return number in self.coverage and all(template.fits(number) for _, template in self.request.templates())


def load(file: Path) -> Preset:
    """Raises InvalidPreset."""
    name = file.name.removesuffix(".toml")
    if not NAME.fullmatch(name):
        raise InvalidPreset(file, "", "its name may have lower-case letters, digits and _ only, as in acme_cnam.toml")
    try:
        content = file.read_bytes()
        document = tomllib.loads(content.decode())
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidPreset(file, "", f"cannot be read: {type(error).__name__}") from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidPreset(file, "", f"not TOML: {error}") from error
    if own := document.keys() & _SET_HERE:
        raise InvalidPreset(file, min(own), "set by the service, not by a preset")
    document |= {"name": name, "fingerprint": hashlib.sha256(content).hexdigest()}
    try:
        return msgspec.convert(document, Preset, dec_hook=_decode)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `")
        key = path.rstrip("`").removeprefix("key` in `").removeprefix("$").removeprefix(".")
        key = _INDEX.sub(lambda index: f"[{int(index[1]) + 1}]", key)
        if problem.startswith("Invalid enum value"):
            problem += f", which is none of {', '.join(_type_at(key).values)}"
        if problem.startswith("Object contains unknown field"):
            names = [field.encode_name for field in _type_at(key).fields if key or field.encode_name not in _SET_HERE]
            problem += f"; allowed: {', '.join(names)}"
        if key.startswith(("request.", "auth.")) and key.endswith("[...]"):
            key = f"{key[:-5]}.{_invalid_member(document, key[:-5])}"
        raise InvalidPreset(file, key, problem) from error


def folder(directory: Path) -> dict[str, Path]:
    """The presets in a folder: name → file."""
    return {file.name.removesuffix(".toml"): file for file in sorted(directory.glob("*.toml"))}


def _type_at(path: str) -> Any:
    """What stands at `path`, such as `outcome[1].is`."""
    found: Any = inspect.type_info(Preset)
    for name in filter(None, _INDEX.sub("", path).split(".")):
        found = next(field.type for field in found.fields if field.encode_name == name)
        while not isinstance(found, inspect.StructType | inspect.LiteralType):
            found = found.item_type if isinstance(found, inspect.ListType) else found.types[0]
    return found


def _invalid_member(document: dict[str, Any], path: str) -> str:
    """The name of the first member of the table at `path` that is no valid template: msgspec does not tell it."""
    table: Any = document
    for name in path.split("."):
        table = table[name]
    for name, value in table.items():
        try:
            _decode(Templates, value)
        except ValueError:
            return str(name)
    return "…"


def _decode(wanted: type, value: Any) -> Any:
    """msgspec's hook: creates the types that it does not know."""
    if wanted is Templates:
        return Templates(_decode(Template, item) for item in (value if isinstance(value, list) else [value]))
    if wanted is not JsonTemplate and not isinstance(value, str):
        raise ValueError(f"Expected `str`, got `{type(value).__name__}`")
    return wanted(value)
