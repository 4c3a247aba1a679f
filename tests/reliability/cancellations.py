"""Charges that are cancelled at random moments: `python -m tests.reliability.cancellations COUNT` on an empty database.

Prints, as JSON, what became of them. A cancelled search is not answered, as when a stop takes too long.
"""

import asyncio
import json
import random
import sys
from contextlib import suppress
from typing import Any

import django

django.setup()

from accounts import audit, charging, idempotency, tokens, unknown_charges  # noqa: E402
from accounts.models import ApiToken, CreditEntry  # noqa: E402
from core import db, loop  # noqa: E402
from core.postgresql.pool import Pool  # noqa: E402

NUMBER = "12125550142"
CLIENTS, TOKENS, CONNECTIONS = 20, 20, 8


class Run:
    def __init__(self, count: int) -> None:
        issued = [tokens.issue(name="cancelled", initial_credits=count, actor="test") for _ in range(TOKENS)]
        self._tokens: list[ApiToken] = [each.token for each in issued]
        self._left = iter(range(count))
        self._longest_s = 0.02  # adjusted, so that about half of the charges are cancelled
        self.answered: set[str] = set()
        self.cancelled: set[str] = set()

    async def charge_all(self) -> dict[str, Any]:
        db.pool = pool = Pool(CONNECTIONS, 20)
        await pool.open()
        await asyncio.gather(*(self._charge_in_turn() for _ in range(CLIENTS)))
        leaked = len(asyncio.all_tasks()) - 1
        await asyncio.gather(*(pool.fetch("SELECT pg_sleep(0.1)", []) for _ in range(CONNECTIONS)))
        opened, idle, _ = pool.sizes()
        pool.close()
        return {"tasks": leaked, "connections in use": opened - idle, "connections": opened}

    async def _charge_in_turn(self) -> None:
        for number in self._left:
            token = self._tokens[number % TOKENS]
            if number % 2:
                await self._once(token, f"plain-{number}", None)
            else:  # with a key: repeated until it is answered
                while not await self._once(token, f"key-{number}", f"key-{number}"):
                    pass

    async def _once(self, token: ApiToken, request_id: str, key: str | None) -> bool:
        task = asyncio.create_task(self._charge(token, request_id, key))
        await asyncio.wait([task], timeout=random.uniform(0, self._longest_s))
        self._longest_s *= 0.95 if task.done() else 1.05
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        (self.cancelled if task.cancelled() else self.answered).add(request_id)
        return not task.cancelled()

    async def _charge(self, token: ApiToken, request_id: str, key: str | None) -> None:
        claim = None
        if key is not None:
            begun = await idempotency.begin(token=token, key=key, number=NUMBER, can_pay=True)
            if isinstance(begun, idempotency.Replay):
                return
            claim = begun
        answer = {"success": True}
        try:
            await charging.charge(token=token, request_id=request_id, number=NUMBER, answer=answer, claim=claim)
        except BaseException:
            if claim is not None:
                await idempotency.release_after_failure(claim)
            raise


def main() -> None:
    run = Run(int(sys.argv[1]))
    result = loop.run(run.charge_all())
    unknown_charges.settler.close()
    while unknown_charges.count().get("unknown") or unknown_charges.settler._pending:
        unknown_charges.settler.flush()
    searches = CreditEntry.objects.filter(kind=CreditEntry.Kind.SEARCH)
    paid = list(searches.filter(refunded_by=None).values_list("request_id", flat=True))
    result |= {
        "answered": len(run.answered),
        "cancelled": len(run.cancelled),
        "refunded": searches.count() - len(paid),
        "paid twice": len(paid) - len(set(paid)),
        "paid without an answer": len(set(paid) - run.answered),
        "answered without a payment": len(run.answered - set(paid)),
        "disagreements": len(audit.audit()),
    }
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    main()
