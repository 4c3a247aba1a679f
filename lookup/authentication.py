"""Authentication of the search: the API token in the request body."""

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from django.conf import settings
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from accounts import tokens
from accounts.models import ActiveToken
from core import database, loop, numbers, throttling
from core.database import Row
from lookup import search
from phonebook.number_query import NumberRows


class SearchAuthentication(BaseAuthentication):
    """Reads `api_key` from the JSON body, and the token's row together with what the tables know about the number.

    Sets `request.number_rows`, unless the number is invalid, which is reported only to a valid token. Raises
    AuthenticationFailed, the same for every cause, and TooManyAttempts for a client that exceeds AUTH_FAILURE_RATE.
    """

    async def authenticate(self, request: Request) -> tuple[None, ActiveToken]:  # type: ignore[override]
        data = cast(dict[str, Any], request.data)
        try:
            return None, await tokens.verify(data.get("api_key"), partial(_fetch_row, request))
        except tokens.InvalidToken as error:
            throttling.FAILED_AUTHENTICATIONS.inc("token")
            count = partial(throttling.count_attempt, request._request, group="api", rate=settings.AUTH_FAILURE_RATE)
            await loop.run_in_thread(count)
            raise AuthenticationFailed from error

    def authenticate_header(self, request: Request) -> str:
        return 'JWT realm="callerid"'


async def _fetch_row(request: Request, statement: str, parameters: Sequence[Any]) -> Row | None:
    """The first row of the statement that finds the token."""
    try:
        rows = NumberRows(numbers.parse(cast(dict[str, Any], request.data).get("query")))
    except numbers.InvalidNumber:
        return await database.fetch_one(statement, parameters)
    request.number_rows = rows  # type: ignore[attr-defined]
    return await rows.read_with(search.queries(), statement, parameters)
