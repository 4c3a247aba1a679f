"""Whether commits complete, by what PostgreSQL shows to any role and without writing anything.

Where `synchronous_standby_names` is set, a commit waits until enough standbys confirm it, for as long as that takes:
`statement_timeout` does not end this wait. A server process waits on even after its client has given up, so sessions
that wait are still seen when no request is in progress.
"""

import re

from core import commits, db
from core.database_errors import READ_ONLY

#: In seconds. A serving process gives a commit up after DB_STATEMENT_TIMEOUT_MS + 0.25 s, by default less than this.
MAX_COMMIT_WAIT_S = 1.0

# Only roles with the rights of pg_read_all_stats see `sync_state`; for others it is NULL, and each connected standby
# counts. In pg_stat_activity each role sees its own sessions.
_STATE = f"""
SELECT current_setting('transaction_read_only') = 'on',
    CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN ''
        ELSE current_setting('synchronous_standby_names') END,
    (SELECT count(*) FROM pg_stat_replication WHERE sync_state IS NULL OR sync_state IN ('sync', 'quorum')),
    EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'
        AND state_change < clock_timestamp() - interval '{MAX_COMMIT_WAIT_S} seconds')
"""  # noqa: S608
#: As in PostgreSQL's documentation: `[FIRST | ANY] number (names)`, or only names, of which one must confirm.
_NUMBER = re.compile(r"\s*(?:(?:FIRST|ANY)\s+)?([0-9]+)\s*\(", re.IGNORECASE)


def commit_problem() -> str | None:
    """One sentence about why commits do not complete, or None. Suspends them where that is certain. Raises django.db's
    errors."""
    return _problem(*db.fetch_one(_STATE))


async def find_commit_problem() -> str | None:
    """As `commit_problem`, on the event loop; None on SQLite. If the server accepts no writes, later statements use new
    connections."""
    if db.VENDOR == "sqlite":
        return None
    read_only, *others = await db.afetch_one(_STATE)
    if read_only and db.pool is not None:
        db.pool.close()
    return _problem(read_only, *others)


async def require_commits() -> None:
    """Before a search begins one. Raises commits.NotBegun if the server says that they do not complete, which is only
    asked while they are suspended."""
    if commits.process_commits.are_suspended:
        await find_commit_problem()
        commits.process_commits.require()


def _problem(read_only: bool, names: str, connected: int, waiting: bool) -> str | None:
    problem = None
    required = required_standbys(names)
    if read_only:
        problem = READ_ONLY
    elif connected < required:
        problem = f"Commits wait for {required} synchronous standbys, of which {connected} are connected"
    elif waiting:
        problem = "Commits wait for a synchronous standby that does not confirm them"
    # Of standbys, a role may not see all.
    if problem and (read_only or waiting):
        commits.process_commits.suspend(problem)
    return problem


def required_standbys(names: str) -> int:
    """How many standbys must confirm a commit, by the value of synchronous_standby_names."""
    if not names.strip():
        return 0
    match = _NUMBER.match(names)
    return int(match[1]) if match else 1
