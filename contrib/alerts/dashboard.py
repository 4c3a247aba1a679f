"""The open alerts on the dashboard."""

from django.http import HttpRequest

from console.blocks import Attention
from contrib.alerts import alert_list, checking
from contrib.alerts.admin.incidents import VIEW, checked, related_pages

MAX_ALERTS = 10


def attention(request: HttpRequest) -> Attention | None:
    """The open alerts that are up to date, those of one incident with the pages that show more."""
    if not request.user.has_perm(VIEW):
        return None
    state = checked()
    alerts = alert_list.open_alerts(without=() if state["alerts_current"] else checking.alert_kinds())
    shown = alerts[:MAX_ALERTS]
    pages = [related_pages(request, *each.incidents) if len(each.incidents) == 1 else [] for each in shown]
    values = {
        "rows": [{"alert": each, "pages": found} for each, found in zip(shown, pages, strict=True)],
        "more": len(alerts) > MAX_ALERTS,
        **state,
    }
    reported = {(each.kind, each.subject) for alert in shown for each in alert.incidents}
    return Attention("alerts/attention.html", values, is_quiet=not shown, reported=reported)
