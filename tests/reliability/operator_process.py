"""An operator's process beside the service: `python -m tests.reliability.operator_process`.

Each line of standard input is a JSON array: the name of a function of this module and its arguments. A line of JSON
answers it: the result, or {"refused": <the exception's class>}.
"""

import json
import sys
import tempfile
from datetime import timedelta
from typing import Any

import django

django.setup()

from django.core.management import call_command  # noqa: E402

from accounts import audit, credits, customers, tokens  # noqa: E402
from accounts.models import ApiToken, CreditEntry, Customer  # noqa: E402
from console import erasure  # noqa: E402

REFUSALS = (credits.NotRefundable, credits.ChangeRefused, tokens.TokenRevoked)


def issue(name: str, amount: int, customer_name: str) -> dict[str, Any]:
    named = Customer.objects.filter(name=customer_name).first() or customers.create(name=customer_name)
    issued = tokens.issue(name=name, initial_credits=amount, customer=named, actor="model")
    return {"id": issued.token.pk, "key": issued.api_key}


def top_up(token_id: int, amount: int, reference: str) -> int:
    token = ApiToken.objects.get(pk=token_id)
    return credits.top_up(token=token, amount=amount, actor="model", reason="model", reference=reference)[0].pk


def adjust(token_id: int, amount: int) -> int:
    token = ApiToken.objects.get(pk=token_id)
    return credits.adjust(token=token, amount=amount, actor="model", reason="model")[0].pk


def transfer(from_id: int, to_id: int, amount: int) -> int:
    source, target = ApiToken.objects.get(pk=from_id), ApiToken.objects.get(pk=to_id)
    moved = credits.transfer(from_token=source, to_token=target, amount=amount, actor="model", reason="model")
    return moved.taken.pk


def refund(token_id: int, request_id: str) -> int:
    entry = CreditEntry.objects.get(token=token_id, request_id=request_id, kind=CreditEntry.Kind.SEARCH)
    return credits.refund(entry=entry, actor="model", reason="model").pk


def rotate(token_id: int, grace_s: int) -> str:
    return tokens.rotate(token=ApiToken.objects.get(pk=token_id), grace=timedelta(seconds=grace_s)).api_key


def revoke(token_id: int) -> bool:
    return tokens.revoke(token=ApiToken.objects.get(pk=token_id))


def forget(number: str) -> None:
    erasure.erase([number])


def import_contacts(rows: list[list[str]]) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        file.write("number,name,location\n" + "".join(f"{','.join(row)}\n" for row in rows))
        file.flush()
        call_command("import_contacts", file.name, verbosity=0, stdout=sys.stderr)


def ledger(token_id: int) -> list[list[Any]]:
    entries = CreditEntry.objects.filter(token=token_id).order_by("pk")
    return [list(entry) for entry in entries.values_list("kind", "amount", "balance_after")]


def balance(token_id: int) -> int:
    return ApiToken.objects.get(pk=token_id).credits


def debits() -> int:
    return CreditEntry.objects.filter(kind=CreditEntry.Kind.SEARCH).count()


def disagreements() -> int:
    return len(audit.audit()) + len(audit.unpaired_transfers())


def main() -> None:
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        try:
            result = globals()[name](*arguments)
        except REFUSALS as error:
            result = {"refused": type(error).__name__}
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
