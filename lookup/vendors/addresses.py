"""The address policy of vendor calls: core.addresses."""

from core.addresses import AddressNotAllowed, AddressPolicy, require_allowed

__all__ = ["AddressNotAllowed", "AddressPolicy", "require_allowed"]
