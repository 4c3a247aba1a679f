"""Invitations: from the superuser's form over the e-mail to the first page, and what must not work on the way."""

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from io import StringIO
from threading import Barrier, BrokenBarrierError
from typing import Any, ClassVar

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.hashers import MD5PasswordHasher
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console import invitations, second_factor
from console.models import Invitation
from tests import totp
from tests.console.role_table import logged_in
from tests.console.two_factor import INDEX, LOGIN, REMOVE, SET_UP, change, is_in, set_up
from tests.smtp import Mailbox

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("optional_second_factor")]

INVITE, USERS = reverse("admin:auth_user_invite"), reverse("admin:auth_user_changelist")
PENDING = f"{USERS}?invitation=pending"
LINK = re.compile(r"https?://[\w.:-]+(/admin/invitation/[\w-]+/[\w-]+/)")
NEW = "correct horse battery staple"


@pytest.fixture
def mailbox(mailbox: Mailbox, settings: Any) -> Mailbox:
    settings.EMAIL_IS_CONFIGURED = True
    return mailbox


@pytest.fixture
def superuser() -> Client:
    return logged_in("superuser")


def invite(client: Client, username: str = "olga", **fields: Any) -> Any:
    role = Group.objects.get(name="operator").pk
    return client.post(INVITE, {"username": username, "email": f"{username}@example.org", "groups": [role], **fields})


def page_of(username: str) -> str:
    return reverse("admin:auth_user_change", args=[User.objects.get(username=username).pk])


def url_in(text: str) -> str:
    found = LINK.search(text)
    assert found, text
    return found[1]


def invited(username: str = "olga") -> tuple[User, str]:
    """A user who was invited, and the path of the link."""
    operator = Group.objects.get(name="operator")
    invitation = invitations.invite(
        username=username, email=f"{username}@example.org", groups=[operator], is_superuser=False
    )
    return invitation.user, invitations.link(invitation, "")


def follow(client: Client, link: str) -> str:
    """Open the link; returns the path of the form."""
    response = client.get(link)
    assert response.status_code == 302, response.text
    return str(response["Location"])


def use(client: Client, form: str, password: str = NEW) -> Any:
    return client.post(form, {"new_password1": password, "new_password2": password})


def assert_refused(link: str, user: User) -> None:
    response = Client().get(link)
    assert response.status_code == 404
    assert "This link does not work" in response.text
    assert (response["Referrer-Policy"], "no-store" in response["Cache-Control"]) == ("no-referrer", True)
    user.refresh_from_db()
    assert not user.has_usable_password()


# --- The whole way -----------------------------------------------------------------------------------------------


def test_invited_user_sets_a_password_and_a_device(superuser: Client, mailbox: Mailbox) -> None:
    assert invite(superuser)["Location"] == page_of("olga")
    (message,) = mailbox.messages
    assert (message["To"], message["From"]) == ("olga@example.org", "callerid@example.org")
    body = message.get_content()
    assert "the superuser has invited you to the Caller ID console as olga." in body
    client, link = Client(), url_in(body)
    response = client.get(link)
    form = response["Location"]
    assert (response.status_code, response["Referrer-Policy"]) == (302, "no-referrer")
    assert link.split("/")[-2] not in form
    page = client.get(form)
    assert "no-store" in page["Cache-Control"]
    assert "You were invited as <strong>olga</strong>" in page.text
    assert use(client, form)["Location"] == SET_UP
    assert not is_in(client)
    for name in ("accounts_apitoken_changelist", "second_factor", "password_change"):
        assert client.get(reverse(f"admin:{name}"))["Location"].startswith(LOGIN), name
    assert "This link does not work" in client.get(link).text
    secret, codes = set_up(client, NEW)
    assert len(codes) == 10
    assert is_in(client)
    assert client.get(reverse("admin:accounts_apitoken_changelist")).status_code == 200
    olga = User.objects.get(username="olga")
    entries = LogEntry.objects.filter(object_id=olga.pk, content_type__model="user").order_by("pk")
    assert [entry.get_change_message().partition(" from ")[0] for entry in entries] == [
        "Invited, with operator.",
        "Accepted the invitation and set a password.",
        "Set up two-factor authentication.",
        "Logged in to the console",
    ]
    later = Client()
    assert later.post(LOGIN, {"username": "olga", "password": NEW}).status_code == 302
    assert not is_in(later)
    assert later.post(reverse("admin:second_factor_verify"), {"code": totp.code(secret, 1)})["Location"] == INDEX


def test_invited_user_cannot_skip_two_factor_authentication() -> None:
    user, link = invited()
    client = Client()
    use(client, follow(client, link))
    again = Client()
    assert again.post(LOGIN, {"username": "olga", "password": NEW}).status_code == 302
    assert (is_in(client), is_in(again)) == (False, False)
    set_up(again, NEW)
    assert is_in(again)
    remove = change(again, REMOVE, NEW)
    assert remove.status_code == 302
    assert not is_in(again)
    assert second_factor.is_required(user)


# --- Links that must not work --------------------------------------------------------------------------------------


def test_link_works_once() -> None:
    user, link = invited()
    client, other = Client(), Client()
    form, other_form = follow(client, link), follow(other, link)
    assert use(client, form)["Location"] == SET_UP
    refused = use(other, other_form, "another good password")
    assert (refused.status_code, "This link does not work" in refused.text) == (404, True)
    with pytest.raises(invitations.NotPending):  # the use that has checked the link before the other one
        invitations.accept(user, "another good password")
    user.refresh_from_db()
    assert user.check_password(NEW)


def test_expired_link_is_refused(settings: Any) -> None:
    user, link = invited()
    settings.PASSWORD_RESET_TIMEOUT = -1
    assert_refused(link, user)


def test_new_invitation_invalidates_the_earlier_link(superuser: Client, mailbox: Mailbox) -> None:
    user, link = invited()
    assert superuser.post(reverse("admin:auth_user_invite_again", args=[user.pk]))["Location"] == page_of("olga")
    assert_refused(link, user)
    follow(Client(), url_in(mailbox.messages[0].get_content()))


def test_withdrawn_invitation_is_refused_until_renewed(superuser: Client) -> None:
    user, link = invited()
    superuser.post(reverse("admin:auth_user_withdraw_invitation", args=[user.pk]))
    assert_refused(link, user)
    User.objects.filter(pk=user.pk).update(is_active=True)  # by hand, on the user's page
    assert_refused(link, user)
    page = superuser.post(reverse("admin:auth_user_invite_again", args=[user.pk]))
    assert_refused(link, user)
    follow(Client(), url_in(page.text))
    assert User.objects.get(pk=user.pk).is_active


@pytest.mark.parametrize("change", [{"is_active": False}, {"email": "other@example.org"}])
def test_link_of_a_changed_user_is_refused(change: dict[str, Any]) -> None:
    user, link = invited()
    User.objects.filter(pk=user.pk).update(**change)
    assert_refused(link, user)


def test_link_is_refused_after_a_superuser_set_a_password(superuser: Client) -> None:
    user, link = invited()
    user.set_password("set by the superuser")
    user.save()
    assert Client().get(link).status_code == 404
    for action in ("invite_again", "withdraw_invitation"):
        refused = superuser.post(reverse(f"admin:auth_user_{action}", args=[user.pk])).text
        assert "This user was not invited, or has set a password." in refused


def test_tampered_link_is_refused(boss: User) -> None:
    user, link = invited()
    _, other_link = invited("ivan")
    *_, uid, token, _ = link.split("/")
    *_, other_uid, other_token, _ = other_link.split("/")
    flipped = token[:-1] + ("0" if token[-1] != "0" else "1")
    timestamp, _, signature = token.partition("-")
    pairs = [(uid, flipped), (uid, other_token), (other_uid, token), (uid, f"zzzzzz-{signature}"), (uid, timestamp)]
    pairs += [("MQ", token), ("x", token), ("OTk5OTk5OTk5OTk5OTk5OTk5OTk5", token), (uid, "set-password"), (uid, "-")]
    for changed_uid, changed_token in pairs:
        assert_refused(reverse("admin:invitation", args=[changed_uid, changed_token]), user)
    form = follow(Client(), link)
    assert_refused(form, user)  # in a session that has not opened the link


def test_link_ends_the_session_of_another_user(superuser: Client) -> None:
    _, link = invited()
    assert use(superuser, follow(superuser, link))["Location"] == SET_UP
    assert superuser.get(SET_UP).context["user"].username == "olga"
    assert not is_in(superuser)


def test_guessing_links_is_limited(settings: Any) -> None:
    settings.ADMIN_LOGIN_RATE = (10, 3600)
    _, link = invited()
    client = Client()
    guess = reverse("admin:invitation", args=["MQ", "d0000-00000000000000000000000000000000"])
    assert {client.get(guess).status_code for _ in range(10)} == {404}
    limited = client.get(link)
    assert (limited.status_code, "Retry-After" in limited) == (429, True)


def test_weak_password_is_refused() -> None:
    user, link = invited()
    client = Client()
    page = use(client, follow(client, link), "olga@example.org")
    assert 'id="id_new_password2_error"' in page.text
    user.refresh_from_db()
    assert not user.has_usable_password()


def test_link_begins_with_the_public_address(superuser: Client, mailbox: Mailbox, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["callerid.example.org", "testserver"]
    invite(superuser)
    assert "http://testserver/admin/" in mailbox.messages[0].get_content()
    settings.PUBLIC_URL = "https://callerid.example.org"
    invite(superuser, "ivan")
    assert "https://callerid.example.org/admin/" in mailbox.messages[1].get_content()
    refused = superuser.post(INVITE, {"username": "eve", "email": "e@example.org"}, headers={"Host": "evil.example"})
    assert (refused.status_code, User.objects.filter(username="eve").exists()) == (400, False)


# --- The superuser's pages -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("refuse", [{"RCPT": "550 no such user"}, {"CONNECT": "421 busy"}])
def test_link_is_shown_once_if_the_mail_fails(superuser: Client, mailbox: Mailbox, refuse: dict[str, str]) -> None:
    mailbox.refuse |= refuse
    page = invite(superuser)
    assert "The mail server did not accept the e-mail to olga@example.org." in page.text
    assert "no-store" in page["Cache-Control"]
    link = url_in(page.text)
    for name in (PENDING, page_of("olga")):
        assert link.split("/")[-2] not in superuser.get(name).text
    follow(Client(), link)


def test_link_is_shown_if_email_is_not_configured(superuser: Client, caplog: pytest.LogCaptureFixture) -> None:
    assert "e-mail is not configured" in superuser.get(INVITE).text
    caplog.set_level("DEBUG")
    link = url_in(invite(superuser).text)
    client = Client()
    use(client, follow(client, link))
    token = link.split("/")[-2]
    assert token not in caplog.text
    assert "invitation accepted: user=olga" in caplog.text
    assert not LogEntry.objects.filter(change_message__contains=token).exists()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"groups": []}, "Select at least one role"),
        ({"email": ""}, "This field is required"),
        ({"email": "olga@example.org\r\nBcc: eve@example.org"}, "Enter a valid email address"),
        ({"username": "boss"}, "already exists"),
        ({"username": "a b (c)"}, "Enter a valid username"),
    ],
)
def test_invalid_invitation_creates_nobody(superuser: Client, boss: User, fields: dict[str, Any], message: str) -> None:
    before = User.objects.count()
    assert message in invite(superuser, **fields).text
    assert (User.objects.count(), Invitation.objects.count()) == (before, 0)


def test_list_shows_pending_invitations_only(superuser: Client) -> None:
    invited("waiting")
    expired, _ = invited("expired")
    Invitation.objects.filter(pk=expired.pk).update(sent_at=timezone.now() - timedelta(days=3, seconds=1))
    gone, _ = invited("gone")
    invitations.withdraw(gone)
    _, link = invited("done")
    client = Client()
    use(client, follow(client, link))
    listed = superuser.get(PENDING).context["cl"].result_list
    states = {user.username: invitations.described(user) for user in listed}
    assert {name: re.split("[,;] | [0-9]", state)[0] for name, state in states.items()} == {
        "waiting": "Invited",
        "expired": "Invitation expired",
        "gone": "Invitation withdrawn",
    }
    assert all("by " in state for state in states.values())
    pages = {name: superuser.get(page_of(name)).text for name in (*states, "done")}
    assert {name for name, page in pages.items() if "Invite again" in page} == set(states)
    assert {name for name, page in pages.items() if "this form</a>" in page} == {"done"}
    assert {name for name, page in pages.items() if "Withdraw invitation" in page} == {"waiting", "expired"}
    auditor = logged_in("auditor").get(page_of("waiting")).text
    assert "waiting@example.org" in auditor
    assert "Invited, until" in auditor
    assert "Withdraw invitation" not in auditor


# --- The command ---------------------------------------------------------------------------------------------------


def command(*arguments: str) -> str:
    out = StringIO()
    call_command("invite_user", *arguments, stdout=out)
    return out.getvalue()


def test_command_sends_or_prints_the_link(settings: Any, mailbox: Mailbox) -> None:
    settings.PUBLIC_URL = "https://callerid.example.org"
    assert "Sent the invitation of olga." in command("olga", "olga@example.org", "--role", "operator")
    follow(Client(), url_in(mailbox.messages[0].get_content()))
    printed = command("ivan", "ivan@example.org", "--superuser", "--print-link")
    follow(Client(), url_in(printed))
    mailbox.refuse["RCPT"] = "550 no"
    assert "did not accept" in command("eve", "eve@example.org", "--role", "viewer")
    assert (len(mailbox.messages), User.objects.get(username="ivan").is_superuser) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["olga", "olga@example.org"], "Give --role"),
        (["olga", "olga@example.org", "--role", "boss"], "There is no role boss. The roles are: auditor,"),
        (["olga", "olga", "--role", "viewer"], "valid email"),
        (["boss", "olga@example.org", "--role", "viewer"], "already exists"),
    ],
)
def test_command_refuses(settings: Any, boss: User, arguments: list[str], message: str) -> None:
    settings.PUBLIC_URL = "https://callerid.example.org"
    with pytest.raises(CommandError, match=message):
        command(*arguments)
    settings.PUBLIC_URL = ""
    with pytest.raises(CommandError, match="Set PUBLIC_URL"):
        command("ivan", "ivan@example.org", "--superuser")
    assert Invitation.objects.count() == 0


class MeetingHasher(MD5PasswordHasher):
    """Hashes when as many threads do as `meeting` has places, as if hashing took long."""

    meeting: ClassVar[Barrier]

    def encode(self, password: str, salt: str) -> str:
        with suppress(BrokenBarrierError):  # the others were refused before they hashed
            self.meeting.wait(3)
        return super().encode(password, salt)


@pytest.mark.django_db(transaction=True)
def test_one_of_twelve_concurrent_uses_sets_the_password(settings: Any) -> None:
    """The others wait for no password to be hashed: a lock held meanwhile would outlast their timeout."""
    settings.PASSWORD_HASHERS = [f"{__name__}.MeetingHasher"]
    user, link = invited()
    clients = [Client(raise_request_exception=False) for _ in range(12)]
    forms = [follow(client, link) for client in clients]
    MeetingHasher.meeting = Barrier(4)  # on PostgreSQL there are only five connections

    def accept(client: Client, form: str, number: int) -> Any:
        try:
            return use(client, form, f"{NEW} {number}")
        finally:
            connection.close()

    with ThreadPoolExecutor(len(clients)) as pool:
        responses = list(pool.map(accept, clients, forms, range(len(clients))))
    MeetingHasher.meeting = Barrier(1)
    assert Counter(response.status_code for response in responses) == {302: 1, 404: 11}
    assert all("was used already" in response.text for response in responses if response.status_code == 404)
    user.refresh_from_db()
    winner = next(number for number, response in enumerate(responses) if response.status_code == 302)
    assert user.check_password(f"{NEW} {winner}")
    assert LogEntry.objects.filter(change_message__contains="Accepted the invitation").count() == 1
