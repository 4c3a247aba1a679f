"""Deployment checks (`manage.py check --deploy`): settings that work but that a production service should not have."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Tags, Warning, register


@register(Tags.security, deploy=True)
def proxies_are_counted(**kwargs: Any) -> list[CheckMessage]:
    """The production profile serves plain HTTP with cookies for HTTPS only, so there is a proxy that speaks TLS."""
    if settings.EMBEDDED or settings.TRUSTED_PROXIES > 0:
        return []
    return [
        Warning(
            "TRUSTED_PROXIES is 0: behind a proxy all clients share the limits of its address, so that ten attempts a "
            "minute lock the login for everybody.",
            hint="Set TRUSTED_PROXIES to the number of proxies in front, for example TRUSTED_PROXIES=1.",
            id="callerid.W001",
        )
    ]


@register(Tags.security, deploy=True)
def staff_have_a_second_factor(**kwargs: Any) -> list[CheckMessage]:
    if settings.EMBEDDED or settings.REQUIRE_2FA:
        return []
    return [
        Warning(
            "REQUIRE_2FA is off: a password alone opens the console to staff who have set up no second factor.",
            hint="Set REQUIRE_2FA=true, or leave it out.",
            id="callerid.W002",
        )
    ]
