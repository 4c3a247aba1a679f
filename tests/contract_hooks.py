"""A hook of Schemathesis (tests/test_contract.py): what no schema can express about a valid request."""

import os
import re
from typing import Any

import schemathesis

TOKEN = os.environ["CONTRACT_TOKEN"]


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    body = case.body
    if not isinstance(body, dict):
        return
    api_key, query, key = body.get("api_key"), body.get("query"), (case.headers or {}).get("Idempotency-Key")
    # A generated token is never valid, so most become a real one. What violates the schema stays as it is.
    if isinstance(api_key, str) and 1 <= len(api_key) <= 2048 and len(api_key) % 4:
        case.body = body | {"api_key": TOKEN}
    # A key belongs to one query: with another one it would be refused.
    if isinstance(query, str) and re.fullmatch("[1-9][0-9]{6,14}", query) and key and re.fullmatch("[!-~]{1,255}", key):
        case.headers["Idempotency-Key"] = f"{query}-{key}"[:255]
