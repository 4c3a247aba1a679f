"""Issue, verify, rotate and revoke tokens.

An API token is a JWT (HS256) with `jti`, `iat`, `exp`, its type and, for a test token, `"test": true`, nothing else.
Only the `jti` and the last four characters are stored; the JWT is returned once, by `issue` or `rotate`, and never
logged.
"""

import base64
import hashlib
import re
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, cast
from uuid import uuid4

import jwt
from cachetools import LRUCache, cached
from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone
from rest_framework_simplejwt.backends import TokenBackend

from accounts import credits, customers
from accounts.models import JWT_PREFIX, MAX_RATE_LIMIT, ActiveToken, ApiToken, CreditEntry, Customer
from core.db import afetch_one
from core.field_errors import FieldError

MAX_LENGTH = 2048
MAX_DAYS = 36_500
MAX_GRACE = timedelta(days=90)
LEEWAY = timedelta(seconds=30)
TOKEN_TYPE = "api_key"  # noqa: S105  (the claim's value, not a secret)
_JTI = re.compile(r"[0-9a-f]{32}")
#: How many tokens `find` returns at most.
MAX_FOUND = 50
_LAST_FOUR = re.compile(rf"(?:(?:{JWT_PREFIX})?(?:…|\.\.\.))?([\w-]{{4}})", re.ASCII)
_BEGINNING = re.compile(r"eyJ[\w-]+\.([\w-]+)\.?", re.ASCII)
# From the start of a run of these characters, possessive, so that each run is read once: `eyJeyJeyJ…` has many starts.
_WHOLE = re.compile(r"(?<![\w-])(?>[\w-]*?eyJ)[\w-]*+\.[\w-]*+\.[\w-]", re.ASCII)
#: The only spelling of a JWT: base64url without padding. Of the signature, 256 bits, the last character holds 4.
_EXACT = re.compile(r"[\w-]+\.[\w-]+\.[\w-]{42}[AEIMQUYcgkosw048]", re.ASCII)
_JTI_CLAIM = re.compile(rb'"jti": ?"([0-9a-f]{32})"')


class InvalidToken(Exception):
    """Missing, malformed, forged, expired, revoked or unknown: clients get the same error for all."""


class TokenRevoked(ValueError):
    """A revoked token can be neither rotated nor revoked again."""


class WholeToken(ValueError):
    """A text to search for contains a JWT with its signature, which is a credential; the message says what to enter."""


class AlreadyIssued(ValueError):
    """A token was issued with this reference before: `token_id`."""

    def __init__(self, token_id: int) -> None:
        super().__init__(f"This reference has issued token {token_id} already.")
        self.token_id = token_id


@dataclass(frozen=True, slots=True)
class Issued:
    """A token and its JWT, which cannot be read again later."""

    token: ApiToken
    api_key: str


class _Backend(TokenBackend):
    """Verifies the signature and `exp`, not `iat`: the clock of the host that issued the token may be ahead."""

    def decode(self, token: Any, verify: bool = True) -> dict[str, Any]:
        """The claims. Raises jwt.InvalidTokenError."""
        options: Any = {"verify_signature": verify, "verify_iat": False}
        return jwt.decode(
            token, self.prepared_signing_key, algorithms=[self.algorithm], leeway=self.get_leeway(), options=options
        )


@lru_cache(maxsize=4)
def _backend(key: str) -> TokenBackend:
    return _Backend("HS256", key, leeway=LEEWAY)


def _sign(jti: str, lifetime: timedelta, *, is_test: bool = False) -> str:
    now = timezone.now()
    claims: dict[str, Any] = {"token_type": TOKEN_TYPE, "exp": now + lifetime, "iat": now, "jti": jti}
    if is_test:
        claims["test"] = True  # for clients: the service reads the column
    return str(_backend(settings.JWT_SIGNING_KEY).encode(claims))


def _new_jwt(token: ApiToken) -> str:
    """A JWT for `token`, whose fields then identify it; the caller saves them. Raises ValueError for an invalid
    lifetime."""
    if not 1 <= token.lifetime_days <= MAX_DAYS:
        raise FieldError(f"A token is valid for 1 to {MAX_DAYS} days.", "days")
    lifetime = timedelta(days=token.lifetime_days)
    token.jti, token.expires_at = uuid4().hex, timezone.now() + lifetime
    api_key = _sign(token.jti, lifetime, is_test=token.is_test)
    token.last_four = api_key[-4:]
    return api_key


def issue(
    *,
    name: str,
    initial_credits: int = 0,
    actor: str,
    is_test: bool = False,
    days: int | None = None,
    reason: str = "",
    reference: str = "",
    note: str = "",
    contact: str = "",
    low_balance_at: int | None = None,
    rate_limit: int | None = None,
    customer: Customer | None = None,
    price: Decimal | None = None,
    may_repeat: bool = True,
) -> Issued:
    """A new token with `initial_credits` (0 or more), valid for `days` (default TOKEN_DAYS).

    A `reference` issues once, so that a form submitted twice creates one token. `contact`: an e-mail address, which
    gets a notice when the balance falls to `low_balance_at` credits. `is_test`: a test token, which has no balance, and
    so no credits, price, contact or threshold. `rate_limit`: 1 to MAX_RATE_LIMIT, or the setting's. `price`: as in
    credits.top_up. Raises AlreadyIssued, credits.PossiblyRepeated unless it `may_repeat` a token of the same name,
    customer and credits, and ValueError for an invalid value, and for a customer that was deleted or
    has customers.MAX_TOKENS.
    """
    name, contact = customers.clean_name(name, of="token"), contact and customers.clean_contact(contact)
    if low_balance_at is not None and not 0 <= low_balance_at <= credits.MAX_BALANCE:
        raise FieldError(f"The low-balance threshold is 0 to {credits.MAX_BALANCE} credits.", "low_balance_at")
    if rate_limit is not None and not 1 <= rate_limit <= MAX_RATE_LIMIT:
        raise FieldError(f"A rate limit is 1 to {MAX_RATE_LIMIT:,} requests.", "rate_limit")
    check_test_token(is_test=is_test, contact=contact, price=price, low_balance_at=low_balance_at)
    price = credits.sale_price(initial_credits, price) if initial_credits > 0 or price else None
    token = ApiToken(
        name=name,
        customer=customer,
        note=note,
        is_test=is_test,
        contact=contact,
        low_balance_at=low_balance_at,
        rate_limit=rate_limit,
        lifetime_days=settings.TOKEN_DAYS if days is None else days,
    )
    api_key = _new_jwt(token)
    try:
        with transaction.atomic():
            if customer is not None:
                customers.lock_for_token(customer)
            if not may_repeat:
                _require_unrepeated(token, initial_credits, reference)
            token.save()
            credits.change_balance(
                token=token,
                amount=initial_credits,
                kind=CreditEntry.Kind.ISSUE,
                actor=actor,
                reason=reason,
                reference=reference,
                price=price,
            )
            token.refresh_from_db()
    except IntegrityError as error:
        entry = CreditEntry.objects.filter(kind=CreditEntry.Kind.ISSUE, reference=reference).first()
        if not reference or entry is None:
            raise
        raise AlreadyIssued(entry.token_id) from error
    return Issued(token, api_key)


def check_test_token(*, is_test: bool, contact: str, price: Decimal | None, low_balance_at: int | None) -> None:
    if is_test and (contact or price or low_balance_at is not None):
        raise FieldError("A test token has no balance: omit price, contact and low-balance threshold.", "is_test")


def _require_unrepeated(token: ApiToken, initial_credits: int, reference: str) -> None:
    """Its customer is locked; without one, two tokens that are issued at the same moment do not see each other."""
    same = {"name": token.name, "customer": token.customer, "is_test": token.is_test}
    issues = CreditEntry.objects.filter(kind=CreditEntry.Kind.ISSUE, amount=initial_credits)
    equal = issues.filter(**{f"token__{name}": value for name, value in same.items()}).exclude(reference=reference)
    what = "A test token" if token.is_test else f"A token with {credits.credits_text(initial_credits)}"
    credits.require_unrepeated(equal, f"{what} and this name was issued")


_ACTIVE_BY_JTI = """
SELECT id, is_test, credits, charge_epoch, rate_limit FROM accounts_apitoken
WHERE (jti = %s OR (previous_jti = %s AND previous_until > %s)) AND revoked_at IS NULL
"""


#: The `jti` and expiry of verified JWTs, by the keys and the JWT's SHA-256: the JWT itself must not stay in memory.
_verified: LRUCache[tuple[tuple[str, ...], bytes], tuple[str, datetime]] = LRUCache(maxsize=10_000)


@cached(_verified, key=lambda api_key, keys: (keys, hashlib.sha256(api_key.encode()).digest()), lock=threading.Lock())
def _decode(api_key: str, keys: tuple[str, ...]) -> tuple[str, datetime]:
    """The `jti` and the expiry of a JWT that was signed with one of `keys`. May raise anything for other texts.

    A valid signature stays valid, so it is verified once while the JWT is among the last 10,000.
    """
    for key in keys:
        with suppress(jwt.InvalidTokenError):
            claims = _backend(key).decode(cast(Any, api_key))
            if claims["token_type"] == TOKEN_TYPE and _JTI.fullmatch(claims["jti"]):
                return claims["jti"], datetime.fromtimestamp(claims["exp"], UTC)
    raise InvalidToken


#: Returns the first row of a statement with these parameters, or None.
FetchRow = Callable[[str, Sequence[Any]], Awaitable[Any]]


async def verify(api_key: object) -> ActiveToken:
    """The token of a JWT that is signed by this service and active. Raises InvalidToken."""
    return await active(signed_jti(api_key))


def signed_jti(api_key: object) -> str:
    """The `jti` of a JWT that is signed by this service and has not expired. Raises InvalidToken. Uses no database."""
    if not isinstance(api_key, str) or len(api_key) > MAX_LENGTH or not _EXACT.fullmatch(api_key):
        raise InvalidToken
    try:
        # The previous keys still verify, so that keys can be rotated.
        jti, expires_at = _decode(api_key, (settings.JWT_SIGNING_KEY, *settings.JWT_PREVIOUS_KEYS))
    except Exception as error:  # whatever the parser raises (even RecursionError), this service did not sign it
        raise InvalidToken from error
    if timezone.now() >= expires_at + LEEWAY:
        raise InvalidToken
    return jti


async def active(jti: str, fetch_row: FetchRow = afetch_one) -> ActiveToken:
    """The token, if it is active. Runs one SQL statement, by `fetch_row`. Raises InvalidToken."""
    now = timezone.now()
    row = await fetch_row(_ACTIVE_BY_JTI, [jti, jti, now])
    if row is None:
        raise InvalidToken
    return ActiveToken(*row)


def rate_limit(token: ActiveToken | ApiToken) -> tuple[int, int]:
    """How many requests `token` may make in any window, and the window in seconds: its own number, or else that of
    RATE_LIMIT (of a test token TEST_RATE_LIMIT), whose window it always has."""
    limit, window_s = settings.TEST_RATE_LIMIT if token.is_test else settings.RATE_LIMIT
    return token.rate_limit or limit, window_s


def rotate(*, token: ApiToken, grace: timedelta = timedelta(0)) -> Issued:
    """A new JWT for the same token, with its full lifetime; the current JWT stays valid for the grace period.

    A second rotation ends the grace period of the first. Raises TokenRevoked, and ValueError for an invalid period.
    """
    if not timedelta(0) <= grace <= MAX_GRACE:
        raise ValueError(f"A grace period is 0 to {MAX_GRACE.days} days.")
    with transaction.atomic():
        row = ApiToken.objects.select_for_update().get(pk=token.pk)
        if row.revoked_at is not None:
            raise TokenRevoked("A revoked token cannot be rotated. Issue a new one.")
        row.previous_jti, row.previous_until = (row.jti, timezone.now() + grace) if grace else (None, None)
        api_key = _new_jwt(row)
        row.save(update_fields=["jti", "previous_jti", "previous_until", "last_four", "expires_at"])
    return Issued(row, api_key)


def short_lived_jwt(*, token: ApiToken, lifetime: timedelta) -> str:
    """A JWT of the token that expires after `lifetime`, or with the token. The other JWTs stay valid.

    It is for searches that an operator makes at the token's expense: neither store nor show it.
    """
    return _sign(token.jti, min(lifetime, token.expires_at - timezone.now()), is_test=token.is_test)


def end_grace(*, token: ApiToken) -> bool:
    """End the validity of the previous JWT of a rotated token at once. False when it was not valid any more."""
    in_grace = ApiToken.objects.filter(pk=token.pk, revoked_at=None, previous_until__gt=timezone.now())
    return bool(in_grace.update(previous_jti=None, previous_until=None))


def revoke(*, token: ApiToken, reason: str = "") -> bool:
    """End the validity of the token and of its rotated predecessor at once. False when it was revoked before."""
    return bool(
        ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(
            revoked_at=timezone.now(), revoked_reason=reason[:200]
        )
    )


def revoke_and_move(*, token: ApiToken, to_token: ApiToken, reason: str, actor: str) -> credits.Transfer | None:
    """Revoke `token`, and move the credits that it has left to another token of its customer. None if it had none.

    Raises TokenRevoked when it was revoked before, and what credits.transfer raises: then it is not revoked.
    """
    with transaction.atomic():
        credits.lock(token, to_token)  # before `revoke` locks `token` alone
        if not revoke(token=token, reason=reason):
            raise TokenRevoked("This token is already revoked.")
        return credits.transfer_all(from_token=token, to_token=to_token, reason=reason, actor=actor)


def find(text: str) -> list[ApiToken]:
    """The tokens, at most MAX_FOUND and newest first, whose JWT `text` identifies: by its last four characters, by its
    hint (`eyJhbGci…Wx4Q`), or by its beginning, up to the signature. One statement at most.

    The beginning also finds the previous JWT of a rotated token; the last four characters only the current one. Raises
    WholeToken: callers must neither search with such a text nor show, store or log it.
    """
    require_no_token(text)
    text = text.strip()
    if match := _LAST_FOUR.fullmatch(text):
        condition = Q(last_four=match[1])
    elif (match := _BEGINNING.fullmatch(text)) and (jti := _jti_of(match[1])):
        condition = Q(jti=jti) | Q(previous_jti=jti)
    else:
        return []
    return list(ApiToken.objects.filter(condition).order_by("-pk")[:MAX_FOUND])


def require_no_token(text: str) -> None:
    """Raises WholeToken if `text` contains a JWT with its signature, or with the beginning of it."""
    if _WHOLE.search(text):
        raise WholeToken("This is a whole token, which is secret. Enter only its last four characters.")


def _jti_of(payload: str) -> str | None:
    """The `jti` in the payload of a JWT, which may be cut off after it."""
    complete = payload[: len(payload) // 4 * 4] if len(payload) % 4 == 1 else payload + "=" * (-len(payload) % 4)
    match = _JTI_CLAIM.search(base64.urlsafe_b64decode(complete))
    return match[1].decode() if match else None
