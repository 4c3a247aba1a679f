"""Signatures of requests by HMAC: the schemes that vendors document, by name."""

import base64
import hashlib
import hmac
from collections.abc import Callable
from email.utils import formatdate
from urllib.parse import urlsplit
from uuid import uuid4

from lookup.vendors.authentication import SignatureScheme
from lookup.vendors.transport import Request

#: The request, the account's id and its key → headers. A scheme raises ValueError for a key that it cannot use.
Scheme = Callable[[Request, str, str], dict[str, str]]


def telesign(request: Request, account: str, key: str, *, date: str = "", nonce: str = "") -> dict[str, str]:
    """Telesign's `TSA` (github.com/TeleSign/python_telesign, telesign/rest.py, efdf977): HMAC-SHA256 by the key, which
    is in base64, of method, content type, date, method of signing, nonce, body if there is one, and path. The vendor
    refuses a date that differs by minutes from its clock, and a nonce that was used. `date`, `nonce`: for tests."""
    date, nonce = date or formatdate(usegmt=True), nonce or str(uuid4())
    signed = {"x-ts-auth-method": "HMAC-SHA256", "x-ts-nonce": nonce}
    content_type = request.headers.get("Content-Type", "") if request.body else ""
    lines = [request.method, content_type, date, *(f"{name}:{value}" for name, value in signed.items())]
    lines += [*([request.body.decode()] if request.body else []), urlsplit(request.url).path]
    digest = hmac.digest(base64.b64decode(key), "\n".join(lines).encode(), hashlib.sha256)
    return {"Authorization": f"TSA {account}:{base64.b64encode(digest).decode()}", "Date": date, **signed}


SCHEMES: dict[SignatureScheme, Scheme] = {"telesign": telesign}
