"""What an operator does to one token: a form, a permission and a verb for each page."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from accounts import credits, tokens
from accounts.forms import AdjustForm, BookingForm, RevokeForm, RotateForm
from accounts.models import ApiToken, CreditEntry


@dataclass(frozen=True, slots=True)
class Done:
    """What to tell the operator and, unless nothing changed, the token's history; a rotation also has a new token."""

    sentence: str
    changed: bool = True
    issued: tokens.Issued | None = None


@dataclass(frozen=True, slots=True)
class Action:
    """A page of one token: GET shows `form`, POST does `perform` on the locked row with its data and `actor`."""

    title: str
    permission: str
    form: type[forms.Form]
    perform: Callable[[ApiToken, dict[str, Any]], Done]
    explanation: str
    variant: str = "default"
    of_revoked: bool = True


def _book(verb: Callable[..., CreditEntry], token: ApiToken, data: dict[str, Any]) -> Done:
    repeated = token.entries.filter(reference=data["reference"]).exists()
    booking = {name: data[name] for name in ("amount", "actor", "reason", "reference")}
    entry = verb(token=token, **booking)
    row = f"{entry.kind} of {entry.amount:+d} credits, ledger row {entry.pk}"
    if repeated:
        return Done(f"This was booked before ({row}): nothing was added.", changed=False)
    return Done(f"Booked: {row}, balance {entry.balance_after}. {entry.reason}")


def _top_up(token: ApiToken, data: dict[str, Any]) -> Done:
    return _book(credits.top_up, token, data)


def _adjust(token: ApiToken, data: dict[str, Any]) -> Done:
    return _book(credits.adjust, token, data)


def _rotate(token: ApiToken, data: dict[str, Any]) -> Done:
    if data["expires_at"] != token.expires_at.isoformat():
        raise ValidationError("This token was rotated after this page was opened. Open the page again to rotate anew.")
    try:
        issued = tokens.rotate(token=token, grace=timedelta(minutes=data["grace_minutes"]))
    except tokens.TokenRevoked as error:
        raise ValidationError("A revoked token stays revoked: issue a new one.") from error
    sentence = f"Rotated, with {data['grace_minutes']} minutes of grace for the earlier token. {data['reason']}"
    return Done(sentence, issued=issued)


def _revoke(token: ApiToken, data: dict[str, Any]) -> Done:
    if not tokens.revoke(token=token, reason=data["reason"]):
        raise ValidationError("This token was revoked before.")
    return Done(f"Revoked. {data['reason']}")


TOP_UP = "accounts.top_up_apitoken"
ACTIONS = {
    "top-up": Action(
        "Top up",
        TOP_UP,
        BookingForm,
        _top_up,
        "Adds credits, which can be spent at once. Sent twice, this page adds them once.",
        variant="primary",
        of_revoked=False,
    ),
    "adjust": Action(
        "Adjust",
        "accounts.adjust_apitoken",
        AdjustForm,
        _adjust,
        "Corrects the balance, up or down, by a line of its own in the ledger. For what was paid, top up.",
    ),
    "rotate": Action(
        "Rotate",
        "accounts.rotate_apitoken",
        RotateForm,
        _rotate,
        "Makes a new token with a fresh lifetime. Credits, ledger and limits stay. An earlier rotation's grace ends.",
        of_revoked=False,
    ),
    "revoke": Action(
        "Revoke",
        "accounts.revoke_apitoken",
        RevokeForm,
        _revoke,
        "From the next request on the token is refused. This cannot be undone.",
        variant="danger",
        of_revoked=False,
    ),
}
