"""Traces (OpenTelemetry): one span for each request, and within it for the rate limit, each hand-written SQL statement
and each vendor call. The standard OTEL_… variables configure them. Exceptions are recorded by their type alone."""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from core import tracing

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

#: How long the end of a process waits until the last traces are sent.
FLUSH_S = 2

_provider: Any = None


def configure() -> None:
    """Send traces if the environment names a collector. Raises ImproperlyConfigured if the packages are missing."""
    if not settings.SEND_TRACES:
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise ImproperlyConfigured(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, but OpenTelemetry is not installed: "
            ".venv/bin/pip install --require-hashes -r requirements/telemetry.lock"
        ) from None
    os.environ.setdefault("OTEL_SERVICE_NAME", "callerid")
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    tracing.make_span = partial(_span, provider.get_tracer("callerid"))
    global _provider  # noqa: PLW0603
    _provider = provider


def close() -> None:
    """Send the last traces. The library would wait half a minute for a collector that does not answer."""
    if _provider is not None:
        thread = threading.Thread(target=_provider.shutdown, name="traces", daemon=True)
        thread.start()
        thread.join(FLUSH_S)


@contextmanager
def _span(
    tracer: "Tracer", name: str, headers: Mapping[str, str] | None, attributes: Mapping[str, str]
) -> Iterator[Any]:
    from opentelemetry.trace import SpanKind, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    kind, parent = SpanKind.CLIENT, None
    if headers is not None:
        kind, parent = SpanKind.SERVER, TraceContextTextMapPropagator().extract(headers)
    # The SDK's own record of an exception has its message, which may hold what a client or a source sent.
    with tracer.start_as_current_span(
        name, parent, kind, attributes, record_exception=False, set_status_on_exception=False
    ) as current:
        try:
            yield current
        except BaseException as error:
            current.set_attribute("error.type", type(error).__qualname__)
            current.set_status(StatusCode.ERROR)
            raise
