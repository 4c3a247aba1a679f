"""Metrics of the pool of PostgreSQL connections; all are 0 without one."""

from core import database, metrics

SIZE = metrics.Gauge("callerid_database_pool_connections", "Open PostgreSQL connections of the pool.")
IN_USE = metrics.Gauge("callerid_database_pool_connections_in_use", "Connections of the pool that run a statement.")
MAXIMUM = metrics.Gauge("callerid_database_pool_connections_max", "Connections that the pool may open.")


@metrics.sampler
def sample() -> None:
    connections, idle, most = database.backend.sizes()
    SIZE.set(connections)
    IN_USE.set(connections - idle)
    MAXIMUM.set(most)
