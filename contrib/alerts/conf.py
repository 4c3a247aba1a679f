from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.validators import validate_email

from callerid_project.environment import Environment, must_be
from contrib.alerts import webhooks
from core import addresses


def read(env: Environment) -> dict[str, Any]:
    """Beside EMAIL_URL and EMAIL_FROM, which invitations use too."""
    secrets = [
        _webhook_secret(env, "ALERT_WEBHOOK_SECRET"),
        _webhook_secret(env, "ALERT_WEBHOOK_PREVIOUS_SECRET"),
    ]
    found = {
        # Low-balance notices are written and sent only if this is on.
        "LOW_BALANCE_NOTICES": env.flag("LOW_BALANCE_NOTICES", False),
        # Whether webhooks of customers may have HTTP and private addresses.
        "CUSTOMER_WEBHOOKS_PRIVATE_NETWORK": env.flag("CUSTOMER_WEBHOOKS_PRIVATE_NETWORK", False),
        # What gets all alerts. Incidents are looked for only if anything gets alerts (contrib.alerts.alert_recipients).
        "ALERT_EMAILS": _emails(env, "ALERT_EMAILS"),
        "ALERT_WEBHOOK_URLS": _webhook_urls(env, "ALERT_WEBHOOK_URLS"),
        # Messages are signed with both, so that receivers can change over.
        "ALERT_WEBHOOK_SECRETS": [secret for secret in secrets if secret],
        "ALERT_OPEN_AFTER_MIN": env.number("ALERT_OPEN_AFTER_MIN", 5, least=0, most=1_440),
        "ALERT_CLOSE_AFTER_MIN": env.number("ALERT_CLOSE_AFTER_MIN", 10, least=0, most=1_440),
        "ALERT_REMIND_AFTER_H": env.number("ALERT_REMIND_AFTER_H", 4, least=0, most=720),
        "ALERT_EXPIRY_DAYS": env.number("ALERT_EXPIRY_DAYS", 14, least=0, most=365),
        "ALERT_RUNNING_OUT_DAYS": env.number("ALERT_RUNNING_OUT_DAYS", 3, least=0, most=365),
    }
    if found["ALERT_WEBHOOK_URLS"] and not secrets[0]:
        raise ImproperlyConfigured(
            f"ALERT_WEBHOOK_URLS is set, which requires ALERT_WEBHOOK_SECRET. {webhooks.HOW_TO_CREATE_A_KEY}"
        )
    for name, state in (("LOW_BALANCE_NOTICES", "on"), ("ALERT_EMAILS", "set")):
        if found[name] and not (env.str("EMAIL_URL", "") and env.str("EMAIL_FROM", "")):
            raise ImproperlyConfigured(
                f"{name} is {state}, which requires a mail server and a sender, such as "
                "EMAIL_URL=smtp+tls://user:password@mail.example.org:587 and EMAIL_FROM=callerid@example.org."
            )
    return found


def _emails(env: Environment, name: str) -> list[str]:
    found = env.words(name, [])
    with must_be(name, f"e-mail addresses, separated by commas: {name}=ops@example.org,desk@example.org."):
        for address in found:
            validate_email(address)
    return list(dict.fromkeys(found))


def _webhook_urls(env: Environment, name: str) -> list[str]:
    urls = env.words(name, [])
    with must_be(
        name,
        "URLs, separated by commas, that start with https://, or with http:// where the host is localhost or a "
        f"private address: {name}=https://hooks.example.org/callerid.",
    ):
        for url in urls:
            addresses.require_url(url)
    return list(dict.fromkeys(urls))


def _webhook_secret(env: Environment, name: str) -> str:
    secret = env.text(name).strip()
    with must_be(name, f"whsec_ and the Base64 of 24 to 64 random bytes. {webhooks.HOW_TO_CREATE_A_KEY}"):
        if secret:
            webhooks.secret_bytes(secret)
    return secret
