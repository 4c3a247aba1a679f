"""The console's pages about numbers and sources."""

from lookup.admin import numbers, sources

__all__ = ["numbers", "sources"]
