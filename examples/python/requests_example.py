"""Prints who is calling. Needs Python 3.11 and requests. docs/clients.md lists the exit codes.

CALLERID_URL=http://127.0.0.1:8000 CALLERID_TOKEN=... python3 requests_example.py 493023125555
"""

import os
import re
import sys
import time
import uuid

import requests

ATTEMPTS, ATTEMPT_S, TOTAL_S, PAUSE_S = 3, 2.0, 4.0, 0.2
EXIT_CODES = {401: 3, 403: 4, 429: 5, 503: 7}


def search(url: str, token: str, number: str) -> tuple[int, str]:
    """The exit code, and what to print."""
    deadline = time.monotonic() + TOTAL_S
    # The same key with each attempt: none is charged twice.
    headers = {"Idempotency-Key": str(uuid.uuid4())}
    body = {"api_key": token, "query": number}
    for attempt in range(1, ATTEMPTS + 1):
        try:
            # The limit is for the connection, and for each wait for data.
            timeout_s = max(0.001, min(ATTEMPT_S, deadline - time.monotonic()))
            # A redirect would send the token elsewhere.
            response = requests.post(
                f"{url}/callerid/search", json=body, headers=headers, timeout=timeout_s, allow_redirects=False
            )
            status = response.status_code
            if status == 200:
                return 0, describe(response.json()["data"])
        except requests.RequestException:  # also for a 200 that is not JSON
            outcome, wait_s = (8, "No response"), PAUSE_S
        else:
            outcome = EXIT_CODES.get(status, 6 if status >= 500 else 1), f"{status} {detail(response)}"
            if status in (429, 503):
                seconds = response.headers.get("Retry-After", "")
                wait_s = int(seconds) if re.fullmatch("[0-9]{1,9}", seconds) else 1
            elif status >= 500:
                wait_s = PAUSE_S
            else:
                return outcome
        if attempt == ATTEMPTS or time.monotonic() + wait_s >= deadline:
            break
        time.sleep(wait_s)
    return outcome


def describe(data: dict) -> str:
    a, b = data["source_a"], data["source_b"]
    spam = {True: "yes", False: "no", None: "unknown"}[b.get("spam")]
    name = a.get("name") or b.get("name") or "unknown"
    return f"Name:  {name}\nPlace: {a.get('location', 'unknown')}\nSpam:  {spam}"


def detail(response: requests.Response) -> str:
    try:
        return response.json()["detail"]
    except (ValueError, KeyError, TypeError):  # a proxy's error page
        return response.reason


def main() -> int:
    url, token = os.environ.get("CALLERID_URL", "").rstrip("/"), os.environ.get("CALLERID_TOKEN")
    if not url or not token or len(sys.argv) != 2:
        print(f"Usage: CALLERID_URL=... CALLERID_TOKEN=... {sys.argv[0]} NUMBER", file=sys.stderr)
        return 2
    code, text = search(url, token, sys.argv[1])
    print(text, file=sys.stderr if code else sys.stdout)
    return code


if __name__ == "__main__":
    sys.exit(main())
