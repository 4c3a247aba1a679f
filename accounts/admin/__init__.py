"""The console's pages of tokens, ledger and notices."""

from accounts.admin import customers, ledger, notices, tokens

__all__ = ["customers", "ledger", "notices", "tokens"]
