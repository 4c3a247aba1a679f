"""Searches without an `Idempotency-Key` that were answered with 500 although their debit may have been committed.

The connection broke during the charge, and the ledger could not be read before the deadline. Each process remembers
its own, in memory and as an empty file in the data directory, until the outcome was found and that is durable. A thread
writes them to the table UnknownCharge, from which any process can settle them: refund those that were charged.
"""

import logging
import os
import re
import threading
from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Q
from django.utils import timezone

from accounts import credits, debit
from accounts.models import UnknownCharge
from core import db, loop
from core.background import BackgroundWriter
from core.database_errors import describe
from core.periods import END
from core.retention import delete_in_batches, oldest_kept

log = logging.getLogger(__name__)

FLUSH_INTERVAL_S = 1.0
#: The reason of a refund that no operator made.
ANSWER_LOST = "answer lost"
#: The token's id, microseconds since 1970, and the request id.
_FILE_NAME = re.compile(r"([0-9]{1,18})_([0-9]{1,16})_([A-Za-z0-9._-]{1,64})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LostDebit(NamedTuple):
    """What identifies the debit's ledger entry, if there is one."""

    token_id: int
    charged_at: datetime
    request_id: str


class ChargeSettler(BackgroundWriter):
    """Remembers the unknown charges of one process."""

    def __init__(self, flush_interval_s: float | None = FLUSH_INTERVAL_S) -> None:
        super().__init__(flush_interval_s)
        self._lock = threading.Lock()
        self._pending: set[LostDebit] = set()
        self._failing = self._table_is_settled = False
        #: The rows of UnknownCharge whose refund was refused: each is logged once.
        self._refused: set[int] = set()

    def add(self, lost: LostDebit) -> None:
        """Never raises and never waits for the database."""
        with self._lock:
            self._pending.add(lost)
        try:
            _create_file(lost)
            self.start_thread()
        except Exception as error:
            log.warning("a charge with unknown outcome is kept in memory only (%s)", type(error).__name__)

    def flush(self) -> None:
        """Write to the table what this process and ended ones of this host remember, and settle what is there.

        Never raises: what cannot be settled now stays for the next flush.
        """
        try:
            with self._lock:
                remembered = self._pending | _read_files()
            if remembered:
                _store(remembered)
            elif self._table_is_settled:
                return
            self._table_is_settled = self.settle(remembered)
        except Exception as error:
            if not self._failing:
                log.warning("charges with unknown outcome cannot be settled yet (%s)", describe(error))
            self._failing, self._table_is_settled = True, False
        else:
            self._failing = False

    def settle(self, remembered: Collection[LostDebit] = ()) -> bool:
        """Find the outcome of the searches in the table, the oldest first, refund those that were charged, and forget
        those of `remembered` whose settlement is durable. False when some are left, because another process settles
        them or waits for the commit of its settlement, or because a refund is refused.

        Any number of processes may call it at the same time. Raises django.db's errors.
        """
        keys = {
            "token_id__in": {lost.token_id for lost in remembered},
            "charged_at__in": {lost.charged_at for lost in remembered},
        }
        unsettled = UnknownCharge.objects.filter(Q(outcome=UnknownCharge.Outcome.UNKNOWN) | Q(**keys)).order_by("pk")
        complete = True
        for pk, *key in unsettled.values_list("pk", *LostDebit._fields):
            try:
                if not _settle(pk):
                    return False
                self._forget(LostDebit(*key))
            except credits.ChangeRefused as error:
                complete = False
                if pk not in self._refused:
                    self._refused.add(pk)
                    log.error("unknown charge %d cannot be refunded yet: %s", pk, error)
        return complete

    def _forget(self, lost: LostDebit) -> None:
        with self._lock:
            self._pending.discard(lost)
        with suppress(OSError):
            _file(lost).unlink(missing_ok=True)


#: This process's. Tests replace it.
settler = ChargeSettler()


def count(
    since: datetime | None = None, token_ids: Collection[int] | None = None, *, until: datetime = END
) -> dict[str, int]:
    """How many there are by outcome (UnknownCharge.Outcome). `since`, `until`: without those settled before or after,
    so that the refunded ones are of the period of their refunds. `token_ids`: of these tokens only."""
    charges = UnknownCharge.objects.all()
    if since is not None:
        settled = Q(settled_at__gte=since, settled_at__lt=until)
        charges = charges.filter(settled | Q(outcome=UnknownCharge.Outcome.UNKNOWN))
    if token_ids is not None:
        charges = charges.filter(token__in=token_ids)
    return dict(charges.values_list("outcome").annotate(Count("pk")).order_by())


def prune() -> int:
    """Delete settled ones older than KEPT_DAYS; returns how many."""
    return delete_in_batches(UnknownCharge.objects.filter(settled_at__lt=oldest_kept()), 5_000)


def _settle(pk: int) -> bool:
    """False when another process has locked it; otherwise its settlement, perhaps another process's, is durable.
    Raises credits.ChangeRefused."""
    with transaction.atomic():
        # skip_locked: while a standby hangs, the first settlement's COMMIT holds this lock, and each waiter would hold
        # a connection. The lock also makes this COMMIT wait for a synchronous standby to have an earlier settlement.
        charge = UnknownCharge.objects.select_for_update(skip_locked=True).filter(pk=pk).first()
        if charge is None or charge.outcome != UnknownCharge.Outcome.UNKNOWN:
            return charge is not None
        entry = debit.close_debit(charge.token_id, charge.charged_at, charge.request_id)
        charge.outcome = UnknownCharge.Outcome.NOT_CHARGED
        if entry is not None:
            charge.outcome = UnknownCharge.Outcome.REFUNDED
            with suppress(credits.NotRefundable):  # an operator has refunded it
                credits.refund(entry=entry, actor="", reason=ANSWER_LOST)
        charge.settled_at = timezone.now()
        charge.save(update_fields=["outcome", "settled_at"])
        return True


def _store(debits: Collection[LostDebit]) -> None:
    """A commit that waits for a standby, as the lost one perhaps does, would keep its connection until that is back.
    This one does not wait (db.insert_statement), and is made while commits are suspended too: the process remembers
    what is not settled."""
    rows = [(*lost, UnknownCharge.Outcome.UNKNOWN.value) for lost in debits]
    statement = db.insert_statement(UnknownCharge, (*LostDebit._fields, "outcome"), rows, "ON CONFLICT DO NOTHING")
    loop.run(db.afetch_untraced(*statement))


# --- Files -----------------------------------------------------------------------------------------------------------
# Empty: the name says all. Several processes may write the same one to the table, and delete it, at the same time.


def _directory() -> Path:
    return settings.DATA_DIR / "unknown-charges"


def _file(lost: LostDebit) -> Path:
    return _directory() / f"{lost.token_id}_{(lost.charged_at - _EPOCH) // timedelta(microseconds=1)}_{lost.request_id}"


def _create_file(lost: LostDebit) -> None:
    """Raises OSError."""
    _directory().mkdir(mode=0o700, parents=True, exist_ok=True)
    _file(lost).touch(mode=0o600)
    directory = os.open(_directory(), os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _read_files() -> set[LostDebit]:
    """Without files of other kinds."""
    try:
        matches = [_FILE_NAME.fullmatch(file.name) for file in _directory().iterdir()]
    except OSError:
        return set()
    return {
        LostDebit(int(match[1]), _EPOCH + timedelta(microseconds=int(match[2])), match[3]) for match in matches if match
    }
