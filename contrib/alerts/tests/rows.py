"""Rows of alerts and notices, for the tests of the console."""

import json
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Model
from django.forms.models import model_to_dict
from django.utils import timezone

from accounts.models import ApiToken
from contrib.alerts import checking, customer_webhooks, incidents, mutes, notices
from contrib.alerts.models import AlertRecipient, Incident, Notice
from monitoring import task_runs


def notice(*, token: ApiToken, **_: Any) -> Model:
    """It was given up, and can be sent again."""
    return Notice.objects.create(token=token, threshold=10, balance=9, outcome=notices.GIVEN_UP)


def incident(*, token: ApiToken, **_: Any) -> Model:
    now = timezone.now()
    return Incident.objects.create(
        kind="token.expiring",
        subject=str(token.pk),
        title="An API token expires soon",
        first_seen_at=now,
        last_seen_at=now,
        opened_at=now,
    )


def recipient(**_: Any) -> Model:
    return AlertRecipient.objects.create(email="desk@example.org")


def webhook(customer: Any) -> None:
    customer_webhooks.save(customer=customer, url="https://hooks.example.org/callerid")


def mute(_: Model) -> None:
    mutes.mute(kind="source.failing", subject="", until=timezone.now() + timedelta(hours=1), by="boss")


def acknowledged(row: Model) -> None:
    Incident.objects.filter(pk=row.pk).update(acknowledged_at=timezone.now())


def month(filled: Any, low: ApiToken) -> dict[str, int]:
    """`filled`: a tests.month.Month; `low`: a token that has few credits. Returns primary keys."""
    at = filled.now - timedelta(days=4)
    Notice.objects.create(token=low, threshold=500, balance=500, sent_at=at, attempts=1, outcome="sent")
    task_runs.record(checking.TASK, succeeded=True)
    return {"incident": _incidents(filled, low)}


def browser(made: dict[str, Any], customer: Any) -> dict[str, int]:
    """`made`: what `month` has made. Returns primary keys."""
    webhook(customer)
    row = Incident.objects.get(pk=made["incident"])
    incidents.acknowledge(incident=row, by="admin", reason="The vendor has been called and mends it today.")
    reason = "Maintenance of the vendor, as announced."
    mutes.mute(kind=row.kind, subject="", until=timezone.now() + timedelta(hours=8), by="admin", reason=reason)
    AlertRecipient.objects.create(email="the-team-that-is-on-call@operations.example.org", note="Rota of the week")
    Notice.objects.create(token_id=made["token"], threshold=50, balance=50, attempts=8, outcome="given up")
    return {"notice": Notice.objects.filter(incident=row).earliest("pk").pk}


def long_texts(token: ApiToken, text: str, now: datetime) -> dict[str, Model]:
    about = {"kind": "token.out", "subject": str(token.pk)}
    mutes.mute(**about, until=now, by="op", reason=text)
    AlertRecipient.objects.create(email="long@example.org", note=text)
    seen = {"first_seen_at": now, "last_seen_at": now, "opened_at": now}
    handled = {"acknowledged_at": now, "acknowledged_by": "op", "acknowledgement": text}
    return {
        "incident": Incident.objects.create(**about, **seen, **handled, title=text, summary=text, hint=text),
    }


def _incidents(month: Any, low: ApiToken) -> int:
    """Past and open alerts, and the notices that told of them; returns the open one's primary key."""
    rows = (
        ("source.failing", month.source_a, f"Source failing: {month.source_a}", "38 of 41 lookups failed.", 21, 3),
        ("data.stale", "ftc", "Complaint data is stale: ftc", "The newest data is 9 days old.", 12, 40),
        (
            "source.slow",
            month.source_b,
            f"Source slow: {month.source_b}",
            "The slowest 5 % of 96 calls took 1,180 ms or more.",
            0.06,
            None,
        ),
        (
            "token.running_out",
            str(low.pk),
            f"{low.name} runs out of credits on {month.now + timedelta(days=1):%-d %B}",
            "12 credits.",
            0.4,
            None,
        ),
    )
    open_id = 0
    for kind, subject, title, summary, days_ago, hours in rows:
        began = month.now - timedelta(days=days_ago)
        ended = began + timedelta(hours=hours) if hours else None
        incident = Incident.objects.create(
            kind=kind,
            subject=subject,
            title=title,
            summary=summary,
            hint="See the vendor's status page." if kind.startswith("source") else "Top up the token.",
            first_seen_at=began - timedelta(minutes=5),
            last_seen_at=ended or month.now,
            opened_at=began,
            closed_at=ended,
        )
        open_id = incident.pk
        data = {
            "id": incident.pk,
            "kind": kind,
            "severity": incident.severity,
            **model_to_dict(incident, ("subject", "title", "summary", "hint")),
            "began_at": f"{incident.first_seen_at:%Y-%m-%dT%H:%M:%SZ}",
            "opened_at": f"{began:%Y-%m-%dT%H:%M:%SZ}",
            "closed_at": ended and f"{ended:%Y-%m-%dT%H:%M:%SZ}",
            "url": None,
        }
        for event, at in (("incident.opened", began), ("incident.resolved", ended)):
            if at is not None:
                for channel, target in (("email", "oncall@example.org"), ("webhook", "1: hooks.example.org")):
                    Notice.objects.create(
                        event=event,
                        channel=channel,
                        target=target,
                        incident=incident,
                        payload=json.dumps({"data": data}),
                        created_at=at,
                        sent_at=at + timedelta(seconds=9),
                        attempts=1,
                        outcome="sent",
                    )
    return open_id
