"""Invitations of staff by e-mail: a user without a password, and a link with which the person sets one.

The link is that of Django's password reset. It works for INVITATION_DAYS, and once: its signature covers the e-mail
address and the (unusable) password, which is replaced at each renewal and withdrawal.
"""

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX, make_password
from django.contrib.auth.models import Group, User
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.core.mail import EmailMessage
from django.db import transaction
from django.db.models import QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode

from console.models import Invitation
from core import history, mail

log = logging.getLogger(__name__)

#: The timeout of the mail server: the page waits for it.
TIMEOUT_S = 10


class NotPending(ValueError):
    """The user was not invited, or has set a password."""

    def __init__(self) -> None:
        super().__init__("This user was not invited, or has set a password.")


class _Links(PasswordResetTokenGenerator):
    """Django's, for active users."""

    key_salt = __name__

    def check_token(self, user: User | None, token: str | None) -> bool:
        return user is not None and user.is_active and super().check_token(user, token)


links = _Links()


def invite(
    *, username: str, email: str, groups: Iterable[Group], is_superuser: bool, by: User | None = None
) -> Invitation:
    """Create a user without a password, with these roles. `by`: the superuser; None: whoever runs this command."""
    roles = sorted(group.name for group in groups)
    with transaction.atomic():
        user = User(username=username, email=email, is_staff=True, is_superuser=is_superuser)
        user.set_unusable_password()
        user.save()
        user.groups.set(groups)
        invitation = Invitation.objects.create(user=user, invited_by=_name(by), sent_at=timezone.now())
        given = [*roles, *(["superuser status"] if is_superuser else [])]
        history.record(
            action=history.Action.ADDITION,
            target=user,
            user=by,
            message=f"Invited, with {', '.join(given) or 'no role'}.",
        )
    return invitation


def renew(user: User, *, by: User | None = None) -> Invitation:
    """Make a new link valid and the earlier one invalid; activates a user whose invitation was withdrawn. Raises
    NotPending."""
    message = "Invited again, with a new link."
    return _end_link(user, by, message, is_active=True, sent_at=timezone.now(), invited_by=_name(by))


def withdraw(user: User, *, by: User | None = None) -> None:
    """Make the link invalid and deactivate the user. Raises NotPending."""
    _end_link(user, by, "Withdrew the invitation.", is_active=False, sent_at=None)


def pending() -> QuerySet[Invitation]:
    """The invitations whose users have not set a password."""
    return Invitation.objects.filter(user__password__startswith=UNUSABLE_PASSWORD_PREFIX)


def described(user: User) -> str:
    """The state of the user's invitation, and who sent it; `-` without one, and once the user has set a password."""
    invitation: Invitation | None = getattr(user, "invitation", None)
    if invitation is None or user.has_usable_password():
        return "-"
    expiry, by = expires_at(invitation), f"by {invitation.invited_by}"
    if expiry is None or not user.is_active:
        return f"Invitation withdrawn; invited {by}"
    if expiry <= timezone.now():
        return f"Invitation expired {expiry:%Y-%m-%d %H:%M} UTC; invited {by}"
    return f"Invited, until {expiry:%Y-%m-%d %H:%M} UTC; {by}"


def expires_at(invitation: Invitation) -> datetime | None:
    """When the link stops working; None if it was withdrawn."""
    return invitation.sent_at and invitation.sent_at + timedelta(days=settings.INVITATION_DAYS)


def link(invitation: Invitation, origin: str) -> str:
    """The URL with which the user sets a password; `origin`: scheme and host."""
    user_id = urlsafe_base64_encode(force_bytes(invitation.pk))
    path = reverse("admin:invitation", args=[user_id, links.make_token(invitation.user)])
    return f"{settings.PUBLIC_URL or origin}{path}"


def send(invitation: Invitation, url: str) -> str:
    """Send the link to the user, and return why that was not possible; empty if the mail server accepted it. Call it
    outside transactions: the server may be slow."""
    if not settings.EMAIL_IS_CONFIGURED:
        return "E-mail is not configured."
    user, site = invitation.user, settings.UNFOLD["SITE_TITLE"]
    message = EmailMessage(
        subject=f"Invitation to the {site} console",
        body=(
            f"{invitation.invited_by} has invited you to the {site} console as {user.username}.\n\n"
            f"Set your password here:\n{url}\n\n"
            f"The link works once, until {expires_at(invitation):%Y-%m-%d %H:%M} UTC. Then set up two-factor\n"
            "authentication, for which you need an authenticator app.\n\n"
            "If you do not expect this invitation, ignore this e-mail.\n"
        ),
        to=[user.email],
    )
    try:
        mail.send_email(message, timeout_s=TIMEOUT_S)
    except Exception as error:  # its text may contain the address, so only its type is logged
        log.warning("invitation not sent: user=%s %s", user.username, type(error).__name__)
        return f"The mail server did not accept the e-mail to {user.email}."
    return ""


def accept(user: User, password: str) -> None:
    """Set the password of `user`, whose link has been checked. Raises NotPending if the link has become invalid since:
    of two concurrent uses, the second fails."""
    hashed = make_password(password)  # which takes long, so before the row is locked
    with transaction.atomic():
        unchanged = User.objects.filter(pk=user.pk, password=user.password, email=user.email, is_active=True)
        if not unchanged.update(password=hashed):
            raise NotPending
        user.password = hashed
        history.record(
            action=history.Action.CHANGE,
            target=user,
            user=user,
            message="Accepted the invitation and set a password.",
        )


def _end_link(user: User, by: User | None, message: str, *, is_active: bool, **changed: Any) -> Invitation:
    """Replace the unusable password of `user`, which makes the link invalid, and return the invitation with the
    `changed` columns. Raises NotPending."""
    with transaction.atomic():
        without_password = User.objects.filter(pk=user.pk, password__startswith=UNUSABLE_PASSWORD_PREFIX)
        replaced = without_password.update(password=make_password(None), is_active=is_active)
        if not (replaced and Invitation.objects.filter(pk=user.pk).update(**changed)):
            raise NotPending
        history.record(action=history.Action.CHANGE, target=user, user=by, message=message)
    return Invitation.objects.get(pk=user.pk)


def _name(by: User | None) -> str:
    return by.get_username() if by else history.command_actor()
