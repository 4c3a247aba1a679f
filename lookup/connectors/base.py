"""The contract of a connector: what a slot can be bound to.

Write a class, bind it with `SOURCE_A=your.module.YourConnector` (or in a chain, `directory,your.module.YourConnector`).
One object serves all threads of a process.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable

from lookup.answers import Answer, Failed

log = logging.getLogger(__name__)


class Connector(ABC):
    """Knows something about numbers."""

    #: The fields that it can supply: some of `name`, `location`, `spam`.
    fields: frozenset[str]
    #: Whether it leaves the process. A remote one runs in a thread of its own, beside the other slot, behind a guard
    #: (cache, breaker, bulkhead), and must not touch the ORM. A local one runs in the request's thread, on its database
    #: connection: nothing can cut it short.
    remote: bool

    # The rest concerns remote ones.

    #: Seconds for which an answer is kept: one that was found, and "nobody knows". 0 keeps nothing, and
    #: more than a year is a year.
    hit_ttl_s: float = 3600
    miss_ttl_s: float = 300
    #: At most so many calls at once; more fail without being made.
    concurrency: int = 16
    #: A search waits so long and no longer, even if its deadline leaves more. None: as long as that leaves.
    patience_s: float | None = None
    #: Changes when the same question may get another answer: kept answers of another version are not used.
    version: str = ""

    def covers(self, number: str) -> bool:
        """Whether it can know anything about `number`. If not, it has nothing and is not asked. Quick and pure."""
        return True

    @abstractmethod
    def lookup(self, number: str, *, timeout_s: float) -> Answer:
        """What is known about `number` (digits with country code). `timeout_s`: seconds left for its slot.

        Whatever it raises counts as Failed; so does an answer that comes after `timeout_s`.
        """


def asked(name: str, question: Callable[[], Answer]) -> Answer:
    """What the connector of that name answers to `question`; Failed if it raises, or answers with what is no answer."""
    try:
        answer = question()
    except BaseException as error:  # asyncio.CancelledError and SystemExit are no Exceptions, yet failures too
        # Its message may hold a number, a name or a key: the type has to do.
        log.warning("source failed: connector=%s error=%s", name, type(error).__name__)
        return Failed("error", f"it raised {type(error).__name__}")
    if not isinstance(answer, Answer):
        log.warning("source failed: connector=%s error=answer of another type", name)
        return Failed("error", "it answered with what is none of Found, NotFound and Failed")
    return answer


def covers(name: str, connector: Connector, number: str) -> bool:
    """As the connector says; one that cannot say is asked."""
    try:
        return connector.covers(number)
    except Exception as error:
        log.warning("coverage failed: connector=%s error=%s", name, type(error).__name__)
        return True
