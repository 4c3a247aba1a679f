"""Checks that every token's balance agrees with its ledger, and that transfers have two entries."""

from dataclasses import dataclass
from datetime import UTC, datetime

from core import db

#: How the runs are recorded: of the whole ledger, and of its newest entries.
TASK, TASK_SINCE = "audit_credits", "audit_credits --since"


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A token whose balance does not agree with its ledger.

    `ledger_sum`: the sum of all amounts; None when only the newest entries were checked. `newest_balance`: the
    `balance_after` of its newest entry (None: it has no entry). `first_wrong_row`: the id of the first entry whose
    `balance_after` is not the previous balance plus its amount.
    """

    token_id: int
    name: str
    credits: int
    ledger_sum: int | None
    newest_balance: int | None = None
    first_wrong_row: int | None = None


# `before`: the balance before each entry, which is the previous entry's balance_after. Before a token's first entry it
# is 0 when the whole ledger is read; when only the newest entries are, it is derived from the entry itself.
_AUDIT = """
WITH entry AS (
    SELECT id, token_id, amount, balance_after,
           LAG(balance_after, 1, {before}) OVER by_token AS before,
           LEAD(id) OVER by_token AS next_id
    FROM accounts_creditentry {which}
    WINDOW by_token AS (PARTITION BY token_id ORDER BY id)
), ledger AS (
    SELECT token_id, CAST(SUM(amount) AS BIGINT) AS total,
           MAX(CASE WHEN next_id IS NULL THEN balance_after END) AS newest,
           MIN(CASE WHEN balance_after <> before + amount THEN id END) AS wrong
    FROM entry GROUP BY token_id
)
SELECT t.id, t.name, t.credits, {total}, l.newest, l.wrong
FROM accounts_apitoken t {join} JOIN ledger l ON l.token_id = t.id
WHERE t.credits < 0 OR t.credits <> {total} OR t.credits <> l.newest OR l.wrong IS NOT NULL
ORDER BY t.id
"""
_AUDIT_ALL = _AUDIT.format(before="0", which="", join="LEFT", total="COALESCE(l.total, 0)")
# Starts at an id and not at a time: entries are ordered by id, and times may not be in that order (a search takes its
# time before it locks its token). So it starts at the smallest id of that time or later.
# `id + 0` is in no index: for MIN(id) PostgreSQL might scan the primary key, and so most of the ledger, until an entry
# matches; this way it scans the index on created_at from there on, which is about the entries to check.
_AUDIT_SINCE = _AUDIT.format(
    before="balance_after - amount",
    which="WHERE id >= (SELECT MIN(id + 0) FROM accounts_creditentry WHERE created_at >= %s)",
    join="",
    total="NULL",
)


def audit(*, since: datetime | None = None) -> list[Disagreement]:
    """All tokens whose balance is negative, is not the sum of their entries or is not the balance of the newest one, or
    that have an entry whose `balance_after` is not the previous one plus its amount.

    One statement, so one snapshot: safe while serving. It sorts the whole ledger (docs/ledger.md has figures).
    `since`: checks only the entries from that time on, beginning with the smallest id among them, and only their
    tokens; the balance before them is not checked.

    The ids of a token's entries are in the order of its changes: a change of the balance locks the token's row until
    the commit (SQLite: the database), and takes the id from the sequence after that. In the statement of a search too:
    the entry is selected from the UPDATE. The sequence must not cache ids (PostgreSQL's default is CACHE 1), or
    sessions would take them out of order.
    """
    rows = db.fetch(_AUDIT_ALL) if since is None else db.fetch(_AUDIT_SINCE, [since])
    return [Disagreement(*row) for row in rows]


# The conditions on `kind` and `reference` that other ones imply are those of the partial indexes. The order makes
# SQLite use one of them too.
_UNPAIRED = """
SELECT e.id FROM accounts_creditentry e
WHERE NOT (e.kind = 'search') AND e.kind = 'transfer' AND e.created_at >= %s AND (
    SELECT COUNT(*) FROM accounts_creditentry c
    WHERE c.reference = e.reference AND NOT (c.reference = '') AND c.kind = 'transfer'
    AND c.token_id = e.other_token_id AND c.other_token_id = e.token_id AND c.token_id <> e.token_id
    AND c.amount = -e.amount
) <> 1
ORDER BY e.created_at, e.id
"""


def unpaired_transfers(*, since: datetime | None = None) -> list[int]:
    """The ids of the ledger entries of transfers that have not exactly one counterpart: an entry of the other token
    that names this one, with the same reference and the negative amount. `since`: only entries from that time on.

    That both tokens had one customer is checked when credits are moved, and not here: a token may later be given to
    another customer.
    """
    return [entry_id for (entry_id,) in db.fetch(_UNPAIRED, [since or datetime.min.replace(tzinfo=UTC)])]
