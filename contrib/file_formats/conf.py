from typing import Any

from django.core.exceptions import ImproperlyConfigured

from callerid_project.environment import Environment

SOURCES = ("ftc", "fcc", "phoneblock")


def read(env: Environment) -> dict[str, Any]:
    sources = env.words("REFRESH_SOURCES", [])
    if unknown := set(sources).difference(SOURCES):
        raise ImproperlyConfigured(
            f"REFRESH_SOURCES names {', '.join(sorted(unknown))}; it must be some of {','.join(SOURCES)}."
        )
    return {
        "REFRESH_SOURCES": sources,
        "REFRESH_FTC_URL": env.file_url("REFRESH_FTC_URL", containing="{day}"),
        "REFRESH_FCC_URL": env.file_url("REFRESH_FCC_URL"),
        "REFRESH_PHONEBLOCK_URL": env.file_url("REFRESH_PHONEBLOCK_URL"),
        "REFRESH_MAX_MB": env.number("REFRESH_MAX_MB", 2_000, most=100_000),
    }
