"""The console's pages of tokens, ledger, notices and alerts."""

from accounts.admin import customers, incidents, ledger, notices, tokens

__all__ = ["customers", "incidents", "ledger", "notices", "tokens"]
