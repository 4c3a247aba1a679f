"""`/metrics` for Prometheus, and the metrics of HTTP requests and of the pool of PostgreSQL connections. Other modules
declare their own (core.metrics)."""

import platform
import tomllib
from ipaddress import ip_address

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse

from core import db, metrics
from core.client_address import client_address
from monitoring import task_runs  # noqa: F401  (its sampler)
from monitoring.health.probes import Probe

PAGES = {"search-slash": "search", "livez": "health", "readyz": "health", "metrics": "metrics", "search": "search"}

DURATION = metrics.Histogram(
    "callerid_http_request_duration_seconds",
    "Durations of requests, the time in the queue included.",
    ("page", "status"),
    zeros=[("search", "2xx"), ("search", "5xx")],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 1.5, 2, 5),
)
BUILD = metrics.Gauge("callerid_build_info", "1, with the version as a label.", ("version", "python"))
_project = tomllib.loads((settings.BASE_DIR / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BUILD.set(1, str(_project["version"]), platform.python_version())

#: Of the pool of PostgreSQL connections; all are 0 without one.
POOL_SIZE = metrics.Gauge("callerid_database_pool_connections", "Open PostgreSQL connections of the pool.")
POOL_IN_USE = metrics.Gauge("callerid_database_pool_connections_in_use", "Those that run a statement.")
POOL_MAXIMUM = metrics.Gauge("callerid_database_pool_connections_max", "Connections that the pool may open.")


@metrics.sampler
def sample_pool() -> None:
    connections, idle, maximum = db.pool.sizes() if db.pool else (0, 0, 0)
    POOL_SIZE.set(connections)
    POOL_IN_USE.set(connections - idle)
    POOL_MAXIMUM.set(maximum)


def observe_request(view_name: str, status: int, duration_s: float, *, in_test_mode: bool) -> None:
    """`view_name`: as Django resolved it; empty for an unknown path. `in_test_mode`: a search with a test token."""
    page = PAGES.get(view_name) or ("console" if view_name.startswith("admin:") else "other")
    if in_test_mode:
        page = "test"
    DURATION.observe(duration_s, page, f"{status // 100}xx")


class Metrics(Probe):
    async def get(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(metrics.render(), content_type=metrics.CONTENT_TYPE)


_view = Metrics.as_view()


async def view(request: HttpRequest) -> HttpResponse:
    """The metrics for METRICS_NETWORKS; to others, whatever their method, there is no such page."""
    # By a proxy, or made up by a client that reaches this port.
    is_forwarded = "HTTP_X_FORWARDED_FOR" in request.META or "HTTP_FORWARDED" in request.META
    address = ip_address(client_address(request))
    if is_forwarded or not any(address in network for network in settings.METRICS_NETWORKS):
        raise Http404
    return await _view(request)  # type: ignore[misc]
