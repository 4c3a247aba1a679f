"""A telephone's search for a number that the directory does not have: a search of the API, which costs a credit."""

import asyncio
import logging
import time

from django.conf import settings

from contrib.telephones.directory import Entry, entry
from core import http
from core.addresses import policy_for
from core.api_client import Client
from core.hashing import keyed_hash

log = logging.getLogger(__name__)

#: Searches for a number within the same period of this length are charged once.
CHARGED_ONCE_S = 3600
#: So long a search serves all telephones that ask for its number, such as those that ring at the same time.
SHARED_S = 30

#: By number.
_searches: dict[str, asyncio.Task[Entry | None]] = {}


async def shared_search(number: str, *, timeout_s: float) -> Entry | None:
    """As `search`, once for all who ask within SHARED_S."""
    if (running := _searches.get(number)) is None:
        running = _searches[number] = asyncio.create_task(asyncio.to_thread(search, number, timeout_s=timeout_s))
        # All who wait may have given up: asyncio reports a failure that nobody has read.
        running.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        asyncio.get_running_loop().call_later(SHARED_S, _searches.pop, number, None)
    return await asyncio.shield(running)


def search(number: str, *, timeout_s: float) -> Entry | None:
    """The name of a caller, and the spam classification; None if no source knows either, or the service refuses the
    search, whose status is logged. `number`: digits only. Raises RequestFailed, and Refused for a reply that is not the
    service's."""
    period = int(time.time() // CHARGED_ONCE_S)
    key = keyed_hash("directory", f"{number} {period}").hex()
    policy = policy_for(settings.LDAP_URL, private_network=True)
    with http.Session(settings.LDAP_URL, policy, timeout_s=timeout_s) as session:
        response = Client(session, settings.LDAP_URL, lambda: settings.LDAP_TOKEN).post(number, key=key)
    if response.status != 200:
        log.warning("directory: no name, status %d", response.status)
        return None
    data = response.answer()["data"]
    a, b = data["source_a"], data["source_b"]
    return entry(number, a.get("name") or b.get("name") or "", a.get("location", ""), spam=b.get("spam") is True)
