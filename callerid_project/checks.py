"""Deployment checks (`manage.py check --deploy`): what works, but should not be so in production."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Tags, Warning, register


@register(Tags.security, deploy=True)
def check_trusted_proxies(**kwargs: Any) -> list[CheckMessage]:
    """The production profile serves plain HTTP with HTTPS-only cookies, so there is a proxy that terminates TLS."""
    if settings.EMBEDDED or settings.TRUSTED_PROXIES > 0:
        return []
    return [
        Warning(
            "TRUSTED_PROXIES is 0: behind a proxy all clients share the rate limits of its address, so ten login "
            "attempts per minute lock everybody out.",
            hint="Set TRUSTED_PROXIES to the number of proxies in front, for example TRUSTED_PROXIES=1.",
            id="callerid.W001",
        )
    ]


@register(Tags.security, deploy=True)
def check_two_factor_authentication(**kwargs: Any) -> list[CheckMessage]:
    if settings.EMBEDDED or settings.REQUIRE_2FA:
        return []
    return [
        Warning(
            "REQUIRE_2FA is off: staff without two-factor authentication open the console with only a password.",
            hint="Set REQUIRE_2FA=true, or leave it unset.",
            id="callerid.W002",
        )
    ]
