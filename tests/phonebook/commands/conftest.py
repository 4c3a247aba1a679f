"""Fixtures of the import commands."""

from tests.phonebook.commands.imports import file, no_pause

__all__ = ["file", "no_pause"]
