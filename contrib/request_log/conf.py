from typing import Any

from callerid_project.environment import Environment


def read(env: Environment) -> dict[str, Any]:
    return {"REQUEST_LOG_DAYS": env.number("REQUEST_LOG_DAYS", 7, least=0, most=366)}
