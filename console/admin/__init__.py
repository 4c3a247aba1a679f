"""The console's pages of users, roles and history."""

from console.admin import history, users

__all__ = ["history", "users"]
