"""What operators do with a source: pause and resume it, and check it by a real call."""

import asyncio
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.module_loading import import_string

from core import history, loop, periods
from core.commands import command_line
from core.field_errors import FieldError
from core.text import clean_text
from lookup import answers, signals
from lookup.answers import Answer, Failed, Found, NotFound
from lookup.connectors.base import call_connector, covers
from lookup.connectors.registry import BoundSource
from lookup.models import SourceCheck, SourcePause
from lookup.search import SLOTS, bound_sources
from lookup.vendors import SAMPLES, preset

# Reserved for fiction by the North American Numbering Plan; enough to tell a working key from an invalid one.
NUMBER = "12025550123"
#: How long a check waits for a call at most. CALL_LIFETIME_S ends the call earlier, but for a thread that hangs.
MAX_CALL_S = 30.0
#: A source is checked from the console at most once in this time: a double click must not make two calls.
CHECK_INTERVAL = timedelta(seconds=10)


def configured() -> dict[str, BoundSource]:
    """The sources of both slots, by name."""
    return {source.name: source for slot in SLOTS for source in bound_sources(slot)}


def call_price(slot: str, name: str, *, remote: bool) -> Decimal | None:
    """Of one call of the source in `slot`, in CURRENCY; None if none is set."""
    prices: dict[str, Decimal] = getattr(settings, f"{SLOTS[slot][0]}_PRICE")
    return prices.get(name, prices.get("*")) if remote else Decimal(0)


def described(pause: SourcePause, now: datetime | None = None) -> str:
    """`by olga since 13:31: invoice unpaid`. `now`: None in a text that is kept, for the whole date."""
    at = periods.time_of_day(pause.paused_at, now) if now else periods.shown(pause.paused_at)
    return f"by {pause.paused_by} since {at}: {pause.reason.rstrip('.')}"


def slots_without_others(name: str) -> list[str]:
    """The slots in which no source is called any more once `name` is paused beside those that are."""
    paused = set(SourcePause.objects.values_list("connector", flat=True))
    bound = {slot: {source.name for source in bound_sources(slot)} for slot in SLOTS}
    return [slot for slot, names in bound.items() if name in names and names <= {*paused, name}]


def pause(*, name: str, reason: str, user: AbstractBaseUser | None = None) -> SourcePause:
    """Pause the source in all processes, and record it in the History. `user` None: whoever runs this command.

    Raises ValueError, and changes nothing, for a source that is not configured or is paused, and without a reason.
    """
    if name not in configured():
        raise ValueError(f"{name} is not configured. Sources: {', '.join(configured())}.")
    if not (reason := clean_text(reason)):
        raise FieldError("Enter a reason.", "reason")
    actor = user.get_username() if user else history.command_actor()
    with transaction.atomic():
        row, is_new = SourcePause.objects.get_or_create(
            connector=name, defaults={"reason": reason, "paused_by": actor, "paused_at": timezone.now()}
        )
        if not is_new:
            raise ValueError(f"{name} is already paused {described(row)}.")
        _record(name, f"Paused. {reason}", user)
        signals.paused.send(sender=SourcePause, pause=row)
    return row


def resume(*, name: str, reason: str = "", user: AbstractBaseUser | None = None) -> None:
    """Have the source called again, and record it in the History. It may be one that is no longer configured.

    Raises ValueError if it is not paused.
    """
    with transaction.atomic():
        pause = SourcePause.objects.filter(pk=name).first()
        if pause is None or not SourcePause.objects.filter(pk=name).delete()[0]:
            raise ValueError(f"{name} is not paused.")
        signals.resumed.send(sender=SourcePause, pause=pause)
        _record(name, f"Resumed. {clean_text(reason)}".strip(), user)


def _record(name: str, message: str, user: AbstractBaseUser | None) -> None:
    history.record(action=history.Action.CHANGE, model=SourcePause, name=name, message=message, user=user)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """`ok`: whether a search could use the answer. `ms`: None if no call was made. `answer`: the known fields. `fix`:
    what an operator can do; may be empty."""

    source: str
    outcome: str
    ok: bool
    ms: float | None
    answer: dict[str, Any]
    fix: str


def call(source: BoundSource, number: str = NUMBER) -> CheckResult:
    """Look `number` up by a real call, without cache, circuit breaker and pause; the vendor may bill it. Takes at most
    MAX_CALL_S if the source is remote."""
    name, connector = source.name, source.connector
    other = f"use {command_line('check_sources --number NUMBER')}"
    if not covers(name, connector, number):
        fix = f"no call was made: the source does not cover the number; {other}"
        return CheckResult(name, "not covered", True, None, {}, fix)
    started = time.monotonic()
    answer = loop.run(ask(source, number))
    elapsed_s = time.monotonic() - started
    ms = round(elapsed_s * 1000, 1)
    if isinstance(answer, Failed):
        return CheckResult(name, answer.reason, False, ms, {}, answer.hint)
    max_wait_s = min(settings.SEARCH_DEADLINE_S, connector.max_wait_s or 60.0)
    fix = f"too slow: a search waits {max_wait_s:g} s" if elapsed_s > max_wait_s else ""
    ok = not fix
    known = answer.known() if isinstance(answer, Found) else {}
    outcome = answer.reason.replace("_", " ") if isinstance(answer, NotFound) else answer.outcome
    if outcome == "invalid number" and ok:
        fix = f"the source rejects the number; {other}"
    return CheckResult(name, outcome, ok, ms, known, fix)


async def ask(source: BoundSource, number: str) -> Answer:
    """The answer about a number that the source covers, as `call` gets it."""
    timeout_s = settings.CALL_LIFETIME_S if source.connector.remote else settings.SEARCH_DEADLINE_S
    call = asyncio.create_task(call_connector(source.name, source.connector, number, timeout_s=timeout_s))
    await asyncio.wait([call], timeout=MAX_CALL_S)
    return call.result() if call.done() else Failed("unavailable", f"no answer within {MAX_CALL_S:g} s")


class CheckedRecently(Exception):
    """A check of this source is under way or has just ended."""


def check(*, name: str, user: AbstractBaseUser) -> CheckResult:
    """Call the source once, read its preset's samples, and keep the result in SourceCheck, for the console.

    The check is claimed in the database before the call, so that concurrent ones, in any process, make no second call.
    No transaction is open and no connection is held during the call. Raises ValueError for a source that is not
    configured, and CheckedRecently, before any call.
    """
    if (source := configured().get(name)) is None:
        raise ValueError(f"{name} is not configured.")
    now, actor = timezone.now(), user.get_username()
    long_ago = now - timedelta(days=1)
    first = SourceCheck(connector=name, started_by=actor, started_at=long_ago, finished_at=long_ago)
    SourceCheck.objects.bulk_create([first], ignore_conflicts=True)
    abandoned = Q(finished_at=None, started_at__lt=now - timedelta(seconds=MAX_CALL_S) - CHECK_INTERVAL)
    free = SourceCheck.objects.filter(Q(finished_at__lt=now - CHECK_INTERVAL) | abandoned, pk=name)
    if not free.update(started_by=actor, started_at=now, finished_at=None, result={}):
        raise CheckedRecently(name)
    result = call(source)
    kept = {
        "outcome": answers.clean_outcome(result.outcome.replace(" ", "_")).replace("_", " "),
        "ok": result.ok,
        "ms": result.ms,
        "fields": sorted(result.answer),
        "fix": answers.clean_hint(result.fix),
        "samples": _samples(source),
    }
    with transaction.atomic():
        SourceCheck.objects.filter(pk=name, started_at=now).update(finished_at=timezone.now(), result=kept)
        how = "without a call" if result.ms is None else "by a call"
        duration = "" if result.ms is None else f" in {result.ms:,.1f} ms"
        _record(name, f"Checked {how}: {kept['outcome']}{duration}.", user)
    return result


def _samples(source: BoundSource) -> list[dict[str, Any]]:
    """The title of each of a preset's samples, and what is wrong with it."""
    loaded = getattr(source.connector, "preset", None)
    if not isinstance(loaded, preset.Preset):
        return []
    results = [each for path in SAMPLES for each in import_string(path)(loaded)]
    return [{"title": title, "problem": answers.clean_hint(problem)} for title, problem in results]
