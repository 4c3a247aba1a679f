from typing import Any

from callerid_project.environment import Environment

#: How long file and results are kept after the last step.
KEPT_DAYS = 7


def read(env: Environment) -> dict[str, Any]:
    """SEARCH_URL: a search instance, for the look-ups of an instance that answers no searches."""
    return {"SEARCH_URL": env.origin("SEARCH_URL")}
