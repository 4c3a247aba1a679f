"""Issue, verify, rotate and revoke tokens.

A token is a JWT (HS256) with `jti`, `iat`, `exp` and its type, nothing else; only the `jti` is stored. It is returned
once, by `issue` or `rotate`, and never logged.
"""

import hashlib
import re
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any, cast
from uuid import uuid4

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, InterfaceError, OperationalError, connection, transaction
from django.db.models import EmailField
from django.utils import timezone
from rest_framework_simplejwt.backends import TokenBackend
from rest_framework_simplejwt.exceptions import TokenBackendError
from rest_framework_simplejwt.tokens import Token

from accounts import credits
from accounts.models import ApiToken, CreditEntry
from accounts.sql import NoAnswer, one_row

MAX_LENGTH = 2048
MAX_DAYS = 36_500
MAX_GRACE = timedelta(days=90)
LEEWAY = timedelta(seconds=30)
_JTI = re.compile(r"[0-9a-f]{32}")


class InvalidToken(Exception):
    """Missing, malformed, forged, expired, revoked or unknown: a caller is not told which."""


class TokenRevoked(Exception):
    """A revoked token stays revoked: it cannot be rotated."""


class AlreadyIssued(ValueError):
    """The reference has issued a token before: `token_id`."""

    def __init__(self, token_id: int) -> None:
        super().__init__(f"This reference has issued token {token_id} already.")
        self.token_id = token_id


class InvalidLifetime(ValueError):
    """Days or grace out of range; the message says which."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A token's row and, this once, its JWT."""

    token: ApiToken
    api_key: str


class KeyRing(TokenBackend):
    """Signs with the current key; verifies with that one or, so that tokens in use outlive it, a previous one."""

    def __init__(self, current: str, previous: tuple[str, ...]) -> None:
        super().__init__("HS256", current, leeway=LEEWAY)
        self._previous = [TokenBackend("HS256", key, leeway=LEEWAY) for key in previous]

    def decode(self, token: Any, verify: bool = True) -> dict[str, Any]:
        refused = TokenBackendError("no key")
        for decode in (super().decode, *(backend.decode for backend in self._previous)):
            try:
                return decode(token, verify)
            except TokenBackendError as error:
                refused = error
        raise refused


@lru_cache(maxsize=4)
def _key_ring(current: str, previous: tuple[str, ...]) -> KeyRing:
    return KeyRing(current, previous)


def _keys() -> KeyRing:
    return _key_ring(settings.JWT_SIGNING_KEY, tuple(settings.JWT_PREVIOUS_KEYS))


class ApiKey(Token):
    """The JWT. Without an argument simplejwt mints a valid one, so only `_sign` may call it so."""

    token_type = "api_key"  # noqa: S105  (the claim's value, not a secret)
    lifetime = timedelta(days=1)  # simplejwt wants one; `_sign` sets the real one

    def get_token_backend(self) -> KeyRing:
        return _keys()


def clean_name(name: str) -> str:
    """A token's name in one line. Raises ValueError when it is empty, over 100 characters or not printable."""
    name = " ".join(name.split())
    if not name or len(name) > 100 or not name.isprintable():
        raise ValueError("A token needs a name of 1 to 100 printable characters.")
    return name


def clean_contact(contact: str) -> str:
    """An e-mail address, or nothing. Raises ValueError for what is neither."""
    try:
        EmailField(blank=True).clean(contact, None)
    except ValidationError as error:
        raise ValueError("The contact must be an e-mail address of 254 characters at most.") from error
    return contact


def _sign(jti: str, lifetime: timedelta) -> str:
    api_key = ApiKey()
    api_key["jti"] = jti
    api_key.set_exp(lifetime=lifetime)
    return str(api_key)


def _lifetime(days: int) -> timedelta:
    if not 1 <= days <= MAX_DAYS:
        raise InvalidLifetime(f"A token lives 1 to {MAX_DAYS} days.")
    return timedelta(days=days)


def issue(
    *,
    name: str,
    initial_credits: int,
    actor: str,
    days: int | None = None,
    reason: str = "",
    reference: str = "",
    note: str = "",
    contact: str = "",
    low_balance_at: int | None = None,
) -> Issued:
    """A new token with `initial_credits` (0 or more) credits that lives `days` (default TOKEN_DAYS) days.

    A `reference`, where given, issues once: a form that is sent twice makes one token. `contact`: an e-mail address,
    which gets a notice when the balance falls to `low_balance_at` credits. Raises AlreadyIssued, InvalidLifetime,
    credits.InvalidAmount, and ValueError for a name, a contact or a threshold that is none.
    """
    name, contact = clean_name(name), clean_contact(contact)
    if low_balance_at is not None and not 0 <= low_balance_at <= credits.MAX_BALANCE:
        raise ValueError(f"A notice is sent at a balance of 0 to {credits.MAX_BALANCE} credits.")
    days = settings.TOKEN_DAYS if days is None else days
    lifetime = _lifetime(days)
    now = timezone.now()
    jti = uuid4().hex
    try:
        with transaction.atomic():
            token = ApiToken.objects.create(
                name=name,
                note=note,
                contact=contact,
                low_balance_at=low_balance_at,
                jti=jti,
                lifetime_days=days,
                created_at=now,
                expires_at=now + lifetime,
            )
            credits.move(
                token=token,
                amount=initial_credits,
                kind=CreditEntry.Kind.ISSUE,
                actor=actor,
                reason=reason,
                reference=reference,
            )
            token.refresh_from_db()
    except IntegrityError as error:
        earlier = CreditEntry.objects.filter(kind=CreditEntry.Kind.ISSUE, reference=reference).exclude(reference="")
        if (entry := earlier.first()) is None:
            raise
        raise AlreadyIssued(entry.token_id) from error
    return Issued(token, _sign(jti, lifetime))


_ACTIVE_BY_JTI = """
SELECT id, credits FROM accounts_apitoken
WHERE (jti = %s OR (previous_jti = %s AND previous_until > %s)) AND revoked_at IS NULL
"""


#: The `jti` and the expiry of tokens whose signature was verified, the least recently used first; by the key ring and
#: the token's SHA-256, for a token itself is not kept in memory.
_verified: OrderedDict[tuple[KeyRing, bytes], tuple[str, float]] = OrderedDict()
_verified_lock = threading.Lock()
VERIFIED_TOKENS = 10_000


def _signed(api_key: str, keys: KeyRing) -> tuple[str, float]:
    """The `jti` and the expiry of a JWT that was signed with `keys`, which are those of _keys().

    A good signature stays good, whatever becomes of the token: it is verified once for the last 10,000 callers. What
    raises is not remembered.
    """
    known_by = (keys, hashlib.sha256(api_key.encode()).digest())
    with _verified_lock:
        if known := _verified.get(known_by):
            _verified.move_to_end(known_by)
            return known
    claims = ApiKey(cast(Any, api_key))
    if not _JTI.fullmatch(claims["jti"]):
        raise InvalidToken
    verified = claims["jti"], float(claims["exp"])
    with _verified_lock:
        _verified[known_by] = verified
        if len(_verified) > VERIFIED_TOKENS:
            _verified.popitem(last=False)
    return verified


def verify(api_key: object) -> ApiToken:
    """The row (`id` and `credits` loaded) of a token that this service signed, unexpired and not revoked.

    One SQL statement, and none for a forgery. Raises InvalidToken, whatever is wrong with it.
    """
    if not isinstance(api_key, str) or not 0 < len(api_key) <= MAX_LENGTH:
        raise InvalidToken
    try:
        jti, expires_at = _signed(api_key, _keys())
    except Exception as error:  # whatever a parser makes of it (RecursionError too), we did not sign it
        raise InvalidToken from error
    if time.time() >= expires_at + LEEWAY.total_seconds():
        raise InvalidToken
    try:
        row = _active_row(jti)
    except (OperationalError, InterfaceError) as error:
        # A search begins here, and nothing has happened yet: where the server closes its connections at this moment,
        # the pool makes new ones and the statement runs again. Not where the server does not answer: the next
        # connection would not either, and the search's time is limited.
        if isinstance(error.__cause__, NoAnswer):
            raise
        if connection.connection is None or connection.in_atomic_block or connection.is_usable():
            raise
        connection.close()
        if pool := getattr(connection, "pool", None):
            pool.drain()
        row = _active_row(jti)
    if row is None:
        raise InvalidToken
    return ApiToken.from_db(connection.alias, ["id", "credits"], row)


def _active_row(jti: str) -> tuple[int, int] | None:
    now = connection.ops.adapt_datetimefield_value(timezone.now())
    return cast(tuple[int, int] | None, one_row(_ACTIVE_BY_JTI, [jti, jti, now]))


def rotate(*, token: ApiToken, grace: timedelta = timedelta(0)) -> Issued:
    """A new JWT for the same row, with a fresh lifetime; the present one works on until `grace` has passed.

    A second rotation ends the first one's grace. Raises TokenRevoked, InvalidLifetime.
    """
    if not timedelta(0) <= grace <= MAX_GRACE:
        raise InvalidLifetime(f"A grace lasts 0 to {MAX_GRACE.days} days.")
    with transaction.atomic():
        row = ApiToken.objects.select_for_update().get(pk=token.pk)
        if row.revoked_at is not None:
            raise TokenRevoked
        now = timezone.now()
        lifetime = _lifetime(row.lifetime_days)
        row.previous_jti, row.previous_until = (row.jti, now + grace) if grace else (None, None)
        row.jti = uuid4().hex
        row.expires_at = now + lifetime
        row.save(update_fields=["jti", "previous_jti", "previous_until", "expires_at"])
    return Issued(row, _sign(row.jti, lifetime))


def revoke(*, token: ApiToken, reason: str = "") -> bool:
    """From the next request on, neither the token nor its predecessor works. False when it was revoked before."""
    return bool(
        ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(
            revoked_at=timezone.now(), revoked_reason=reason[:200]
        )
    )
