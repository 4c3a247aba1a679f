"""The process that searches a file of the console.

It calls the API of the service that started it, with short-lived JWTs of the token: each number is charged, logged,
rate limited and replayed like any other search, also where the rate limit is kept in that service's memory.
"""

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

from django.contrib.auth.models import User
from django.db import Error
from django.utils import timezone

from accounts import tokens
from accounts.models import ApiToken
from contrib.file_lookups import client, services
from contrib.file_lookups.models import FileLookup
from contrib.file_lookups.number_file import result_of
from contrib.file_lookups.services import PERMISSIONS, State, unanswered
from contrib.uploads.upload_process import Heartbeat
from core import addresses, http
from core.api_client import Refused

#: A JWT is made for each request, when it is sent.
JWT_LIFETIME = timedelta(minutes=5)


def process(lookup_id: int, run: str) -> None:
    """Search what has no answer yet, unless it was stopped, or started again, since. What happens is recorded."""
    running = FileLookup.objects.filter(pk=lookup_id, state=State.RUNNING, run=run)
    lookup = running.first()
    if lookup is None:
        return
    stopped = "Interrupted."
    try:
        with Heartbeat(running):
            stopped = _search(lookup)
    except Exception as error:
        stopped = f"{type(error).__name__}."
        raise
    finally:
        with suppress(Error):
            running.update(state=State.STOPPED if stopped else State.DONE, error=stopped, seen_at=timezone.now())


def _search(lookup: FileLookup) -> str:
    """Returns why it stopped early, if it did."""

    def keep(number: str, body: dict[str, Any] | None) -> None:
        services.keep(lookup, int(number), result_of(number, body))

    def jwt() -> str:
        user = User.objects.filter(pk=lookup.started_by_id or 0).first()
        if user is None or not user.has_perms(PERMISSIONS):  # inactive users have none
            raise Refused("The user who started it may no longer look up files.")
        token = ApiToken.objects.get(pk=lookup.token_id or 0)  # it may be rotated meanwhile
        return tokens.short_lived_jwt(token=token, lifetime=JWT_LIFETIME)

    def due() -> Iterator[str]:
        for number in list(unanswered(lookup)):
            if lookup.rows.filter(number=number).exists():  # not erased meanwhile
                yield str(number)

    policy = addresses.policy_for(lookup.url, private_network=True)
    headers = {"Host": lookup.host, "X-Request-ID": lookup.request_id}
    with http.Session(lookup.url, policy, timeout_s=client.TIMEOUT_S) as session:
        api = client.SearchClient(session, lookup.url, jwt, headers, partial(services.wait, lookup))
        stopped = client.search_each(api, f"console {lookup.pk} {lookup.created_at}", due(), keep)
    return stopped or ("Some searches failed." if unanswered(lookup).exists() else "")
