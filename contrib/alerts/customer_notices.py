"""Low-balance notices to the webhooks of customers."""

import json

from django.conf import settings
from django.utils import timezone

from accounts.models import ApiToken, CustomerWebhook
from contrib.alerts import webhooks
from contrib.alerts.models import Notice
from core.periods import iso


def write_webhook(email: Notice) -> None:
    """Write the same low balance as `email`, if the token's customer has a webhook, due now."""
    webhook = CustomerWebhook.objects.filter(customer__tokens=email.token_id).first()
    if webhook is not None:
        Notice.objects.create(
            channel=Notice.Channel.WEBHOOK,
            target=webhooks.label(webhook.url),
            has_webhooks=True,
            token_id=email.token_id,
            threshold=email.threshold,
            balance=email.balance,
            created_at=email.created_at,
            due_at=email.created_at,
        )


def post(notice: Notice, token: ApiToken) -> bool:
    """Send the notice; False if it is not needed any more. Raises WebhookFailed."""
    webhook = CustomerWebhook.objects.filter(customer=token.customer_id).first()
    if webhook is None or token.revoked_at is not None or token.credits > (notice.threshold or 0):
        return False
    data = {
        "token_id": token.pk,
        "token_name": token.name,
        "balance": notice.balance,
        "threshold": notice.threshold,
    }
    payload = {"type": notice.event, "timestamp": iso(notice.created_at), "data": data}
    webhooks.post(
        url=webhook.url,
        secrets=[webhook.secret],
        message_id=notice.message_id,
        timestamp=int(timezone.now().timestamp()),
        body=json.dumps(payload, ensure_ascii=False).encode(),
        public=not settings.CUSTOMER_WEBHOOKS_PRIVATE_NETWORK,
    )
    return True
