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
from core import database, loop, throttling
from core.database import Row


class BodyTokenAuthentication(BaseAuthentication):
    """Reads `api_key` from the JSON body.

    Raises AuthenticationFailed, the same for every cause, and TooManyAttempts for a client that exceeds
    AUTH_FAILURE_RATE.
    """

    async def authenticate(self, request: Request) -> tuple[None, ActiveToken]:  # type: ignore[override]
        try:
            return None, await tokens.verify(
                cast(dict[str, Any], request.data).get("api_key"), partial(self.fetch_row, request)
            )
        except tokens.InvalidToken as error:
            throttling.FAILED_AUTHENTICATIONS.inc("token")
            count = partial(throttling.count_attempt, request._request, group="api", rate=settings.AUTH_FAILURE_RATE)
            await loop.run_in_thread(count)
            raise AuthenticationFailed from error

    async def fetch_row(self, request: Request, statement: str, parameters: Sequence[Any]) -> Row | None:
        """The first row of the statement that finds the token."""
        return await database.fetch_one(statement, parameters)

    def authenticate_header(self, request: Request) -> str:
        return 'JWT realm="callerid"'
