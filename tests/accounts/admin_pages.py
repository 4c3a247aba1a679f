"""How an operator's browser goes about the token pages."""

import re
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import connections
from django.test import Client

from accounts import tokens
from accounts.models import ApiToken

NUMBER = "493023125042"
ADD = "/admin/accounts/apitoken/add/"
LIST = "/admin/accounts/apitoken/"
BULK = "/admin/accounts/apitoken/top-up/"
LEDGER = "/admin/accounts/creditentry/"
#: The page of each action, and the permission that it needs.
ACTIONS = {
    "top-up": "top_up_apitoken",
    "adjust": "adjust_apitoken",
    "rotate": "rotate_apitoken",
    "revoke": "revoke_apitoken",
}


def made(name: str, initial_credits: int = 30) -> ApiToken:
    return tokens.issue(name=name, initial_credits=initial_credits, actor="test").token


def page(token: ApiToken, name: str) -> str:
    return f"/admin/accounts/apitoken/{token.pk}/{name}/"


def hidden(response: Any) -> dict[str, str]:
    """What a browser would send back unseen."""
    return dict(re.findall(r'<input type="hidden" name="(once|expires_at|tokens)" value="([^"]+)"', response.text))


def submit(client: Client, url: str, **fields: Any) -> Any:
    """With the confirmation ticked, where the page asks for one."""
    return client.post(url, {**hidden(client.get(url)), "confirmed": "on", **fields})


def select(client: Client, *selected: ApiToken, **fields: Any) -> Any:
    """The page that tops up these tokens, as the list leads to it."""
    ids = [token.pk for token in selected]
    return client.post(LIST, {"action": "top_up_selected", "_selected_action": ids, **fields})


def issue(client: Client, **fields: Any) -> Any:
    return submit(
        client, ADD, **{"name": "new", "initial_credits": 10, "days": 30, "reason": "order", "note": "", **fields}
    )


def balance(token: ApiToken) -> int:
    return ApiToken.objects.get(pk=token.pk).credits


def booked(token: ApiToken, kind: str) -> list[int]:
    return list(token.entries.filter(kind=kind).order_by("pk").values_list("amount", flat=True))


def history() -> list[tuple[str, str]]:
    return list(LogEntry.objects.order_by("pk").values_list("user__username", "change_message"))


def at_once(user: User, url: str, fields: dict[str, Any], how_many: int = 3) -> list[Any]:
    """Posts of one page that start at the same moment."""
    return all_at_once(user, [(url, fields)] * how_many)


def all_at_once(user: User, posts: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    """At most 3, each on a connection of its own: the pool has 4, ours is one."""
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
