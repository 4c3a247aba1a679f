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
from contrib.uploads.upload_process import Heartbeat
from core import addresses, api_client, http
from lookup import file_lookups
from lookup.file_lookups import PERMISSIONS, State, unanswered
from lookup.models import FileLookup
from lookup.number_file import result_of

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
        file_lookups.keep(lookup, int(number), result_of(number, body))

    def jwt() -> str:
        user = User.objects.filter(pk=lookup.started_by_id or 0).first()
        if user is None or not user.has_perms(PERMISSIONS):  # inactive users have none
            raise api_client.Refused("The user who started it may no longer look up files.")
        token = ApiToken.objects.get(pk=lookup.token_id or 0)  # it may be rotated meanwhile
        return tokens.short_lived_jwt(token=token, lifetime=JWT_LIFETIME)

    def due() -> Iterator[str]:
        for number in list(unanswered(lookup)):
            if lookup.rows.filter(number=number).exists():  # not erased meanwhile
                yield str(number)

    policy = addresses.policy_for(lookup.url, private_network=True)
    headers = {"Host": lookup.host, "X-Request-ID": lookup.request_id}
    with http.Session(lookup.url, policy, timeout_s=api_client.TIMEOUT_S) as session:
        client = api_client.Client(session, lookup.url, jwt, headers, partial(file_lookups.wait, lookup))
        stopped = api_client.search_each(client, f"console {lookup.pk} {lookup.created_at}", due(), keep)
    return stopped or ("Some searches failed." if unanswered(lookup).exists() else "")
