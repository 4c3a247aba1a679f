from typing import Any


def read(env: Any) -> dict[str, Any]:
    return {"PLAIN_COUNT": env.number("PLAIN_COUNT", 3)}
