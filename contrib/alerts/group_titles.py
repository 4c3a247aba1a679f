"""The kinds of alerts in words, and the titles of several alerts of one kind together."""

from collections.abc import Collection

from django.conf import settings

#: Kind → what several of its subjects do.
_SUBJECTS = {
    "token.out_of_credits": "tokens in use are out of credits",
    "token.running_out": "tokens will run out of credits",
    "token.expiring": "tokens expire soon or have expired",
    "source.failing": "sources are failing",
    "source.slow": "sources are slow",
    "data.stale": "data sets are out of date",
    "address_book.failing": "address books are not synchronized",
    "clock.wrong": "clocks are wrong",
    "task.overdue": "tasks are overdue",
}
#: The kinds with one subject.
_CONDITIONS = {
    "searches.degraded": "answers are degraded",
    "searches.failing": "searches fail",
    "redis.unavailable": "Redis is unavailable",
    "audit.failed": "balances and the ledger disagree",
    "client_address.unreadable": "client addresses cannot be read",
}
TOKEN_KINDS = tuple(kind for kind in _SUBJECTS if kind.startswith("token."))


def kind_title(kind: str) -> str:
    """Such as `Tokens are out of credits`."""
    text = {**_SUBJECTS, **_CONDITIONS}.get(kind, kind)
    return text[:1].upper() + text[1:]


def group_title(kind: str, subjects: Collection[str]) -> str:
    """Such as `3 tokens are out of credits`. One alert may be about all tokens that have none of their own
    (token_checks): its subject is no id."""
    if kind not in _SUBJECTS:
        return f"{len(subjects):,} alerts: {kind_title(kind)}"
    own = [each for each in subjects if kind not in TOKEN_KINDS or each.isdigit()]
    within = f" within {settings.ALERT_RUNNING_OUT_DAYS} days" if kind == "token.running_out" else ""
    return f"{'More than ' if len(own) < len(subjects) else ''}{len(own):,} {_SUBJECTS[kind]}{within}"
