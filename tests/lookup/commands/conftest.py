"""Fixtures of the vendors, for the commands that ask them, and of files, for those that import."""

from tests.lookup.commands.imports import file, no_pause
from tests.lookup.connectors.conftest import vendors

__all__ = ["file", "no_pause", "vendors"]
