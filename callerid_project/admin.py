"""Registers the console's pages of users, roles and history. Django's admin autodiscovery imports this module."""

from callerid_project.console import history, users

__all__ = ["history", "users"]
