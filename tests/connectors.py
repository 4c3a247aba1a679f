"""Connectors that tests bind by dotted path. Each records its calls, so that tests can assert that there were none."""

import asyncio
import threading
from typing import ClassVar

from lookup.answers import Answer, Failed, Found, NotFound
from lookup.connectors.base import Connector


class Recording(Connector):
    fields = frozenset({"name", "location", "spam"})
    remote = False
    calls: ClassVar[list[str]]
    result: ClassVar[Answer]

    def __init_subclass__(cls) -> None:
        cls.calls = []

    def lookup(self, number: str, *, timeout_s: float) -> Answer:
        self.calls.append(number)
        return self.answer(number, timeout_s)

    def answer(self, number: str, timeout_s: float) -> Answer:
        return self.result


class Knows(Recording):
    result = Found(name="Local Name", location="Local Place", spam=False)


class KnowsName(Recording):
    fields = frozenset({"name"})
    result = Found(name="Only A Name")


class KnowsPlace(Recording):
    fields = frozenset({"location"})
    result = Found(location="Only A Place")


class KnowsNothing(Recording):
    result = NotFound()


class Fails(Recording):
    result = Failed("down")


class Raises(Recording):
    def answer(self, number: str, timeout_s: float) -> Answer:
        raise RuntimeError(f"secret-key-123 for Alice Example +{number}")


class Lies(Recording):
    """Returns something that is not an Answer."""

    def answer(self, number: str, timeout_s: float) -> Answer:
        return {"name": "x"}  # type: ignore[return-value]


class WrongType(Recording):
    def answer(self, number: str, timeout_s: float) -> Answer:
        return Found(name=7)  # type: ignore[arg-type]


class Hangs(Recording):
    """Remote; does not answer until `released`. Fails after the end of the test, whose answers the next must not find
    in the cache."""

    remote = True
    released: ClassVar[threading.Event] = threading.Event()

    def answer(self, number: str, timeout_s: float) -> Answer:
        released = Hangs.released
        released.wait(30)
        if released is not Hangs.released:
            return Failed("abandoned")
        return Found(name="Too Late", location="Too Late", spam=True)


class HangsToo(Hangs):
    """For the other slot."""


class RemoteKnows(Recording):
    remote = True
    result = Found(name="Remote Name", location="Remote Place", spam=True)


class RemoteKnowsToo(RemoteKnows):
    """For the other slot: a connector that is bound to both is called once."""


class RemoteKnowsName(Recording):
    remote = True
    fields = frozenset({"name"})
    result = Found(name="Remote Only Name")


class RemoteFails(Recording):
    remote = True
    result = Failed("down")


class Exits(Recording):
    def answer(self, number: str, timeout_s: float) -> Answer:
        raise SystemExit(1)


class RemoteExits(Exits):
    remote = True


class Dawdles(Recording):
    """Local, and slower than the deadline, which must be 0.2 s at most."""

    async def lookup(self, number: str, *, timeout_s: float) -> Answer:  # type: ignore[override]
        await asyncio.sleep(0.3)
        return Found(name="Too Late", location="Too Late", spam=True)
