"""The console's pages of contacts, complaints and rules."""

from phonebook.admin import numbers

__all__ = ["numbers"]
