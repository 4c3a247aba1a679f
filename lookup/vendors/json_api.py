"""A vendor's API by its preset: build the request, send it, classify the reply, extract the fields."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from aiohttp import encode_basic_auth
from django.conf import settings
from multidict import CIMultiDict

from core import http, loop, numbers
from core.addresses import policy_for
from lookup.answers import Answer, Failed, Found, NotFound
from lookup.connectors.base import Connector
from lookup.vendors import bodies, capitals, oauth2, placeholders, signatures, transport
from lookup.vendors.authentication import require_safe_scheme
from lookup.vendors.expressions import Expression, NotBoolean, Template, UnexpectedShape, literal
from lookup.vendors.preset import ANSWERS, MissingEnvironment, Outcome, OutcomeRule, Preset, SpamRules

_JSON, _FORM = "application/json", "application/x-www-form-urlencoded"
# Those of each request, unless the preset has others. aiohttp's own Accept-Encoding depends on what is installed.
HEADERS = {"User-Agent": "callerid/1.0", "Accept": _JSON, "Accept-Encoding": "gzip"}
# Larger replies are classified in a thread, or their expressions would delay all other calls.
LARGE_BYTES = 16 * 1024
#: The longest pause that a vendor's Retry-After makes: the next call costs it little, and a wrong one would cost a day.
MAX_PAUSE_S = 600.0
# The outcome if no rule of the preset applies (RFC 9110, section 15; RFC 6585, section 4).
_BY_STATUS: dict[int, Outcome] = {401: "auth", 402: "quota", 403: "auth", 408: "unavailable", 429: "rate_limited"}
_BY_STATUS |= {202: "unavailable"}
_ABOUT_ANOTHER = OutcomeRule(outcome="bad_response", status=[200], fix="its answer is about another number")
# Cloudflare asks for a browser (developers.cloudflare.com, "Detect a Challenge Page response"): no answer of a vendor.
_CHALLENGED = OutcomeRule(
    outcome="unavailable",
    status=[403],
    fix="a firewall in front of it (Cloudflare) asks for a browser: have the vendor allow this host's address",
)
_DIGITS = re.compile(r"[0-9]+")
# A scheme, a host and a path of the characters of RFC 3986, without the segments that HTTP clients resolve (. and ..).
_BASE_URL = re.compile(r"https?://[^/@?#]+(/(?!\.\.?(/|$))[A-Za-z0-9._~!$&'()*+,;=:@%-]+)*")


@dataclass(frozen=True, slots=True)
class Classification:
    """`rule`: the number, from 1, of the preset's rule that applied; None if the status decided. `not_boolean`: whether
    a rule is neither true, false nor null for this reply, a fault of the preset."""

    answer: Answer
    rule: int | None = None
    not_boolean: bool = False

    @property
    def outcome(self) -> str:
        return "found" if isinstance(self.answer, Found) else self.answer.reason


class JsonApi(Connector):
    """One vendor. Raises MissingEnvironment."""

    remote = True

    def __init__(self, preset: Preset, environment: Mapping[str, str]) -> None:
        self.preset = preset
        self.fields = preset.fields.supplied
        self.max_wait_s = preset.budget.timeout_s
        self.hit_ttl_s, self.miss_ttl_s = preset.budget.cache_hit_s, preset.budget.cache_miss_s
        self.concurrency = preset.budget.concurrency
        self._empty = {word.lower() for word in preset.fields.empty}
        # The URL before the preset's path: its scheme and host, or the operator's, which may include a path.
        self._base_url = _environment_url(preset.base_url_name, environment, default=preset.request.origin)
        # The only part of the URL in hints and logs: the path contains the number and may contain a key.
        self._host = urlsplit(self._base_url).netloc
        self.version = f"{preset.fingerprint} {self._base_url}"
        self._secrets = _secrets(preset, environment)
        self._prepare_request()
        self.client = self._client_of(self._base_url)
        self._tokens = self._token_source(environment)
        if (signature := preset.auth.signature) and self._secrets:
            try:
                self.request(numbers.EXAMPLE_NUMBER)
            except ValueError as error:
                message = f"{signature.key} is not a key of the scheme {signature.scheme}."
                raise MissingEnvironment(message, f"Set {signature.key}: see {preset.documentation}") from error

    def _client_of(self, url: str) -> transport.Client:
        return transport.Client(policy_for(url, private_network=self.preset.private_network))

    def _token_source(self, environment: Mapping[str, str]) -> oauth2.Tokens | None:
        auth = self.preset.auth.oauth2
        if auth is None or not self._secrets:
            return None
        url = _environment_url(self.preset.token_url_name, environment, default=auth.url)
        client_id, secret = self._secrets[auth.id], self._secrets[auth.secret]
        return oauth2.Tokens(auth, self._client_of(url), url=url, client_id=client_id, secret=secret)

    def _prepare_request(self) -> None:
        """Add the secrets to the templates of the request."""
        template, auth, secret = self.preset.request, self.preset.auth, self._secrets

        def given(names: Mapping[str, str]) -> dict[str, Template]:
            return {name: literal(secret[value]) for name, value in names.items() if value in secret}

        path = urlsplit(template.url.text).path
        self._path = Template(path.replace("{key}", quote(secret.get(auth.path or "", ""), safe="")))
        self._query = [(name, each) for name, repeated in template.query.items() for each in repeated]
        self._query += given(auth.query).items()
        self._form = {**template.form, **given(auth.form)}
        self._json = {name: secret[value] for name, value in auth.json.items() if value in secret}
        headers = CIMultiDict({name: Template(value) for name, value in HEADERS.items()})
        if self.preset.body == "xml":
            headers["Accept"] = Template("application/xml, text/xml")
        if template.json or self._form:
            headers["Content-Type"] = Template(_JSON if template.json else _FORM)
        headers.update(template.headers)
        headers.update(given(auth.headers))
        if auth.bearer in secret:
            headers["Authorization"] = literal(f"Bearer {secret[auth.bearer]}")
        if auth.basic and secret:
            user, password = (secret[name] for name in auth.basic)
            headers["Authorization"] = literal(encode_basic_auth(user, password))
        self._headers = headers

    def covers(self, number: str) -> bool:
        return self.preset.covers(number)

    async def lookup(self, number: str, *, timeout_s: float) -> Answer:
        try:
            reply = await self.exchange(number)
        except oauth2.Refused as error:
            return Failed("auth", f"{error}: {' or '.join(self.preset.auth.names)} is rejected")
        except http.RequestFailed as error:
            reason = "bad_response" if isinstance(error, http.BadResponse) else "unavailable"
            return Failed(reason, f"{self._host}: {error}")
        if len(reply.body) > LARGE_BYTES:
            return (await loop.run_in_thread(lambda: self.classify(reply, number))).answer
        return self.classify(reply, number).answer

    async def exchange(self, number: str) -> transport.Reply:
        """Send the request, with an access token where one is needed, and once more with a new one if the vendor
        rejects it. Raises oauth2.Refused and core.http.RequestFailed."""
        if self._tokens is None:
            return await self._send(number)
        token = await self._tokens.get()
        reply = await self._send(number, token)
        if reply.status == HTTPStatus.UNAUTHORIZED:
            reply = await self._send(number, await self._tokens.get(rejected=token))
        return reply

    async def _send(self, number: str, token: str = "") -> transport.Reply:
        return await self.client.send(self.request(number, token), max_body_bytes=self.preset.budget.max_body_bytes)

    async def close(self) -> None:
        await self.client.close()
        if self._tokens:
            await self._tokens.close()

    def request(self, number: str, token: str = "") -> transport.Request:
        """The complete HTTP request, including the secrets. `token`: of OAuth 2.0."""
        template, body = self.preset.request, None
        url = self._base_url + self._path.fill(number, encode=partial(quote, safe=""))
        if self._query:
            url += "?" + urlencode([(name, each.fill(number)) for name, each in self._query], quote_via=quote)
        if template.json:
            document = template.json.fill(number)
            body = json.dumps({**document, **self._json} if self._json else document).encode()
        elif self._form:
            body = urlencode({name: each.fill(number) for name, each in self._form.items()}).encode()
        headers = {name: each.fill(number) for name, each in self._headers.items()}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        request = transport.Request(template.method, url, headers, body)
        if (signature := self.preset.auth.signature) and self._secrets:
            account, key = self._secrets[signature.id], self._secrets[signature.key]
            headers |= signatures.SCHEMES[signature.scheme](request, account, key)
        return request

    def classify(self, reply: transport.Reply, number: str | None = None) -> Classification:
        """Classify by the preset's rules in their order, else by the status; extract the fields of a found answer.
        `number`: what was searched for; an answer about another one is a failure."""
        document, unreadable = None, None
        try:
            document = bodies.read(self.preset.body, reply)
        except bodies.Unreadable as error:
            unreadable = error
        rule, applied, fix, not_boolean = _status_rule(reply.status), None, "", False
        try:
            if reply.headers.get("cf-mitigated") == "challenge":
                rule, fix = _CHALLENGED, _CHALLENGED.fix
            elif applied := self._matching_rule(reply, document, parsed=unreadable is None):
                rule = self.preset.rules[applied - 1]
                fix = rule.fix
                if number and rule.outcome in ANSWERS and not self._is_about(number, document):
                    rule, fix = _ABOUT_ANOTHER, _ABOUT_ANOTHER.fix
            if rule.outcome == "found":
                known, missing = self._extract(document)
                return Classification(Found(**known, unreadable=missing) if known else NotFound(), applied)
        except UnexpectedShape as error:
            rule, not_boolean = _status_rule(reply.status), isinstance(error, NotBoolean)
            fix = str(error) or "its answer has another shape than the preset describes"
        outcome, number_specific = rule.outcome, rule.number_specific
        if outcome in ("not_found", "invalid_number"):
            return Classification(NotFound(outcome), applied)
        pause_s, pause = _pause(reply) if outcome in ("rate_limited", "unavailable") else (None, "")
        hint = (fix or self._fix(outcome, reply.status)) + pause
        if unreadable and not rule.text:
            if outcome == "bad_response" and not fix and not _is_redirect(reply.status):
                hint = f"its answer is {bodies.described(self.preset.body, reply)}"
                number_specific = number_specific or unreadable.number_specific
            elif reply.body and not _is_redirect(reply.status):
                hint += f"; its answer is {bodies.described(self.preset.body, reply)}"
        answer = Failed(outcome, f"{reply.status}: {hint}", pause_s, number_specific=number_specific)
        return Classification(answer, applied, not_boolean)

    def _matching_rule(self, reply: transport.Reply, document: Any, *, parsed: bool) -> int | None:
        """The number, from 1, of the first rule that applies. Raises UnexpectedShape and NotBoolean."""
        for number, rule in enumerate(self.preset.rules, start=1):
            if rule.status and reply.status not in rule.status:
                continue
            if rule.text and reply.body.strip() != rule.text.encode():
                continue
            if rule.when is not None and not (parsed and rule.when.is_true(document)):
                continue
            return None if rule.outcome == "found" and not parsed else number
        return None

    def _is_about(self, number: str, document: Any) -> bool:
        """Whether each number that the answer repeats may be `number`."""
        if document is None or (expression := self.preset.fields.number) is None:
            return True
        try:
            value = expression(document)
        except UnexpectedShape:
            return True
        repeated = value if isinstance(value, list) else [value]
        return all(_is_spelling(str(each), number) for each in repeated if isinstance(each, str | int))

    def _extract(self, document: Any) -> tuple[dict[str, Any], frozenset[str]]:
        """The known fields, and those that could not be read. Raises UnexpectedShape if there are only the latter."""
        fields = self.preset.fields
        known: dict[str, Any] = {}
        unreadable = set()
        for field in sorted(self.fields):
            rules = getattr(fields, field)
            try:
                value: Any = self._spam(document, rules) if field == "spam" else self._text(document, rules, field)
            except UnexpectedShape:  # the other fields stay usable
                unreadable.add(field)
                continue
            if value is not None:
                known[field] = capitals.lowered(value) if field in fields.capitals else value
        if unreadable and not known:
            raise UnexpectedShape
        return known, frozenset(unreadable)

    def _text(self, document: Any, alternatives: list[Expression], field: str) -> str | None:
        """The first alternative that is not empty; the items of a list are joined with commas."""
        for expression in alternatives:
            value = expression(document)
            parts = [self._part(item, field) for item in (value if isinstance(value, list) else [value])]
            if text := ", ".join(filter(None, parts)):
                return text[: self.preset.fields.max_length].rstrip()
        return None

    def _part(self, value: Any, field: str) -> str:
        if value is None:
            return ""
        if not isinstance(value, str):
            raise UnexpectedShape
        text = placeholders.cleaned(value, is_name=field == "name", is_cnam=self.preset.fields.cnam)
        return "" if text.lower() in self._empty else text

    def _spam(self, document: Any, rules: SpamRules) -> bool | None:
        if rules.never is not None and rules.never.is_true(document):
            return False
        yes = [rule.is_true(document) for rule in rules.yes]  # all of them: an unexpected shape makes spam unreadable
        if any(yes):
            return True
        return False if rules.known and all(rule.is_true(document) for rule in rules.known) else None

    def _fix(self, outcome: Outcome, status: int) -> str:
        """The hint for operators."""
        if _is_redirect(status):
            return f"it redirects, which is not followed: set {self.preset.base_url_name} to the address that it names"
        if status == HTTPStatus.ACCEPTED:
            return "it is still looking the number up"
        names = " or ".join(self.preset.auth.names)
        if self._secrets:
            rejected = f"{names} is rejected"
        elif names:
            rejected = f"it requires a key: set {names}"
        else:
            rejected = "it rejects a request without a key; it may require one now, or block this address"
        return {
            "auth": rejected,
            "quota": "the account's quota or balance is exhausted",
            "rate_limited": "too many requests",
            "unavailable": "it is unavailable",
        }.get(outcome, "no rule of the preset applies to its answer")


def _pause(reply: transport.Reply) -> tuple[float | None, str]:
    """For how long the vendor asks not to be called, at most MAX_PAUSE_S, and what the hint says about it."""
    asked_s = http.retry_after_s(reply.headers)
    if asked_s is None:
        return None, "; its Retry-After is ignored: no plausible time" if "Retry-After" in reply.headers else ""
    if asked_s > MAX_PAUSE_S:
        return MAX_PAUSE_S, f"; retry after {MAX_PAUSE_S:.0f} s, although it asks for {asked_s:.0f} s"
    return asked_s, f"; retry after {asked_s:.3g} s"


def _secrets(preset: Preset, environment: Mapping[str, str]) -> dict[str, str]:
    """Name → value. Empty if authentication is optional and not set."""
    for name in preset.auth.names:
        if hasattr(settings, name):
            raise MissingEnvironment(f"{name} is a setting of the service itself.", f"Rename {preset.name}.toml.")
    given = {name: environment[name].strip() for name in preset.auth.names if environment.get(name, "").strip()}
    missing = [name for name in preset.auth.names if name not in given]
    if missing and (given or not preset.auth.optional):
        raise MissingEnvironment(
            f"{preset.name} needs {' and '.join(missing)}, which the environment does not set.",
            f"Set {' and '.join(missing)}: see {preset.documentation}",
        )
    for name, value in given.items():
        if not (value.isascii() and value.isprintable()):
            raise MissingEnvironment(
                f"{name} has a character that no header or URL allows.",
                f"Set {name} to the key only, in ASCII.",
            )
    return given


def _environment_url(name: str, environment: Mapping[str, str], *, default: str) -> str:
    """The operator's URL: a scheme, a host and at most a path. Errors never repeat it: its path may contain a key."""
    given = environment.get(name, "").strip().rstrip("/")
    if not given:
        return default
    try:
        if not _BASE_URL.fullmatch(given):
            raise ValueError
        require_safe_scheme(given)
    except ValueError:
        raise MissingEnvironment(
            f"{name} must be a scheme, a host and at most a path, as in https://api.example.com or "
            "https://gateway.example.com/vendor; http:// is for loopback only.",
            f"Correct {name}, or leave it out for {default}.",
        ) from None
    return given


def _is_spelling(text: str, number: str) -> bool:
    """Whether `text` may be `number`: without its country code if it has no plus; without digits it tells nothing."""
    if text.removeprefix("+") == number:  # the usual case
        return True
    digits = "".join(_DIGITS.findall(text)).lstrip("0")
    national = not text.lstrip().startswith("+") and len(digits) >= numbers.MIN_DIGITS - 1
    return digits in ("", number) or (national and number.endswith(digits))


def _is_redirect(status: int) -> bool:
    return 300 <= status < 400


@lru_cache
def _status_rule(status: int) -> OutcomeRule:
    """What a reply is to which no rule of the preset applies."""
    outcome = "unavailable" if status >= 500 else _BY_STATUS.get(status, "bad_response")
    # It may concern this number only: five such numbers must not open the circuit breaker.
    number_specific = status == HTTPStatus.ACCEPTED or (outcome == "bad_response" and 400 <= status < 500)
    return OutcomeRule(outcome=outcome, status=[status], number_specific=number_specific)
