"""The console's pages of customers, tokens and the ledger."""

from accounts.admin import customers, ledger, tokens

__all__ = ["customers", "ledger", "tokens"]
