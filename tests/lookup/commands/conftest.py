"""Fixtures of the vendors, for the commands that ask them."""

from tests.lookup.connectors.conftest import vendors

__all__ = ["vendors"]
