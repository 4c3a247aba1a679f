"""The console pages of tokens and ledger, as an operator's browser uses them."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from threading import Barrier
from typing import Any

from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db import connection, connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts import tokens
from accounts.models import ApiToken, CreditEntry, Customer
from core.long_lists import EVER

NUMBER = "493023125042"
ADD = "/admin/accounts/apitoken/add/"
LIST = "/admin/accounts/apitoken/"
CUSTOMERS = "/admin/accounts/customer/"
BULK = "/admin/accounts/apitoken/top-up/"
LEDGER = "/admin/accounts/creditentry/"
#: Each action's page and its permission.
ACTIONS = {
    "top-up": "top_up_apitoken",
    "adjust": "adjust_apitoken",
    "rotate": "rotate_apitoken",
    "revoke": "revoke_apitoken",
}


def issue_token(name: str, initial_credits: int = 30) -> ApiToken:
    return tokens.issue(name=name, initial_credits=initial_credits, actor="test").token


def page(token: ApiToken, name: str) -> str:
    return f"/admin/accounts/apitoken/{token.pk}/{name}/"


def hidden_fields(response: Any) -> dict[str, str]:
    """The hidden fields that a browser sends back."""
    return dict(re.findall(r'<input type="hidden" name="(once|expires_at|tokens)" value="([^"]+)"', response.text))


def submit(client: Client, url: str, /, **fields: Any) -> Any:
    """Open and submit a page, with its confirmation ticked if it has one."""
    return client.post(url, {**hidden_fields(client.get(url)), "confirmed": "on", **fields})


def select(client: Client, *selected: ApiToken) -> Any:
    """The page that tops up these tokens, opened from the list."""
    ids = [token.pk for token in selected]
    return client.post(LIST, {"action": "top_up_selected", "_selected_action": ids}, follow=True)


def issue(client: Client, **fields: Any) -> Any:
    return submit(
        client, ADD, **{"name": "new", "initial_credits": 10, "days": 30, "reason": "order", "note": "", **fields}
    )


def balance(token: ApiToken) -> int:
    return ApiToken.objects.get(pk=token.pk).credits


def amounts(token: ApiToken, kind: str) -> list[int]:
    return list(token.entries.filter(kind=kind).order_by("pk").values_list("amount", flat=True))


def history() -> list[tuple[str, str]]:
    return list(LogEntry.objects.order_by("pk").values_list("user__username", "change_message"))


def post_concurrently(user: User, url: str, fields: dict[str, Any], how_many: int = 3) -> list[Any]:
    """Submissions of one page that start at the same moment."""
    return post_all_concurrently(user, [(url, fields)] * how_many)


def post_all_concurrently(user: User, posts: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    """At most 3, each on its own connection: the pool has 4, and the test uses one."""
    barrier = Barrier(len(posts))

    def post(sent: tuple[str, dict[str, Any]]) -> Any:
        try:
            client = Client()
            client.force_login(user)
            barrier.wait(10)
            return client.post(*sent)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(posts)) as pool:
        return list(pool.map(post, posts))


def entry_page(row: CreditEntry, page: str) -> str:
    return f"{LEDGER}{row.pk}/{page}/"


def listed_entries(client: Client, **parameters: Any) -> list[str]:
    """The listed entries of all times, as `token kind amount`."""
    response = client.get(LEDGER, {"since": EVER, **parameters})
    assert response.status_code == 200
    return [f"{row.token.name} {row.kind} {row.amount}" for row in response.context["cl"].result_list]


def entry_at(token: ApiToken, when: datetime, **values: Any) -> CreditEntry:
    """An entry of another day."""
    search = {"amount": -1, "balance_after": 1, "kind": "search", "request_id": "r", **values}
    return CreditEntry.objects.create(token=token, created_at=when, **search)


def query_count(client: Client, url: str, parameters: dict[str, Any] | None = None) -> int:
    ContentType.objects.clear_cache()  # else the first page reads one more row than the same page later
    with CaptureQueriesContext(connection) as captured:
        assert client.get(url, parameters or {}).status_code == 200
    return len(captured)


def a_lock_is_awaited() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return bool(cursor.fetchone()[0])


def token_of(customer: Customer, name: str, initial_credits: int = 30, **options: Any) -> ApiToken:
    return tokens.issue(name=name, initial_credits=initial_credits, actor="test", customer=customer, **options).token


def page_of(customer: Customer) -> str:
    return f"{CUSTOMERS}{customer.pk}/change/"


def edit_page_of(customer: Customer) -> str:
    return f"{CUSTOMERS}{customer.pk}/edit/"


def customer_form(*contacts: dict[str, Any], kept: int = 0, **fields: Any) -> dict[str, Any]:
    """What a browser submits from a customer's page; the first `kept` contacts exist."""
    inlines = {f"contacts-{n}-{name}": value for n, one in enumerate(contacts) for name, value in one.items()}
    return {
        "name": "Example Ltd",
        "note": "",
        "contacts-TOTAL_FORMS": len(contacts),
        "contacts-INITIAL_FORMS": kept,
        **inlines,
        **fields,
    }
