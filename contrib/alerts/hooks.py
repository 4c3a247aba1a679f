from typing import Any

from django.dispatch import receiver

from callerid_project import hooks as project
from console import blocks, pages
from core import retention
from lookup import signals
from monitoring import hooks

PACKAGE = "contrib.alerts"
VIEWERS = "viewer auditor support operator"

project.URLS.add(f"{PACKAGE}.urls")
project.ON_START.add(f"{PACKAGE}.samplers.start")
hooks.CHECKS.add(
    f"{PACKAGE}.token_checks.EXPIRING",
    f"{PACKAGE}.token_checks.CREDITS",
    f"{PACKAGE}.delivery_checks.PROCESSES",
    f"{PACKAGE}.delivery_checks.NOTICES",
)
hooks.FAILING_SINCE.add(f"{PACKAGE}.sources.failing_since")
blocks.ATTENTION.add(f"{PACKAGE}.dashboard.attention")
pages.SIDEBAR.add(
    pages.Place(
        "",
        pages.list_page("Alerts", "notifications", "alerts.incident", VIEWERS, "incidents alarms outage"),
        after="Dashboard",
    ),
    pages.Place(
        "Monitoring",
        pages.list_page("Notices", "mail", "alerts.notice", "support operator auditor", "e-mails webhooks"),
    ),
    pages.Place(
        "Operators",
        pages.list_page(
            "Alert recipients", "contact_mail", "alerts.alertrecipient", "auditor", "e-mail addresses on call"
        ),
        after="Roles",
    ),
)
pages.ACTIONS.add(
    pages.Page(
        *("Send a test alert", "", "alerts_incident_send_test"),
        *("alerts.view_incident alerts.change_notice", "", "webhook e-mail"),
    )
)
pages.GRANTS.add(pages.Grant("operator", "alerts.change_notice alerts.handle_incident"))
pages.EXTENSIONS.add(
    pages.Extension("accounts.customer", f"{PACKAGE}.admin.customers.WebhookActions"),
    pages.Extension("monitoring.source", f"{PACKAGE}.admin.sources.PausedAlerts"),
)
retention.EXPIRING.add(
    retention.Expiring("notices", f"{PACKAGE}.low_balance.prune", f"settled notices after {retention.KEPT_DAYS} days"),
    retention.Expiring("alerts", f"{PACKAGE}.incidents.prune", f"alerts after {retention.KEPT_DAYS} days"),
    retention.Expiring("alert_mutes", f"{PACKAGE}.mutes.prune", "mutes that have ended"),
)


@receiver(signals.paused)
def _paused(**kwargs: Any) -> None:
    from contrib.alerts import sources  # every command imports this module

    sources.end_alerts(**kwargs)


@receiver(signals.resumed)
def _resumed(**kwargs: Any) -> None:
    from contrib.alerts import sources

    sources.reopen_alerts(**kwargs)
