"""Whether commits complete, by what PostgreSQL shows to any role and without writing anything.

Where `synchronous_standby_names` is set, a commit waits until enough standbys confirm it, for as long as that takes:
`statement_timeout` does not end this wait. A server process waits on even after its client has given up, so sessions
that wait are still seen when no request is in progress. What else delays a commit, such as the disk of the write-ahead
log, is seen by the server's processes whose commit was late for this process: while one is there, it is not complete.
"""

import re
from typing import Any, NamedTuple

from core import commits, db
from core.database_errors import explain_read_only

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
        AND state_change < clock_timestamp() - interval '{MAX_COMMIT_WAIT_S} seconds'),
    EXISTS (SELECT FROM pg_stat_activity WHERE pid = ANY(%s::integer[])
        AND backend_start < clock_timestamp() - make_interval(secs => %s))
"""  # noqa: S608
#: As in PostgreSQL's documentation: `[FIRST | ANY] number (names)`, or only names, of which one must confirm.
_NUMBER = re.compile(r"\s*(?:(?:FIRST|ANY)\s+)?([0-9]+)\s*\(", re.IGNORECASE)


class _State(NamedTuple):
    read_only: bool
    #: The value of synchronous_standby_names; empty where commits wait for none.
    names: str
    connected: int
    waiting: bool
    late: bool


def commit_problem() -> str | None:
    """One sentence about why commits do not complete, or None. Raises django.db's errors."""
    return _problem(_State(*db.fetch_one(_STATE, _parameters())))


def observe_commits() -> None:
    """Suspend or resume commits by what `commit_problem` finds. Raises django.db's errors."""
    _observe(_State(*db.fetch_one(_STATE, _parameters())))


async def aobserve_commits() -> str | None:
    """As `observe_commits`, on the event loop, and returns what `commit_problem` does; on SQLite None. If the server
    accepts no writes, later statements use new connections."""
    if db.VENDOR == "sqlite":
        return None
    state = _State(*await db.afetch_one(_STATE, _parameters()))
    if state.read_only and db.pool is not None:
        db.pool.close()
    _observe(state)
    return _problem(state)


async def require_commits() -> None:
    """Before a search begins one. Raises commits.CommitsSuspended if the server says that they do not complete. It is
    only asked while they are suspended."""
    if commits.process_commits.are_suspended:
        await aobserve_commits()
        commits.process_commits.require()


def _parameters() -> list[Any]:
    """A process that began after the last late commit is another one with the same id, as after a restart."""
    return [list(commits.process_commits.late_processes), commits.process_commits.late_s()]


def _observe(state: _State) -> None:
    # Of standbys, a role may not see all.
    is_certain = state.read_only or state.waiting or state.late
    commits.process_commits.observed(_problem(state) if is_certain else None)


def _problem(state: _State) -> str | None:
    required = required_standbys(state.names)
    if state.read_only:
        return explain_read_only()
    if state.connected < required:
        return f"Commits wait for {required} synchronous standbys, of which {state.connected} are connected"
    if state.waiting:
        return "Commits wait for a synchronous standby that does not confirm them"
    return commits.LATE_COMMIT if state.late else None


def required_standbys(names: str) -> int:
    """How many standbys must confirm a commit, by the value of synchronous_standby_names."""
    if not names.strip():
        return 0
    match = _NUMBER.match(names)
    return int(match[1]) if match else 1
