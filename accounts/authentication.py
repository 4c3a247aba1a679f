"""The API key in the body becomes an ApiToken, or the request ends here."""

from typing import Any, cast

from django.conf import settings
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from accounts import brake, tokens
from accounts.models import ApiToken


class BodyTokenAuthentication(BaseAuthentication):
    """Reads `api_key` from the JSON body. One answer for every cause; a client that fails too often is braked."""

    def authenticate(self, request: Request) -> tuple[None, ApiToken]:
        try:
            return None, tokens.verify(cast(dict[str, Any], request.data).get("api_key"))
        except tokens.InvalidToken as error:
            brake.count_attempt(request._request, group="api", rate=settings.AUTH_FAILURE_RATE)
            raise AuthenticationFailed from error

    def authenticate_header(self, request: Request) -> str:
        return 'JWT realm="callerid"'
