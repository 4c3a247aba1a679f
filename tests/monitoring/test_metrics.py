"""/metrics: who may read it, and what it counts in one process."""

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts import credits
from accounts.models import CreditEntry
from callerid_project import asgi  # noqa: F401  (imports all modules that declare metrics)
from core import metrics
from tests.account_fixtures import tokens_of_one_customer
from tests.api import Integrator
from tests.metrics import here
from tests.plugin import ROOT


def headers(answer: Any) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name != "X-Request-ID"}


@pytest.mark.parametrize("method", ["get", "head", "post", "options", "delete"])
@pytest.mark.parametrize("path", ["/metrics", "/metrics/"])
def test_another_network_gets_the_ordinary_404(method: str, path: str) -> None:
    client = Client(enforce_csrf_checks=True)
    refused = getattr(client, method)(path, REMOTE_ADDR="198.51.100.7")
    unknown = getattr(client, method)("/nowhere", REMOTE_ADDR="198.51.100.7")
    assert refused.status_code == 404
    assert (refused.content, headers(refused)) == (unknown.content, headers(unknown))


@pytest.mark.parametrize(
    ("proxies", "networks", "peer", "forwarded", "status"),
    [
        (0, None, "127.0.0.1", "", 200),
        (0, None, "::1", "", 200),
        (0, None, "::ffff:127.0.0.1", "", 200),
        (0, None, "10.1.2.3", "", 404),
        (0, ["10.0.0.0/8"], "10.1.2.3", "", 200),
        (0, ["10.0.0.0/8"], "127.0.0.1", "", 404),
        (1, None, "127.0.0.1", "198.51.100.7", 404),
        (1, None, "127.0.0.1", "127.0.0.1, 198.51.100.7", 404),
        (1, ["198.51.100.0/24"], "127.0.0.1", "198.51.100.7", 404),
        (1, None, "10.1.2.3", "127.0.0.1", 404),
        (1, None, "127.0.0.1", "", 200),
        (0, None, "127.0.0.1", "198.51.100.7", 404),
        (0, None, "", "", 404),
    ],
)
def test_only_clients_in_the_networks_read_metrics(
    settings: Any, proxies: int, networks: list[str] | None, peer: str, forwarded: str, status: int
) -> None:
    settings.TRUSTED_PROXIES = proxies
    if networks is not None:
        from callerid_project.settings import env

        settings.METRICS_NETWORKS = env.networks("NOT_SET", networks)
    sent: Any = {"headers": {"X-Forwarded-For": forwarded}} if forwarded else {}
    assert Client().get("/metrics", REMOTE_ADDR=peer, **sent).status_code == status


def test_a_scrape_queries_no_database(db: None, client: Client) -> None:
    with CaptureQueriesContext(connection) as queries:
        answer = client.get("/metrics")
    assert (answer.status_code, answer["Content-Type"]) == (200, metrics.CONTENT_TYPE)
    assert len(queries) == 0


@pytest.mark.django_db(transaction=True)
def test_credits_are_counted_once_they_are_committed(integrator: Integrator) -> None:
    before = here()
    assert integrator.search(Idempotency_Key="k").status_code == 200
    assert integrator.search(Idempotency_Key="k").headers["Idempotent-Replayed"] == "true"
    entry = CreditEntry.objects.get(token=integrator.token, kind="search")
    credits.refund(entry=entry, actor="test", reason="test")
    credits.top_up(token=integrator.token, amount=7, actor="test", reason="test", reference="r")
    credits.top_up(token=integrator.token, amount=7, actor="test", reason="test", reference="r")
    credits.adjust(token=integrator.token, amount=-3, actor="test", reason="test")
    with pytest.raises(credits.NotRefundable):
        credits.refund(entry=entry, actor="test", reason="again")
    one, other = tokens_of_one_customer(5, 0)
    for _ in range(2):
        credits.transfer(from_token=one, to_token=other, amount=4, actor="test", reason="test", reference="r")
    after = here()
    changed = {
        kind: after.of("callerid_credits_total", kind=kind) - before.of("callerid_credits_total", kind=kind)
        for kind in ("search", "refund", "top-up", "transfer", "adjustment-up", "adjustment-down")
    }
    up_and_down = {"adjustment-up": 0, "adjustment-down": 3}
    assert changed == {"search": 1, "refund": 1, "top-up": 7, "transfer": 4, **up_and_down}
    for outcome in ("found_both", "replayed"):
        name = "callerid_searches_total"
        assert after.of(name, outcome=outcome) == before.of(name, outcome=outcome) + 1


def test_a_reason_of_an_own_connector_is_no_label(integrator: Integrator, settings: Any) -> None:
    settings.SOURCE_A = settings.SOURCE_B = "tests.connectors.Fails"  # with the reason `down`
    before = here()
    assert integrator.search().status_code == 500
    name, source = "callerid_source_lookups_total", "tests.connectors.Fails"
    after = here()
    assert after.of(name, source=source, outcome="other") == before.of(name, source=source, outcome="other") + 2
    assert after.of(name, source=source, outcome="down") == 0


def test_the_documented_metrics_are_those_that_exist() -> None:
    table = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(callerid_\w+)` \| (\w+) \| (.*?) ?\| (?!\s*\|)", table, re.MULTILINE)
    documented = {name: (kind, tuple(re.findall(r"\w+", labels))) for name, kind, labels in rows}
    existing = {
        metric.name + ("_total" if metric.kind == "Counter" else ""): (metric.kind.lower(), metric.labels)
        for metric in metrics.declared
        if metric.name.startswith("callerid_")
    }
    assert documented == existing
