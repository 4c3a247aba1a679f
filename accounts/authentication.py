"""Authentication of the search: the API token in the request body."""

from typing import Any, cast

from django.conf import settings
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from accounts import tokens
from accounts.models import ApiToken
from core import throttling


class BodyTokenAuthentication(BaseAuthentication):
    """Reads `api_key` from the JSON body.

    Raises AuthenticationFailed, the same for every cause, and TooManyAttempts for a client that exceeds
    AUTH_FAILURE_RATE.
    """

    def authenticate(self, request: Request) -> tuple[None, ApiToken]:
        try:
            return None, tokens.verify(cast(dict[str, Any], request.data).get("api_key"))
        except tokens.InvalidToken as error:
            throttling.FAILED_AUTHENTICATIONS.inc("token")
            throttling.count_attempt(request._request, group="api", rate=settings.AUTH_FAILURE_RATE)
            raise AuthenticationFailed from error

    def authenticate_header(self, request: Request) -> str:
        return 'JWT realm="callerid"'
