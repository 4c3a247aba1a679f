"""Any vendor's JSON API: build the request, send it, judge the reply, extract the fields, all as its preset says."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from django.conf import settings

from lookup.answers import Answer, Failed, Found, NotFound, clean_text
from lookup.connectors import transport
from lookup.connectors.addresses import peers_for
from lookup.connectors.base import Connector
from lookup.connectors.preset import EnvironmentLacks, Outcome, Preset, Spam, require_safe_scheme
from lookup.connectors.templates import Expression, NotBoolean, Template, Unreadable

USER_AGENT = "callerid/1.0"
LONGEST_PAUSE_S = 24 * 3600.0
# What a status means where no rule of the preset says (RFC 9110, section 15; RFC 6585, section 4).
_BY_STATUS: dict[int, Outcome] = {401: "auth", 402: "quota", 403: "auth", 408: "unavailable", 429: "rate_limited"}
# Without a rule, these may be about this one number: five such numbers are no reason to leave a vendor alone.
_OF_THE_REQUEST = {400, 422}
_SECRET = re.compile(r"[!-~]([ -~]*[!-~])?")
_SHOUTED = re.compile(r"[^\W\d_]{3,}")
# RFC 3986's characters, without the segments that HTTP clients resolve (. and ..).
_BASE_PATH = re.compile(r"(/(?!\.\.?(/|$))[A-Za-z0-9._~!$&'()*+,;=:@%-]+)*")


class JsonApi(Connector):
    """One vendor. Raises EnvironmentLacks."""

    remote = True

    def __init__(self, preset: Preset, environment: Mapping[str, str]) -> None:
        self.preset = preset
        self.fields = preset.fields.supplied
        self.patience_s = preset.budget.timeout_s
        self.hit_ttl_s, self.miss_ttl_s = preset.budget.cache_hit_s, preset.budget.cache_miss_s
        self.concurrency = preset.budget.concurrency
        self._path = Template(urlsplit(preset.request.url.text).path)
        self._empty = {word.lower() for word in preset.fields.empty}
        self._secrets = _secrets(preset, environment)
        self._base_url = _base_url(preset, environment)
        # All that hints and logs say of the URL: its path may hold a key, and holds the number.
        self._host = urlsplit(self._base_url).netloc
        self.version = f"{preset.fingerprint} {self._base_url}"
        self._client = transport.Client(peers_for(self._base_url, private_network=preset.private_network))
        self._require_sendable()

    def covers(self, number: str) -> bool:
        return self.preset.covers(number)

    def lookup(self, number: str, *, timeout_s: float) -> Answer:
        try:
            reply = self._client.send(
                self.request(number),
                retry_within_s=timeout_s,
                lifetime_s=settings.CALL_LIFETIME_S,
                max_body_bytes=self.preset.budget.max_body_bytes,
            )
        except transport.NoReply as error:
            return Failed("unavailable", f"{self._host}: {error.problem}")
        except transport.BadReply as error:
            return Failed("bad_response", f"{self._host}: {error.problem}")
        return self.judge(reply)[1]

    def request(self, number: str) -> transport.Request:
        """The whole HTTP request; the secrets are in it."""
        asked, auth, secret = self.preset.request, self.preset.auth, self._secrets
        headers = {"User-Agent": USER_AGENT, "Accept": "application/json"}
        headers |= {name: template.fill(number) for name, template in asked.headers.items()}
        headers |= {name: secret[value] for name, value in auth.headers.items() if value in secret}
        if auth.bearer in secret:
            headers["Authorization"] = f"Bearer {secret[auth.bearer]}"
        return transport.Request(
            method=asked.method,
            url=self._url(number, secret),
            headers=headers,
            json=asked.json.fill(number) if asked.json else None,
            form={name: template.fill(number) for name, template in asked.form.items()},
            basic=(secret[auth.basic[0]], secret[auth.basic[1]]) if auth.basic and secret else None,
        )

    def request_line(self, number: str) -> str:
        """Method and URL of the request, with nothing where a secret stands: `GET https://api.example.com//12025550123`."""
        return f"{self.preset.request.method} {self._url(number, dict.fromkeys(self._secrets, ''))}"

    def _url(self, number: str, secret: Mapping[str, str]) -> str:
        auth = self.preset.auth
        path = self._path.fill(number, key=secret.get(auth.path or "", ""), encode=lambda text: quote(text, safe=""))
        query = [(name, t.fill(number)) for name, repeated in self.preset.request.query.items() for t in repeated]
        query += [(name, secret[value]) for name, value in auth.query.items() if value in secret]
        return self._base_url + path + ("?" + urlencode(query, quote_via=quote) if query else "")

    def _require_sendable(self) -> None:
        """A request that cannot be sent to anybody is a fault of the preset or of the environment, not the vendor's."""
        number = next((s.number for s in self.preset.sample if self.covers(s.number)), None)
        try:
            if number:
                transport.require_sendable(self.request(number))
        except ValueError as error:
            raise EnvironmentLacks(
                f"{self.preset.name}: its request cannot be sent ({error}).",
                f"Correct [request] of {self.preset.name}.toml, or {self.preset.base_url_name}.",
            ) from None

    def judge(self, reply: transport.Reply) -> tuple[Outcome, Answer]:
        """What `reply` is and says: by the preset's rules in their order, then by its status; then extracted."""
        document, readable = self._document(reply.body)
        outcome = _by_status(reply.status)
        fix, number_specific = "", False
        try:
            if number := self._matching_rule(reply.status, document, readable):
                rule = self.preset.outcome[number - 1]
                outcome, fix, number_specific = rule.outcome, rule.fix, rule.number_specific
            else:
                number_specific = reply.status in _OF_THE_REQUEST
            if outcome == "found":
                known, unreadable = self._extract(document)
                return ("found", Found(**known, unreadable=unreadable)) if known else ("not_found", NotFound())
        except Unreadable as error:
            outcome = _by_status(reply.status)
            fix = str(error) or "its answer has another shape than the preset says"
        if outcome in ("not_found", "invalid_number"):
            return outcome, NotFound(outcome)
        pause_s = _retry_after_s(reply.headers) if outcome in ("rate_limited", "unavailable") else None
        hint = f"{reply.status}: {fix or self._fix(outcome, pause_s)}"
        return outcome, Failed(outcome, hint, pause_s, of_this_number=number_specific)

    def matching_rule(self, reply: transport.Reply) -> int | None:
        """The number, from 1, of the rule that says what `reply` is; None where its status does.

        Raises Unreadable, and NotBoolean for a `when` that is neither true, false nor null.
        """
        return self._matching_rule(reply.status, *self._document(reply.body))

    def _document(self, body: bytes) -> tuple[Any, bool]:
        """The body as expressions see it, and whether it could be read."""
        try:
            if self.preset.body == "text":
                return body.decode(), True
            return json.loads(body, parse_constant=_refuse), True
        except (ValueError, RecursionError):
            return None, False

    def _matching_rule(self, status: int, document: Any, readable: bool) -> int | None:
        for number, rule in enumerate(self.preset.outcome, start=1):
            if rule.status and status not in rule.status:
                continue
            try:
                if rule.when is not None and not (readable and rule.when.holds(document)):
                    continue
            except NotBoolean:
                raise NotBoolean(f"rule {number} of the preset: its `when` is neither true, false nor null") from None
            return None if rule.outcome == "found" and not readable else number
        return None

    def _extract(self, document: Any) -> tuple[dict[str, Any], frozenset[str]]:
        """The fields that are known, and those that could not be read. Raises Unreadable when there are but those."""
        fields = self.preset.fields
        known: dict[str, Any] = {}
        unreadable = set()
        for field in sorted(self.fields):
            read, rules = (self._spam if field == "spam" else self._text), getattr(fields, field)
            try:
                known[field] = read(document, rules)
            except Unreadable:  # one odd field takes nothing from the others
                unreadable.add(field)
        for field in fields.capitals:
            known[field] = _lowered(known.get(field))
        known = {field: value for field, value in known.items() if value is not None}
        if unreadable and not known:
            raise Unreadable
        return known, frozenset(unreadable)

    def _text(self, document: Any, alternatives: list[Expression]) -> str | None:
        """The first alternative that says something; a list's texts are joined with commas."""
        for expression in alternatives:
            value = expression(document)
            parts = [self._part(item) for item in (value if isinstance(value, list) else [value])]
            if text := ", ".join(filter(None, parts)):
                return text[: self.preset.fields.max_length].rstrip()
        return None

    def _part(self, value: Any) -> str:
        if value is None:
            return ""
        if not isinstance(value, str):
            raise Unreadable
        text = clean_text(value)
        return "" if text.lower() in self._empty else text

    def _spam(self, document: Any, rules: Spam) -> bool | None:
        if rules.never is not None and rules.never.holds(document):
            return False
        says_yes = [rule.holds(document) for rule in rules.yes]  # each is read: an odd one may make all unreadable
        if any(says_yes):
            return True
        return False if rules.known and all(rule.holds(document) for rule in rules.known) else None

    def _fix(self, outcome: Outcome, pause_s: float | None) -> str:
        """What an operator is told."""
        names = " or ".join(self.preset.auth.names)
        if self._secrets:
            refused = f"{names} is refused"
        elif names:
            refused = f"it wants a key: set {names}"
        else:
            refused = "it refuses a request without a key; it may want one now, or refuse this address"
        again = f"; it asks for a pause of {pause_s:.0f} s" if pause_s is not None else ""
        return {
            "auth": refused,
            "quota": "the account's quota or balance is spent",
            "rate_limited": f"it has had too many requests{again}",
            "unavailable": f"it is down{again}",
        }.get(outcome, "its answer is none that the preset knows")


def _by_status(status: int) -> Outcome:
    return "unavailable" if status >= 500 else _BY_STATUS.get(status, "bad_response")


def _secrets(preset: Preset, environment: Mapping[str, str]) -> dict[str, str]:
    """Name → value. Empty where the preset's authentication is optional and not set."""
    for name in preset.auth.names:
        if hasattr(settings, name):
            raise EnvironmentLacks(f"{name} is a setting of the service's own.", f"Rename {preset.name}.toml.")
    given = {name: environment[name].strip() for name in preset.auth.names if environment.get(name, "").strip()}
    missing = [name for name in preset.auth.names if name not in given]
    if missing and (given or not preset.auth.optional):
        raise EnvironmentLacks(
            f"{preset.name} needs {' and '.join(missing)}, which the environment does not set.",
            f"Set {' and '.join(missing)}: see {preset.documentation}",
        )
    for name, value in given.items():
        if not _SECRET.fullmatch(value):
            raise EnvironmentLacks(
                f"{name} has a character that no header or URL can carry.", f"Set {name} to the key alone, in ASCII."
            )
    return given


def _base_url(preset: Preset, environment: Mapping[str, str]) -> str:
    """What stands before the preset's path: its scheme and host, or the operator's, with a path of their own if given.

    The value is never repeated in an error: its path may hold a key.
    """
    name = preset.base_url_name
    given = environment.get(name, "").strip().rstrip("/")
    if not given:
        return preset.request.origin
    try:
        require_safe_scheme(given)
        parts = urlsplit(given)
        whole = given == f"{parts.scheme}://{parts.netloc}{parts.path}"
        well_formed = whole and "@" not in parts.netloc and bool(_BASE_PATH.fullmatch(parts.path))
    except ValueError:
        well_formed = False
    if not well_formed:
        raise EnvironmentLacks(
            f"{name} must be a scheme, a host and at most a path, as in https://api.example.com or "
            "https://gateway.example.com/vendor; http:// is for loopback alone.",
            f"Correct {name}, or leave it out for {preset.request.origin}.",
        )
    return given


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """RFC 9110, section 10.2.3: seconds or a date. At most a day is believed."""
    value = headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return min(float(value[:9]), LONGEST_PAUSE_S)
    try:
        wait_s = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError):
        return None
    return min(max(0.0, wait_s), LONGEST_PAUSE_S)


def _lowered(text: str | None) -> str | None:
    """Parts all in capitals as they are usually written: `WAUKEGAN, IL` → `Waukegan, IL`. Words of two letters stay."""
    if text is None:
        return None
    parts = text.split(", ")
    return ", ".join(_SHOUTED.sub(lambda word: word[0].capitalize(), p) if p.isupper() else p for p in parts)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
