"""Signatures of requests, by the vendors' own test vectors."""

import pytest

from lookup.vendors.preset import MissingEnvironment
from lookup.vendors.signatures import telesign
from lookup.vendors.transport import Request
from tests.lookup.vendors.conftest import AUTH, Make

# TeleSign/python_telesign, tests/test_rest.py, efdf977.
ACCOUNT = "FFFFFFFF-EEEE-DDDD-1234-AB1234567890"
KEY = "EXAMPLE----TE8sTgg45yusumoN6BYsBVkh+yRJ5czgsnCehZaOYldPJdmFh6NeX8kunZ2zU1YWaUw/0wV6xfw=="
DATE, NONCE = "Wed, 14 Dec 2016 18:20:12 GMT", "A1592C6F-E384-4CDB-BC42-C3AB970369E9"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
SIGNATURE = 'signature = { scheme = "telesign", id = "MOCK_A_ID", key = "MOCK_A_KEY" }'


@pytest.mark.parametrize(
    ("method", "body", "expected"),
    [
        ("POST", b"test=param", "2xVlmbrxLjYrrPun3G3WMNG6Jon4yKcTeOoK9DjXJ/Q="),
        ("POST", b"test=%CF%BF", "h8d4I0RTxErbxYXuzCOtNqb/f0w3Ck8e5SEkGNj01+8="),
        ("GET", None, "aUm7I+9GKl3ww7PNeeJntCT0iS7b+EmRKEE4LnRzChQ="),
    ],
)
def test_telesign_signs_as_its_own_client(method: str, body: bytes | None, expected: str) -> None:
    request = Request(method, "https://rest.example.com/v1/resource?query=1", FORM, body)
    assert telesign(request, ACCOUNT, KEY, date=DATE, nonce=NONCE) == {
        "Authorization": f"TSA {ACCOUNT}:{expected}",
        "Date": DATE,
        "x-ts-auth-method": "HMAC-SHA256",
        "x-ts-nonce": NONCE,
    }


def test_each_request_has_its_own_nonce(make: Make) -> None:
    vendor = make((AUTH, SIGNATURE), MOCK_A_ID="id", MOCK_A_KEY="c2VjcmV0")
    first, second = (vendor.request("12025550123").headers for _ in range(2))
    assert first["Authorization"].startswith("TSA id:")
    assert first["x-ts-nonce"] != second["x-ts-nonce"]
    assert first["Authorization"] != second["Authorization"]


def test_key_that_cannot_sign_is_reported(make: Make) -> None:
    with pytest.raises(MissingEnvironment, match=r"^MOCK_A_KEY is not a key of the scheme telesign\.$"):
        make((AUTH, SIGNATURE), MOCK_A_ID="id", MOCK_A_KEY="c2Vjc")
