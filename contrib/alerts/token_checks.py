"""Checks of tokens that expire or run out of credits, each with an alert of its own. (The dashboard counts them.)"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from accounts import request_statistics
from accounts.credits import credits_text
from accounts.models import ApiToken
from contrib.alerts import incidents
from core import periods
from monitoring.health.registry import Check, Condition, Effect, Findings, Request

#: Open incidents about single tokens, for each kind of incident; one further incident is about all other tokens.
MAX_TOKENS = 20
#: An expired token that was neither rotated nor revoked is reported for so long.
EXPIRED_FOR = timedelta(days=30)


def _expiring(request: Request) -> Findings:
    now, days = timezone.now(), settings.ALERT_EXPIRY_DAYS
    if not days:
        return
    tokens = (
        ApiToken.objects.filter(revoked_at=None, is_test=False)
        .filter(expires_at__gt=now - EXPIRED_FOR, expires_at__lte=now + timedelta(days=days))
        .order_by("expires_at", "pk")
    )
    conditions = []
    for pk, expires_at in tokens.values_list("pk", "expires_at"):
        verb = "expires" if expires_at > now else "expired"
        summary = f"It {verb} at {periods.shown(expires_at)}."
        conditions.append(_about_token("token.expiring", pk, f"{verb} on {_day(expires_at)}", summary))
    hint = "Rotate it, which renews its lifetime, or revoke it."
    yield from _capped(conditions, hint, f"expire within {days} days or have expired")


def _out_of_credits(request: Request) -> Findings:
    days, now = settings.ALERT_RUNNING_OUT_DAYS, timezone.now()
    if not days:
        return
    empty, soon = [], []
    for each in request_statistics.running_out(now, within_days=2 * days):
        pk, credits = each.token.pk, each.token.credits
        if not credits:
            refused = "Its searches are refused with 403."
            empty.append(_about_token("token.out_of_credits", pk, "is out of credits", refused))
            text, because = "It is out of credits.", "the token is out of credits"
            yield Condition("token.running_out", str(pk), "", text, effect=Effect.ENDED, ended_because=because)
            continue
        use = f"It has {credits_text(credits)}, and uses {each.rate_a_day:,.1f} a day."
        condition = _about_token("token.running_out", pk, f"runs out of credits on {_day(each.end.at)}", use)
        opens = each.end.at <= now + timedelta(days=days)
        soon.append(condition if opens else replace(condition, effect=Effect.PASSING))
    yield from _capped(empty, "Top up the token.", "in use are out of credits")
    yield from _capped(soon, "Top up the token.", f"will run out of credits within {days} days")


def _day(at: datetime) -> str:
    return f"{at:%d %B}".lstrip("0")


def _about_token(kind: str, token_id: int, what: str, summary: str) -> Condition:
    """`what`: its title without the token's name, which `_named` adds."""
    return Condition(kind, str(token_id), what, summary)


def _named(conditions: list[Condition]) -> Iterable[Condition]:
    """With the names of the tokens and of their customers. One statement."""
    tokens = ApiToken.objects.filter(pk__in=[each.subject for each in conditions])
    names = {str(pk): (name, customer) for pk, name, customer in tokens.values_list("pk", "name", "customer__name")}
    for each in conditions:
        name, customer = names.get(each.subject, ("", None))
        token = f"{name or 'API token'} (#{each.subject}){f' of {customer}' if customer else ''}"
        yield replace(each, title=f"{token} {each.title}")


def _capped(conditions: list[Condition], hint: str, what: str) -> Iterable[Condition]:
    """No more than MAX_TOKENS of them have an incident of their own, with `hint`; one incident is about all others."""
    if not conditions:
        return
    conditions = [replace(each, hint=hint) for each in conditions]
    if len(conditions) <= MAX_TOKENS:
        yield from _named(conditions)
        return
    known = set(incidents.current().filter(kind=conditions[0].kind).values_list("subject", flat=True))
    # Those with an incident first: the order of the others may change with each check.
    conditions.sort(key=lambda each: (each.subject not in known, each.effect is Effect.PASSING))
    own, others = conditions[:MAX_TOKENS], conditions[MAX_TOKENS:]
    kept_open = [replace(each, effect=Effect.PASSING) for each in others if each.subject in known]
    yield from _named([*own, *kept_open])
    if count := sum(each.effect is Effect.ALERT for each in others):
        summary = f"{count:,} more API tokens {what}."
        title = f"More than {MAX_TOKENS} API tokens {what}"
        yield Condition(others[0].kind, "others", title, summary, "See the list of API tokens.")


EXPIRING = Check(
    "Expiring tokens", _expiring, {"token.expiring": "tokens expire soon or have expired"}, in_doctor=False
)
CREDITS = Check(
    "Credits",
    _out_of_credits,
    {
        "token.running_out": "tokens will run out of credits",
        "token.out_of_credits": "tokens in use are out of credits",
    },
    in_doctor=False,
)
