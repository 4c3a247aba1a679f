"""Optional traces (OpenTelemetry): one span for each request, and within it for the rate limit, each hand-written SQL
statement and each vendor call. The standard OTEL_… variables configure them.

No attribute holds a number, a token or a name, and exceptions are recorded by their type alone.
"""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

#: How long the end of a process waits until the last traces are sent.
FLUSH_S = 2

_tracer: "Tracer | None" = None
_provider: Any = None
_NO_SPAN: AbstractContextManager[None] = nullcontext()


def configure() -> None:
    """Send traces if the environment names a collector. Raises ImproperlyConfigured if the packages are missing."""
    named = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    if not named or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
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
    global _tracer, _provider
    _tracer, _provider = provider.get_tracer("callerid"), provider


def close() -> None:
    """Send the last traces. The library would wait half a minute for a collector that does not answer."""
    if _provider is not None:
        thread = threading.Thread(target=_provider.shutdown, name="traces", daemon=True)
        thread.start()
        thread.join(FLUSH_S)


def span(name: str, headers: Mapping[str, str] | None = None, /, **attributes: str) -> AbstractContextManager[Any]:
    """A span within the current one, around what leaves the process. With `headers`, that of a request, within the
    client's if it sends a `traceparent`. Costs nothing while there are no traces, and is None then."""
    return _NO_SPAN if _tracer is None else _span(_tracer, name, headers, attributes)


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
