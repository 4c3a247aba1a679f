"""The console's pages of alerts, notices, the request log and sources."""

from monitoring.admin import incidents, notices, requests, sources

__all__ = ["incidents", "notices", "requests", "sources"]
