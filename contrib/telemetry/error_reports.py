"""Reports of errors to Sentry: those that are logged at ERROR, without bodies, values or local variables."""

from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from callerid_project.logging import redact, request_id

FLUSH_S = 2


def configure() -> None:
    """Report errors if SENTRY_DSN is set. Raises ImproperlyConfigured if it is invalid or the package is missing."""
    if not settings.SENTRY_DSN:
        return
    try:
        import sentry_sdk
        from sentry_sdk.integrations.logging import LoggingIntegration
        from sentry_sdk.utils import BadDsn
    except ImportError:
        raise ImproperlyConfigured(
            "SENTRY_DSN is set, but sentry-sdk is not installed: "
            ".venv/bin/pip install --require-hashes -r requirements/telemetry.lock"
        ) from None
    try:
        sentry_sdk.init(
            dsn=settings.SENTRY_DSN,
            # None that adds requests, their bodies or statements: only what is logged.
            default_integrations=False,
            auto_enabling_integrations=False,
            integrations=[LoggingIntegration(level=None)],
            before_send=before_send,
            include_local_variables=False,
            max_breadcrumbs=0,
            max_request_body_size="never",
            send_default_pii=False,
        )
    except BadDsn:
        raise ImproperlyConfigured("SENTRY_DSN must be https://key@host/project.") from None


def close() -> None:
    """Send the last reports."""
    if settings.SENTRY_DSN:
        import sentry_sdk

        sentry_sdk.flush(FLUSH_S)


def before_send(event: Any, hint: dict[str, Any]) -> Any:
    """`event` without the messages of exceptions and the arguments of log lines, as in our log, and with the request
    id."""
    for error in event.get("exception", {}).get("values", []):
        error["value"] = ""
    if entry := event.get("logentry"):
        message = redact(hint["log_record"].getMessage() if "log_record" in hint else entry.get("message", ""))
        event["logentry"] = {"message": message, "formatted": message}
    for unwanted in ("extra", "breadcrumbs"):
        event.pop(unwanted, None)
    event.setdefault("tags", {})["request_id"] = request_id.get()
    return event
