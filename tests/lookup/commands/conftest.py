"""Fixtures of the import commands."""

from tests.lookup.commands.imports import file, no_pause

__all__ = ["file", "no_pause"]
