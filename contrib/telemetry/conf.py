from typing import Any

from callerid_project.environment import Environment


def read(env: Environment) -> dict[str, Any]:
    """The libraries read the other SENTRY_… and OTEL_… variables."""
    collector = env.text("OTEL_EXPORTER_OTLP_ENDPOINT") or env.text("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    return {
        "SENTRY_DSN": env.str("SENTRY_DSN", "").strip(),
        "SEND_TRACES": bool(collector) and env.text("OTEL_SDK_DISABLED").lower() != "true",
    }
