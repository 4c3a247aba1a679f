"""A telephone's search for a number that the directory does not have: a search of the API, which costs a credit."""

import asyncio
import json
import logging
import time

from django.conf import settings

from core import http
from core.addresses import policy_for
from core.hashing import keyed_hash
from phonebook.directory import Entry, entry

log = logging.getLogger(__name__)

#: Searches for a number within the same period of this length are charged once.
CHARGED_ONCE_S = 3600
#: So long a search serves all telephones that ask for its number, such as those that ring at the same time.
SHARED_S = 30
#: A response has a few hundred.
MAX_RESPONSE_BYTES = 2**16

#: By number.
_searches: dict[str, asyncio.Task[Entry | None]] = {}


async def shared_search(number: str, *, timeout_s: float) -> Entry | None:
    """As `search`, once for all who ask within SHARED_S."""
    if (running := _searches.get(number)) is None:
        running = _searches[number] = asyncio.create_task(asyncio.to_thread(search, number, timeout_s=timeout_s))
        asyncio.get_running_loop().call_later(SHARED_S, _searches.pop, number)
    return await asyncio.shield(running)


def search(number: str, *, timeout_s: float) -> Entry | None:
    """The name of a caller, and the spam classification; None if no source knows either, or the service refuses the
    search, whose status is logged. `number`: digits only. Raises RequestFailed, and ValueError for a reply that is not
    the service's."""
    period = int(time.time() // CHARGED_ONCE_S)
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
    try:
        data = json.loads(content)["data"]
        source_a, source_b = data["source_a"], data["source_b"]
        name = source_a.get("name") or source_b.get("name") or ""
        return entry(number, name, source_a.get("location", ""), spam=source_b.get("spam") is True)
    except (ValueError, LookupError, TypeError, AttributeError):
        raise ValueError("not a search response") from None
