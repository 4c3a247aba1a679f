"""Low-balance notices: rows of the outbox, written in the transaction that changes the balance. `send_notices` sends
them (monitoring.notices)."""

from datetime import datetime

from django.conf import settings

from core.db import run

#: The low-balance rule: a notice is due when a change takes the balance from above the threshold down to it or below.
#: The token's contact is notified, or else those of its customer; and the customer's webhook. `{debited}`: the token
#: after the change. Parameters: created_at, due_at, the change, whether a webhook of ours is notified too, whether
#: notices are on.
WRITE_IF_LOW = """
INSERT INTO accounts_notice (token_id, threshold, balance, created_at, due_at, attempts, outcome)
SELECT id, low_balance_at, credits, %s, %s, 0, '' FROM {debited}
WHERE credits <= low_balance_at AND low_balance_at < credits - %s AND (contact <> '' OR %s OR EXISTS (
    SELECT 1 FROM accounts_customercontact AS notified
    WHERE notified.customer_id = {debited}.customer_id AND notified.low_balance
) OR EXISTS (
    SELECT 1 FROM accounts_customerwebhook AS webhook WHERE webhook.customer_id = {debited}.customer_id
)) AND %s
"""
_WRITE_IF_TOKEN_LOW = WRITE_IF_LOW.format(debited="accounts_apitoken") + "AND id = %s"


def write_if_low(*, token_id: int, change: int, at: datetime) -> None:
    """Write a notice if `change` (signed, already in the balance) took the balance down to the token's threshold.

    On PostgreSQL a search's debit does the same within its own statement, by WRITE_IF_LOW.
    """
    if settings.LOW_BALANCE_NOTICES:
        run(_WRITE_IF_TOKEN_LOW, [at, at, change, *low_balance_parameters(), token_id])


def low_balance_parameters() -> tuple[bool, bool]:
    """The last two parameters of WRITE_IF_LOW."""
    return bool(settings.ALERT_WEBHOOK_URLS), settings.LOW_BALANCE_NOTICES
