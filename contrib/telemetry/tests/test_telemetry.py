"""Traces and error reports as a collector and a Sentry server receive them."""

import gzip
import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from contrib.telemetry.error_reports import before_send
from tests import upstream
from tests.api import NUMBER
from tests.core.test_addons import manage
from tests.mock_vendors import KEYS, PRESETS
from tests.plugin import ROOT
from tests.reliability.test_canary import leaks, used_service
from tests.service import Service
from tests.upstream import Upstream, hangs, says

pytestmark = pytest.mark.once
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
MISSING = "import sys; sys.modules['opentelemetry.sdk.trace'] = sys.modules['sentry_sdk'] = None; "


def test_spans_of_a_search_reach_the_collector(serve: Callable[..., Service], vendor: Callable[..., Upstream]) -> None:
    collector, source = vendor(says({})), vendor(says(upstream.GOOD_A))
    service = serve(
        PRESET_DIR=str(PRESETS),
        SOURCE_A="mock_a",
        MOCK_A_BASE_URL=source.url,
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
        OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test",
        **KEYS,
    )
    token = service.manage("create_token", "pbx", "--credits", "5", "--quiet").strip()
    body = {"api_key": token, "query": NUMBER}
    headers = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
    response = requests.post(f"{service.url}/callerid/search", json=body, headers=headers, timeout=60)
    assert response.json()["data"]["source_a"]["name"] == upstream.GOOD_A["name"]
    service.stop()  # which sends the rest
    received = sent_to(collector)
    spans, resources = [], []
    for sent in received:
        for of_resource in ExportTraceServiceRequest.FromString(sent).resource_spans:
            resources += [{item.key: item.value.string_value for item in of_resource.resource.attributes}]
            spans += [span for scope in of_resource.scope_spans for span in scope.spans]
    assert resources[0]["service.name"] == "callerid"
    assert resources[0]["deployment.environment.name"] == "test"
    ours = [span for span in spans if span.trace_id.hex() == TRACE]
    (search,) = [span for span in ours if span.name == "search"]
    assert search.parent_span_id.hex() == "00f067aa0ba902b7"
    inner = [span.name for span in ours if span.parent_span_id == search.span_id]
    assert sorted(set(inner)) == ["database", "rate limit", "vendor call"]
    assert inner.count("vendor call") == 1
    for secret in (token, NUMBER, upstream.GOOD_A["name"], *KEYS.values()):
        assert secret.encode() not in b"".join(received)


@pytest.mark.slow
@pytest.mark.reliability
def test_secrets_and_personal_data_are_in_no_trace(
    serve: Callable[..., Service], vendor: Callable[..., Upstream], postgres_url: str, redis_url: str
) -> None:
    collector = vendor(says({}))
    environment = {"DATABASE_URL": postgres_url, "REDIS_URL": redis_url, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
    _, secrets = used_service(serve, vendor, **environment)
    traces = b"".join(sent_to(collector)).decode("latin-1")
    assert "vendor call" in traces
    assert leaks({"traces": traces}, secrets) == []


def sent_to(collector: Upstream) -> list[bytes]:
    return [gzip.decompress(sent) if sent[:2] == b"\x1f\x8b" else sent for sent in collector.bodies]


def test_unhandled_error_is_reported_without_values(
    serve: Callable[..., Service], vendor: Callable[..., Upstream]
) -> None:
    sentry = vendor(says({}))
    service = serve(
        SENTRY_DSN=f"http://key@127.0.0.1:{sentry.port}/1",
        SENTRY_ENVIRONMENT="test",
        OTEL_EXPORTER_OTLP_ENDPOINT=vendor(hangs).url,
    )
    token = service.manage("create_token", "pbx", "--credits", "5", "--quiet").strip()
    service.manage(
        "shell",
        "-c",
        "from django.db import connection; connection.cursor().execute('DROP TABLE accounts_creditentry')",
    )
    body = {"api_key": token, "query": NUMBER}
    headers = {"X-Request-ID": "the-request"}
    response = requests.post(f"{service.url}/callerid/search?q=secret", json=body, headers=headers, timeout=60)
    assert response.status_code == 500
    while not sentry.bodies:
        time.sleep(0.01)
    event = json.loads(gzip.decompress(sentry.bodies[0]).splitlines()[2])
    errors = event["exception"]["values"]
    assert "OperationalError" in [error["type"] for error in errors]
    assert [error["value"] for error in errors] == [""] * len(errors)
    assert not any("vars" in frame for error in errors for frame in error["stacktrace"]["frames"])
    assert (event["environment"], event["tags"]["request_id"]) == ("test", "the-request")
    assert not {"request", "user", "breadcrumbs", "extra"} & event.keys()
    assert not [secret for secret in (token, NUMBER, "secret") if secret in json.dumps(event)]
    assert service.stop() == 0  # although the collector of traces does not answer


def test_reported_log_line_is_redacted() -> None:
    record = logging.LogRecord("x", logging.ERROR, __file__, 1, "failed for %s", (NUMBER,), None)
    event: dict[str, Any] = {"logentry": {"message": "failed for %s", "params": [NUMBER]}, "extra": {"number": NUMBER}}
    assert NUMBER not in json.dumps(before_send(event, {"log_record": record}))


LOCK = "requirements/telemetry.lock"


@pytest.mark.parametrize(
    ("before", "setting", "sentences"),
    [
        (MISSING, {"SENTRY_DSN": "https://key@localhost/1"}, ["sentry-sdk is not installed", LOCK]),
        (MISSING, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}, ["OpenTelemetry is not installed", LOCK]),
        ("", {"SENTRY_DSN": "nonsense"}, ["SENTRY_DSN must be https://key@host/project."]),
    ],
)
def test_what_is_missing_or_invalid_is_named_at_start(
    before: str, setting: dict[str, str], sentences: list[str], serving_env: dict[str, str]
) -> None:
    command = [sys.executable, "-c", f"{before}import callerid_project.asgi"]
    ended = subprocess.run(command, cwd=ROOT, env=serving_env | setting, capture_output=True, text=True, check=False)
    assert [sentence for sentence in sentences if sentence not in ended.stderr] == []


def test_variables_are_reported_without_the_add_on(tmp_path: Path) -> None:
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://localhost:4318/v1/traces",
        "SENTRY_DSN": "https://key@localhost/1",
    }
    said = manage(tmp_path, "check", "--fail-level", "WARNING", ADDONS="none", **variables)
    ignored = "set, but ignored without the add-on telemetry."
    assert f"(callerid.W003) {', '.join(variables)}: {ignored}" in said
    everything = manage(tmp_path, "check", ADDONS="telemetry", **variables)
    assert everything == "System check identified no issues (0 silenced).\n"


@pytest.fixture
def serving_env(serve: Callable[..., Service]) -> dict[str, str]:
    return serve().env
