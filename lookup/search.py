"""One search: the operator's rule first, then both slots under one deadline."""

import contextvars
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache

from django.conf import settings
from django.db import connection

from lookup import rules
from lookup.answers import Answer, Failed, Found, NotFound
from lookup.connectors.base import Connector
from lookup.connectors.chain import Inquiry
from lookup.connectors.registry import bind

#: Each slot's name in the answer, the setting that binds it, and the fields that it may have.
SLOTS = {
    "source_a": ("SOURCE_A", frozenset({"name", "location"})),
    "source_b": ("SOURCE_B", frozenset({"name", "spam"})),
}
REMOTE_THREADS = 32


class AllSourcesFailed(Exception):
    """Neither slot could tell: an outage, which is not sold as "nobody knows this number"."""


@dataclass(frozen=True, slots=True)
class SlotResult:
    answer: Answer
    elapsed_s: float

    @property
    def word(self) -> str:
        """`found`, `not-found` or `failed`."""
        return _WORDS[type(self.answer)]


_WORDS = {Found: "found", NotFound: "not-found", Failed: "failed"}


@dataclass(frozen=True, slots=True)
class SearchResult:
    number: str
    slots: dict[str, SlotResult]

    @property
    def empty(self) -> bool:
        return not any(isinstance(slot.answer, Found) for slot in self.slots.values())

    @property
    def failed(self) -> bool:
        """Neither slot could tell."""
        return all(isinstance(slot.answer, Failed) for slot in self.slots.values())


def members(slot: str) -> tuple[Connector, ...]:
    """The connectors that this slot is bound to. Raises ImproperlyConfigured."""
    setting, _ = SLOTS[slot]
    return bind(setting, getattr(settings, setting))


def search(number: str) -> SearchResult:
    """Ask both slots about `number` within SEARCH_DEADLINE_S. A slot that is late has failed."""
    deadline = time.monotonic() + settings.SEARCH_DEADLINE_S
    rule = rules.find(number)
    inquiries = {slot: Inquiry(members(slot), fields, number, rule) for slot, (_, fields) in SLOTS.items()}
    for inquiry in inquiries.values():
        inquiry.ask_local(settings.SEARCH_DEADLINE_S)
    remote = {slot: inquiry for slot, inquiry in inquiries.items() if inquiry.wants_remote()}
    if remote:
        _give_connection_back()
        futures = [_pool(slot).submit(inquiry, deadline) for slot, inquiry in remote.items()]
        wait([future for future in futures if future], timeout=max(0.0, deadline - time.monotonic()))
    return SearchResult(number, {slot: SlotResult(*inquiry.result()) for slot, inquiry in inquiries.items()})


class SlotPool:
    """A slot's own threads: one whose source hangs takes none from the other. Nothing queues: a search that finds all
    of them busy would wait in vain, so its remote members have failed at once."""

    def __init__(self, slot: str) -> None:
        self._threads = ThreadPoolExecutor(REMOTE_THREADS, thread_name_prefix=slot)
        self._free = threading.BoundedSemaphore(REMOTE_THREADS)

    def submit(self, inquiry: Inquiry, deadline: float) -> Future[None] | None:
        inquiry.expect_remote()
        if not self._free.acquire(blocking=False):
            return None
        # The thread's own copy of the context: the request id stands in its log lines too.
        future = self._threads.submit(contextvars.copy_context().run, inquiry.ask_remote, deadline)
        future.add_done_callback(lambda _: self._free.release())
        return future


@lru_cache
def _pool(slot: str) -> SlotPool:
    return SlotPool(slot)


def _give_connection_back() -> None:
    """Return the request's connection to the pool: nobody holds one while a vendor is asked."""
    if "pool" in connection.settings_dict["OPTIONS"] and not connection.in_atomic_block:
        connection.close()
