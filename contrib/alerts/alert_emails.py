"""The e-mails about alerts: the same as plain text and as HTML."""

import json
from datetime import datetime
from typing import Any

from django.core.mail import EmailMultiAlternatives
from django.template.loader import render_to_string

from contrib.alerts.group_titles import group_title
from contrib.alerts.models import Notice, page_url
from core import periods

#: Alerts that an e-mail about several names.
MAX_LISTED = 20
#: Event → the start of the subject, and what has happened to one alert, and to several.
_EVENTS = {
    Notice.Event.INCIDENT_REMINDER.value: (
        "Reminder: ",
        "This alert is still open. Acknowledge it to get no more reminders.",
        "These alerts are still open. Acknowledge them to get no more reminders.",
    ),
    Notice.Event.INCIDENT_RESOLVED.value: ("Resolved: ", "This alert has ended.", "These alerts have ended."),
}


def message(notice: Notice) -> EmailMultiAlternatives:
    """What the payload says. No part of a payload has a line break, which a subject must not have."""
    data = json.loads(notice.payload)["data"]
    alerts = data.get("incidents", [data])
    is_one = len(alerts) == 1
    prefix, what_of_one, what_of_all = _EVENTS.get(notice.event, ("", "", ""))
    if because := ended_because(data):
        prefix, what_of_one, what_of_all = (
            "Ended: ",
            f"This alert has ended: {because}.",
            f"These alerts have ended: {because}.",
        )
    title = alerts[0]["title"] if is_one else group_title(data["kind"], [each["subject"] for each in alerts])
    has_ended = notice.event == Notice.Event.INCIDENT_RESOLVED
    context = {
        "severity": "" if has_ended or notice.event == Notice.Event.TEST else data.get("severity", ""),
        "what": what_of_one if is_one else what_of_all,
        "title": title,
        "is_one": is_one,
        "alerts": alerts[:MAX_LISTED],
        "more": max(0, len(alerts) - MAX_LISTED),
        "hints": [] if has_ended else list(dict.fromkeys(each["hint"] for each in alerts if each["hint"])),
        "times": _times(alerts),
        "url": alerts[0]["url"] if is_one else page_url(f"?kind={data['kind']}"),
    }
    email = EmailMultiAlternatives(f"[Caller ID] {prefix}{title}", _plain_text(context), to=[notice.target])
    email.attach_alternative(render_to_string("alerts/alert_email.html", context), "text/html")
    return email


def ended_because(data: dict[str, Any]) -> str:
    """Why the alerts of a payload's data ended; empty if they are open, or their condition was no longer seen."""
    [first, *_] = data.get("incidents", [data])
    return first.get("ended_because") or ""  # an earlier release did not write it


def _plain_text(context: dict[str, Any]) -> str:
    severity = f"Severity: {context['severity']}" if context["severity"] else ""
    times = "\n".join([*filter(None, [severity]), *(f"{what} {at}" for what, at in context["times"])])
    if context["is_one"]:
        [alert] = context["alerts"]
        about = [f"{alert['title']}.", alert["summary"], *context["hints"], alert["url"]]
    else:
        listed = "\n".join("\n  ".join(filter(None, [f"- {each['title']}", each["url"]])) for each in context["alerts"])
        about = [listed, f"And {context['more']} more." if context["more"] else "", *context["hints"]]
        about.append(context["url"])
    return "\n\n".join(filter(None, [context["what"], *about, times])) + "\n"


def _times(alerts: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Since when and until when their conditions were seen, as the pages of the alerts say it."""
    began = min(each.get("began_at") or each["opened_at"] for each in alerts)  # an earlier release did not write it
    found = (("Since", began), ("Until", alerts[0]["closed_at"]))
    return [(what, periods.shown(datetime.fromisoformat(at))) for what, at in found if at]
