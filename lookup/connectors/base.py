"""The contract of a connector: what a slot can be bound to.

Write a class, bind it with `SOURCE_A=your.module.YourConnector` (or in a chain, `directory,your.module.YourConnector`).
One object serves all threads of a process.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

from lookup.answers import Answer


class Connector(ABC):
    """Knows something about numbers."""

    #: The fields that it can supply: some of `name`, `location`, `spam`.
    fields: ClassVar[frozenset[str]]
    #: Whether it leaves the process. A remote one runs in a slot's own thread, beside the other slot, and must not
    #: touch the ORM. A local one runs in the request's thread, on its database connection: nothing can cut it short.
    remote: ClassVar[bool]

    @abstractmethod
    def lookup(self, number: str, *, timeout_s: float) -> Answer:
        """What is known about `number` (digits with country code). `timeout_s`: seconds left for its slot.

        Whatever it raises counts as Failed; so does an answer that comes after `timeout_s`.
        """
