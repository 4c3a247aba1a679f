"""A telephone's search for a number that the directory does not have: a search of the API, which costs a credit."""

import json
import logging
import time

from django.conf import settings

from core import http
from core.addresses import policy_for
from core.hashing import keyed_hash
from core.text import clean_text
from phonebook.directory import Entry

log = logging.getLogger(__name__)

#: Telephones that ring at the same time, and one that asks again, share a search.
SHARED_S = 3600
#: A response has a few hundred.
MAX_RESPONSE_BYTES = 2**16


def search(number: str, *, timeout_s: float) -> Entry | None:
    """The name of a caller, and the spam classification; None if no source knows either, or the service refuses the
    search, whose status is logged. `number`: digits only. Raises RequestFailed, and ValueError, KeyError and TypeError
    for a reply that is not the service's."""
    period = int(time.time() // SHARED_S)
    headers = {"Idempotency-Key": keyed_hash("directory", f"{number} {period}").hex()}
    body = {"api_key": settings.LDAP_TOKEN, "query": number}
    policy = policy_for(settings.LDAP_URL, private_network=True)
    with http.Session(settings.LDAP_URL, policy, timeout_s=timeout_s) as session:
        url = f"{settings.LDAP_URL}/callerid/search"
        with session.request("POST", url, json=body, headers=headers) as response:
            status, content = response.status_code, response.raw.read(MAX_RESPONSE_BYTES, decode_content=True)
    if status != 200:
        log.warning("directory: no name, status %d", status)
        return None
    data = json.loads(content)["data"]
    source_a, source_b = data["source_a"], data["source_b"]
    name = clean_text(source_a.get("name") or source_b.get("name") or "")
    if source_b.get("spam"):
        name = settings.SPAM_MARK + (name or f"+{number}")
    return Entry(number, name, clean_text(source_a.get("location", ""))) if name else None
