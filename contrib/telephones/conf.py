from typing import Any

from django.core.exceptions import ImproperlyConfigured

from callerid_project.environment import Environment
from core.amounts import whole_number


def read(env: Environment) -> dict[str, Any]:
    """Beside COUNTRY_CODE and INTERNATIONAL_PREFIX, which the console uses too."""
    return {
        "LDAP_PASSWORD": env.text("CALLERID_LDAP_PASSWORD"),
        "LDAP_TOKEN": env.text("CALLERID_LDAP_TOKEN"),
        "LDAP_URL": env.origin("CALLERID_LDAP_URL") or "http://127.0.0.1:8000",
        "SPAM_MARK": env.text("CALLERID_SPAM_MARK", "Spam: "),
        "TRUNK_PREFIX": env.digits("CALLERID_TRUNK_PREFIX", most=5),
        "NATIONAL_DIGITS": _lengths(env.text("CALLERID_NATIONAL_DIGITS"), most=14),
    }


def _lengths(text: str, *, most: int) -> range:
    """'10' or '6-11': the whole numbers; none for an empty text. Raises ImproperlyConfigured."""
    least, _, last = text.strip().partition("-")
    try:
        if least in ("", "0"):
            return range(0)
        found = range(whole_number(least), whole_number(last or least) + 1)
        if not (found and found[-1] <= most):
            raise ValueError
    except ValueError:
        raise ImproperlyConfigured(
            f"CALLERID_NATIONAL_DIGITS must be a whole number from 1 to {most}, or two as in 6-11."
        ) from None
    return found
