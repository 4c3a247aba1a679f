"""The console's pages about numbers and sources."""

from lookup.admin import numbers, request_log, sources

__all__ = ["numbers", "request_log", "sources"]
