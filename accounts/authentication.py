"""Authentication of the search: the API token in the request body."""

from functools import partial
from typing import Any, cast

from django.conf import settings
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from accounts import tokens
from accounts.models import ApiToken
from core import loop, throttling


class BodyTokenAuthentication(BaseAuthentication):
    """Reads `api_key` from the JSON body.

    Raises AuthenticationFailed, the same for every cause, and TooManyAttempts for a client that exceeds
    AUTH_FAILURE_RATE.
    """

    async def authenticate(self, request: Request) -> tuple[None, ApiToken]:  # type: ignore[override]
        try:
            return None, await tokens.verify(cast(dict[str, Any], request.data).get("api_key"))
        except tokens.InvalidToken as error:
            throttling.FAILED_AUTHENTICATIONS.inc("token")
            count = partial(throttling.count_attempt, request._request, group="api", rate=settings.AUTH_FAILURE_RATE)
            await loop.run_in_thread(count)
            raise AuthenticationFailed from error

    def authenticate_header(self, request: Request) -> str:
        return 'JWT realm="callerid"'
