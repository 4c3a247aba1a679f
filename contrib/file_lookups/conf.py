from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from callerid_project.environment import Environment

#: How long file and results are kept after the last step.
KEPT_DAYS = 7


def read(env: Environment) -> dict[str, Any]:
    """SEARCH_URL: a search instance, for the look-ups of an instance that answers no searches."""
    return {"SEARCH_URL": env.origin("SEARCH_URL")}


def require_search_url() -> None:
    """Called when the service starts. Raises ImproperlyConfigured."""
    if settings.SERVE == "console" and not settings.SEARCH_URL:
        example = "SEARCH_URL=http://127.0.0.1:8001"
        raise ImproperlyConfigured(f"SERVE=console needs SEARCH_URL, a search instance: {example}.")
