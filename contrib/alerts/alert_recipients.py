"""Who gets alerts: the addresses and webhooks of the settings get all, those of the console what they ask for."""

from django.conf import settings

from contrib.alerts import webhooks
from contrib.alerts.models import AlertRecipient, Notice


def targets(*, critical: bool) -> list[tuple[str, str]]:
    """Channel and address, or label of a webhook, of what gets alerts of this severity, each once. The addresses of the
    console get none without a mail server. One statement."""
    addresses = list(settings.ALERT_EMAILS)
    if settings.EMAIL_IS_CONFIGURED:
        rows = AlertRecipient.objects.filter(is_active=True).order_by("pk")
        chosen = rows if critical else rows.filter(severities=AlertRecipient.Severities.ALL)
        given = {address.casefold() for address in addresses}
        addresses += [each for each in chosen.values_list("email", flat=True) if each.casefold() not in given]
    return [(Notice.Channel.EMAIL, address) for address in addresses] + webhook_targets()


def webhook_targets() -> list[tuple[str, str]]:
    return [(Notice.Channel.WEBHOOK, webhooks.label(url)) for url in settings.ALERT_WEBHOOK_URLS]


def alerts_are_on() -> bool:
    """Whether anything gets alerts. One statement."""
    return bool(targets(critical=True))
