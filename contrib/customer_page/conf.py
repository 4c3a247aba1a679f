from typing import Any

from callerid_project.environment import Environment


def read(env: Environment) -> dict[str, Any]:
    return {"CUSTOMER_PAGES": env.flag("CUSTOMER_PAGES", False)}
