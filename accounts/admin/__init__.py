"""The console's pages of tokens, ledger and notices."""

from accounts.admin import ledger, notices, tokens

__all__ = ["ledger", "notices", "tokens"]
