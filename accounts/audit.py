"""Proves that every token's balance is what its ledger says."""

from dataclasses import dataclass
from datetime import datetime

from django.db import connection


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A token whose balance is not what its ledger says.

    `ledger_sum`: of all its rows' amounts; None when only the newest rows were checked. `newest_balance`: what its
    newest row says (None: it has no row). `first_wrong_row`: the first whose `balance_after` is not the balance before
    it plus its amount.
    """

    token_id: int
    name: str
    credits: int
    ledger_sum: int | None
    newest_balance: int | None = None
    first_wrong_row: int | None = None


# `before`: the balance before each row, which is the previous row's balance_after. Of a token's first row it is 0 when
# the whole ledger is read; when only the newest rows are, it is taken from the row itself.
_AUDIT = """
WITH line AS (
    SELECT id, token_id, amount, balance_after,
           LAG(balance_after, 1, {before}) OVER by_token AS before,
           LEAD(id) OVER by_token AS next_id
    FROM accounts_creditentry {which}
    WINDOW by_token AS (PARTITION BY token_id ORDER BY id)
), ledger AS (
    SELECT token_id, SUM(amount) AS total,
           MAX(CASE WHEN next_id IS NULL THEN balance_after END) AS newest,
           MIN(CASE WHEN balance_after <> before + amount THEN id END) AS wrong
    FROM line GROUP BY token_id
)
SELECT t.id, t.name, t.credits, {total}, l.newest, l.wrong
FROM accounts_apitoken t {join} JOIN ledger l ON l.token_id = t.id
WHERE t.credits < 0 OR t.credits <> {total} OR t.credits <> l.newest OR l.wrong IS NOT NULL
ORDER BY t.id
"""
_AUDIT_ALL = _AUDIT.format(before="0", which="", join="LEFT", total="COALESCE(l.total, 0)")
# From a row on, not from a time on: rows are in the order of their ids, and their times may not be (a search takes its
# time before it locks its token). So it begins at the smallest id of that time or later, not at the earliest time.
# `id + 0` is in no index: for MIN(id) PostgreSQL may read the table from its first id on until one fits, which is most
# of the ledger; this reads the index of the times from there on, which are about the rows to check.
_AUDIT_SINCE = _AUDIT.format(
    before="balance_after - amount",
    which="WHERE id >= (SELECT MIN(id + 0) FROM accounts_creditentry WHERE created_at >= %s)",
    join="",
    total="NULL",
)


def audit(*, since: datetime | None = None) -> list[Disagreement]:
    """Every token whose balance is negative, not the sum of its rows or not what its newest row says, or that has a row
    whose `balance_after` is not the previous row's plus its amount. One statement, so one moment: safe while serving.

    It sorts the whole ledger (docs/production.md has figures). `since`: checks every row of that time or later, with
    all rows of greater ids than the smallest of theirs, and only the tokens that have such rows; the balance before
    them is taken as given.

    A token's rows are in the order of their ids: whoever adds one has locked the token's row by changing its balance,
    takes the id from the sequence after that, and holds the lock until the commit (SQLite: the lock on the database).
    In a search's statement too: the row to insert comes from the UPDATE. The sequence must cache no ids (Django's has
    PostgreSQL's default, CACHE 1), or sessions would take them out of order.
    """
    with connection.cursor() as cursor:
        if since is None:
            cursor.execute(_AUDIT_ALL)
        else:
            cursor.execute(_AUDIT_SINCE, [connection.ops.adapt_datetimefield_value(since)])
        return [
            Disagreement(token_id, name, balance, None if total is None else int(total), newest, wrong)
            for token_id, name, balance, total, newest, wrong in cursor.fetchall()
        ]
