"""Metrics of this process's pool of PostgreSQL connections; all are 0 without one."""

from django.db import DEFAULT_DB_ALIAS, connections

from core import metrics

SIZE = metrics.Gauge("callerid_database_pool_connections", "Open PostgreSQL connections of the pools.")
IN_USE = metrics.Gauge("callerid_database_pool_connections_in_use", "Connections of the pools that a thread holds.")
MAXIMUM = metrics.Gauge("callerid_database_pool_connections_max", "Connections that the pools may open.")
WAITING = metrics.Gauge("callerid_database_pool_waiting_threads", "Threads that wait for a connection of a pool.")
TIMEOUTS = metrics.Counter("callerid_database_pool_timeouts", "Requests that got no connection of a pool in time.")


@metrics.sampler
def sample() -> None:
    pool = getattr(connections[DEFAULT_DB_ALIAS], "pool", None)
    stats = pool.pop_stats() if pool is not None else {}
    SIZE.set(stats.get("pool_size", 0))
    IN_USE.set(stats.get("pool_size", 0) - stats.get("pool_available", 0))
    MAXIMUM.set(stats.get("pool_max", 0))
    WAITING.set(stats.get("requests_waiting", 0))
    TIMEOUTS.inc(by=stats.get("requests_errors", 0))
