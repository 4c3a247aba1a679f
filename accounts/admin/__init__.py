"""The console's pages of tokens and credits: parse, call the verbs, and show. Only the verbs change a balance."""

from accounts.admin import ledger, notices, tokens

__all__ = ["ledger", "notices", "tokens"]
