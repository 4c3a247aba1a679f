"""Only JWTs signed by this service are valid, until they expire or are revoked."""

import base64
import gc
import hashlib
import hmac
import json
import string
import time
import weakref
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from typing import Any

import jwt
import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries

from accounts import tokens
from accounts.models import ApiToken
from tests import awaited

pytestmark = pytest.mark.django_db


def issue(**options: Any) -> tokens.Issued:
    return tokens.issue(**{"name": "pbx", "initial_credits": 5, "actor": "test", **options})


def claims(api_key: str) -> dict[str, Any]:
    return jwt.decode(api_key, options={"verify_signature": False})


def test_temporary_jwt_ends_with_the_token_at_the_latest() -> None:
    issued = issue(days=1)
    for hours, ends_in in ((2, 2), (48, 24)):
        key = tokens.short_lived_jwt(token=issued.token, lifetime=timedelta(hours=hours))
        assert awaited.verify(key).pk == issued.token.pk
        assert claims(key)["exp"] == pytest.approx(time.time() + ends_in * 3600, abs=60)
    tokens.revoke(token=issued.token)
    with pytest.raises(tokens.InvalidToken):
        awaited.verify(key)


def test_issued_jwt_has_only_the_required_claims() -> None:
    issued = issue(days=30)
    assert jwt.get_unverified_header(issued.api_key) == {"alg": "HS256", "typ": "JWT"}
    assert claims(issued.api_key).keys() == {"jti", "iat", "exp", "token_type"}
    assert claims(issued.api_key)["exp"] - claims(issued.api_key)["iat"] == 30 * 24 * 3600
    assert awaited.verify(issued.api_key).pk == issued.token.pk


def test_jwt_of_a_test_token_says_so_also_after_rotation() -> None:
    issued = issue(initial_credits=0, is_test=True)
    rotated = tokens.rotate(token=issued.token, grace=timedelta(hours=1))
    for api_key in (issued.api_key, rotated.api_key):
        assert claims(api_key).keys() == {"jti", "iat", "exp", "token_type", "test"}
        assert claims(api_key)["test"] is True
        assert awaited.verify(api_key).is_test
    assert not awaited.verify(issue().api_key).is_test


@pytest.mark.parametrize(
    "options",
    [{"initial_credits": 1}, {"contact": "desk@example.org"}, {"low_balance_at": 0}, {"price": Decimal(1)}],
)
def test_a_test_token_is_issued_without_a_balance(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^A test token has no "):
        issue(**{"initial_credits": 0, "is_test": True, **options})
    assert not ApiToken.objects.exists()


def test_verify_is_one_statement_and_none_for_a_forgery(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    issued = issue()
    with django_assert_num_queries(1):
        assert awaited.verify(issued.api_key).credits == 5
    with django_assert_num_queries(0), pytest.raises(tokens.InvalidToken):
        awaited.verify(issued.api_key[:-2] + "xx")


def test_verified_jwt_is_not_kept_in_memory() -> None:
    class Presented(str):
        """A string that can be weakly referenced."""

    issued = issue()
    for api_key in (issued.api_key, issued.api_key[:-2] + "xx"):
        presented = Presented(api_key)
        seen = weakref.ref(presented)
        with suppress(tokens.InvalidToken):
            awaited.verify(presented)
        del presented
        gc.collect()
        assert seen() is None


def test_signature_is_verified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []
    decode = tokens._Backend.decode

    def record_and_decode(self: tokens._Backend, api_key: Any, verify: bool = True) -> Any:
        decoded.append(api_key)
        return decode(self, api_key, verify)

    first, second = (issue().api_key for _ in range(2))
    monkeypatch.setattr(tokens._Backend, "decode", record_and_decode)
    for api_key in (first, second, first, second):
        awaited.verify(api_key)
    assert decoded == [first, second]


def encode(part: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


def forgeries(api_key: str, key: str) -> dict[str, str]:
    header, payload, signature = api_key.split(".")
    ours = claims(api_key)
    hour = int(time.time()) + 3600

    def signed(members: dict[str, Any], *, by: str = key, algorithm: str = "HS256", **header: Any) -> str:
        return jwt.encode(members, by, algorithm=algorithm, headers=header)

    def without(name: str) -> dict[str, Any]:
        return {claim: value for claim, value in ours.items() if claim != name}

    return {
        "alg none": f"{encode({'alg': 'none', 'typ': 'JWT'})}.{payload}.",
        "alg None with the signature": f"{encode({'alg': 'None', 'typ': 'JWT'})}.{payload}.{signature}",
        "no alg": f"{encode({'typ': 'JWT'})}.{payload}.{signature}",
        "HS512 with our key": signed(ours, algorithm="HS512"),
        "another key": signed(ours, by="k" * 48),
        "empty key": f"{header}.{payload}."
        + base64.urlsafe_b64encode(hmac.digest(b"\0" * 32, f"{header}.{payload}".encode(), "sha256")).decode(),
        "SHA-256 without a key": f"{header}.{payload}."
        + base64.urlsafe_b64encode(hashlib.sha256(f"{header}.{payload}".encode()).digest()).decode(),
        "no signature": f"{header}.{payload}.",
        "two parts": f"{header}.{payload}",
        "four parts": f"{api_key}.x",
        "another payload": f"{header}.{encode({**ours, 'exp': hour})}.{signature}",
        "expired": signed({**ours, "exp": int(time.time()) - 31}),
        "no exp": signed(without("exp")),
        "exp is text": signed({**ours, "exp": "soon"}),
        "exp is huge": signed({**ours, "exp": 10**30}),
        "no jti": signed(without("jti")),
        "unknown jti": signed({**ours, "jti": "0" * 32}),
        "jti is a list": signed({**ours, "jti": [ours["jti"]]}),
        "jti is null": signed({**ours, "jti": None}),
        "jti with NUL": signed({**ours, "jti": ours["jti"] + "\0"}),
        "no type": signed(without("token_type")),
        "another type": signed({**ours, "token_type": "access"}),
        "unknown critical header": signed(ours, crit=["x"], x=1),
        "payload is a list": f"{header}.{encode([1])}.{signature}",
        "1,400 nested brackets in the header": base64.urlsafe_b64encode(b"[" * 1_400).decode() + f".{payload}.x",
        **other_spellings(api_key),
    }


def other_spellings(api_key: str) -> dict[str, str]:
    """Texts that lenient decoders read as the same JWT."""
    rest, _, signature = api_key.rpartition(".")
    alphabet = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
    trailing_bits = alphabet[alphabet.index(signature[-1]) + 1]
    return {
        "padding": f"{api_key}=",
        "more padding": f"{api_key}====",
        "padding of the header": api_key.replace(".", "=.", 1),
        "trailing bits": api_key[:-1] + trailing_bits,
        "white space": f"{api_key} ",
        "white space before": f" {api_key}",
        "a newline": f"{api_key}\n",
        "white space inside": f"{rest}.{signature[:9]}\n{signature[9:]}",
        "another character inside": f"{rest}.{signature[:9]}!{signature[9:]}",
        "standard alphabet": f"{rest}.{signature[:-2]}+/",
        "Unicode": f"{rest}.{signature[:-1]}\uff21",
    }


@pytest.mark.parametrize("forgery", sorted(forgeries(jwt.encode({"jti": "x"}, "k" * 32), "k" * 32)))
def test_forged_token_is_refused(forgery: str, settings: Any) -> None:
    issued = issue()
    with pytest.raises(tokens.InvalidToken):
        awaited.verify(forgeries(issued.api_key, settings.JWT_SIGNING_KEY)[forgery])


@hypothesis_settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.text(), st.binary(), st.none(), st.integers(), st.from_regex(r"e[\w-]+\.[\w-]*\.[\w-]*")))
def test_malformed_token_is_refused(junk: Any) -> None:
    with pytest.raises(tokens.InvalidToken):
        awaited.verify(junk)


def test_expired_token_has_30_seconds_of_leeway(settings: Any) -> None:
    issued = issue()
    ours = claims(issued.api_key)
    late = jwt.encode({**ours, "exp": int(time.time()) - 25}, settings.JWT_SIGNING_KEY, algorithm="HS256")
    assert awaited.verify(late).pk == issued.token.pk  # an older one is among the forgeries


def test_a_token_issued_by_a_fast_clock_is_accepted(settings: Any) -> None:
    issued = issue()
    ours = claims(issued.api_key)
    future = jwt.encode({**ours, "iat": int(time.time()) + 3600}, settings.JWT_SIGNING_KEY, algorithm="HS256")
    assert awaited.verify(future).pk == issued.token.pk


def test_signing_keys_rotate_without_breaking_tokens_in_use(settings: Any) -> None:
    issued = issue()
    settings.JWT_PREVIOUS_KEYS = ["unrelated" * 8, settings.JWT_SIGNING_KEY]
    settings.JWT_SIGNING_KEY = "n" * 48
    assert awaited.verify(issued.api_key).pk == issued.token.pk
    with pytest.raises(jwt.InvalidSignatureError):
        jwt.decode(issue().api_key, settings.JWT_PREVIOUS_KEYS[1], algorithms=["HS256"])
    settings.JWT_PREVIOUS_KEYS = []
    with pytest.raises(tokens.InvalidToken):
        awaited.verify(issued.api_key)


def test_rotation_ends_the_old_token_at_once() -> None:
    first = issue(days=30)
    second = tokens.rotate(token=first.token)
    assert awaited.verify(second.api_key).pk == first.token.pk
    assert awaited.verify(second.api_key).credits == 5
    assert claims(second.api_key)["exp"] - claims(second.api_key)["iat"] == 30 * 24 * 3600
    with pytest.raises(tokens.InvalidToken):
        awaited.verify(first.api_key)


def test_old_token_works_until_the_grace_period_ends() -> None:
    first = issue()
    second = tokens.rotate(token=first.token, grace=timedelta(minutes=5))
    assert awaited.verify(first.api_key).pk == awaited.verify(second.api_key).pk
    ApiToken.objects.update(previous_until=timezone.now())
    with pytest.raises(tokens.InvalidToken):
        awaited.verify(first.api_key)
    assert awaited.verify(second.api_key)


def test_second_rotation_ends_the_first_grace_period() -> None:
    first = issue()
    second = tokens.rotate(token=first.token, grace=timedelta(hours=1))
    third = tokens.rotate(token=first.token, grace=timedelta(hours=1))
    with pytest.raises(tokens.InvalidToken):
        awaited.verify(first.api_key)
    assert awaited.verify(second.api_key).pk == awaited.verify(third.api_key).pk


def test_revocation_ends_both_tokens_and_forbids_rotation() -> None:
    first = issue()
    second = tokens.rotate(token=first.token, grace=timedelta(hours=1))
    assert tokens.revoke(token=first.token, reason="lost")
    assert not tokens.revoke(token=first.token, reason="again")
    for api_key in (first.api_key, second.api_key):
        with pytest.raises(tokens.InvalidToken):
            awaited.verify(api_key)
    with pytest.raises(tokens.TokenRevoked):
        tokens.rotate(token=first.token)
    first.token.refresh_from_db()
    assert (first.token.state, first.token.revoked_reason) == ("revoked", "lost")


def test_state_is_expired_after_expiry() -> None:
    token = issue(days=1).token
    assert token.state == "active"
    assert token.state_at(token.expires_at) == "expired"


@pytest.mark.parametrize(
    "wrong", [{"name": " "}, {"name": "x" * 101}, {"days": 0}, {"days": 40_000}, {"initial_credits": -1}]
)
def test_invalid_token_is_not_issued(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        issue(**wrong)
    assert not ApiToken.objects.exists()


def test_grace_out_of_range_changes_nothing() -> None:
    issued = issue()
    with pytest.raises(ValueError, match="A grace period is 0 to 90 days"):
        tokens.rotate(token=issued.token, grace=timedelta(days=91))
    assert awaited.verify(issued.api_key)
