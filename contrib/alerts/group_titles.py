"""The kinds of alerts in words, and the titles of several alerts of one kind together."""

from collections.abc import Collection

from django.conf import settings

#: The kinds that serving processes report (samplers), with words as those of health checks have.
SAMPLED = {"clock.wrong": "clocks are wrong", "client_address.unreadable": "client addresses cannot be read"}


def is_about_token(kind: str) -> bool:
    return kind.startswith("token.")


def kind_title(kind: str) -> str:
    """Such as `Tokens are out of credits`."""
    text = _words(kind)
    return text[:1].upper() + text[1:]


def group_title(kind: str, subjects: Collection[str]) -> str:
    """Such as `3 tokens are out of credits`. One alert may be about all tokens that have none of their own
    (token_checks): its subject is no id."""
    own = [each for each in subjects if not is_about_token(kind) or each.isdigit()]
    within = f" within {settings.ALERT_RUNNING_OUT_DAYS} days" if kind == "token.running_out" else ""
    return f"{'More than ' if len(own) < len(subjects) else ''}{len(own):,} {_words(kind)}{within}"


def _words(kind: str) -> str:
    """Such as `tokens are out of credits`; the kind itself if its check is an absent add-on's."""
    from monitoring.health.checks import all_checks  # models import this module, and not all that is checked

    return {**SAMPLED, **{name: words for check in all_checks() for name, words in check.kinds.items()}}.get(kind, kind)
