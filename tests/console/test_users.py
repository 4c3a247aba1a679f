"""The pages of users and roles, and the history of what users did."""

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from console.models import Invitation
from console.roles import SENTENCES
from tests.console.console_rows import database, filled
from tests.console.role_table import PAGES, address, answer, logged_in, requests
from tests.console_pages import words
from tests.plugin import of_addons

pytestmark = [pytest.mark.django_db, pytest.mark.once]
INVITE = reverse("admin:auth_user_invite")


def test_only_superusers_can_change_users_and_roles(rows: dict[str, Model]) -> None:
    every = Permission.objects.all()
    Group.objects.get(name="operator").permissions.set(every)
    client, boss = logged_in("operator"), logged_in("superuser")
    for model, verb in PAGES:
        if model.startswith("auth.") and verb not in ("list", "view", "history"):
            sent, before = list(requests(model, verb, rows[model], boss)), database()
            assert {answer(client, request, before) for request in sent} == {"-"}


def test_roles_are_offered_from_least_to_most_and_explained(boss: User) -> None:
    superuser = logged_in("superuser")
    Group.objects.create(name="accountant")
    roles = ("viewer", "auditor", "billing", "support", "operator")
    expected = [*(f"{role}: {SENTENCES[role]}" for role in roles), "accountant"]
    assert "SUPPORT_CREDITS_PER_DAY" in expected[2]
    expected[2] = expected[2].replace("within SUPPORT_CREDITS_PER_DAY", "up to 1,000 credits a day")
    for url in (INVITE, reverse("admin:auth_user_change", args=[boss.pk])):
        context = superuser.get(url).context
        form = context["adminform"].form if "adminform" in context else context["form"]
        assert [label for _, label in form.fields["groups"].choices] == expected


def test_users_are_invited_or_added_with_a_password() -> None:
    superuser, add = logged_in("superuser"), reverse("admin:auth_user_add")
    listed = superuser.get(reverse("admin:auth_user_changelist")).text
    assert (f'href="{INVITE}"' in listed, add in listed) == (True, False)
    assert f'href="{add}"' in superuser.get(INVITE).text
    assert "For a user without an e-mail address" in superuser.get(add).text


def test_superuser_adds_an_operator_in_one_step() -> None:
    client, url = logged_in("superuser"), reverse("admin:auth_user_add")
    page = client.get(url)
    assert page.context["adminform"].form["is_staff"].value() is True
    for address_of_form in (url, INVITE):
        assert SENTENCES["support"] in client.get(address_of_form).text
    operator = Group.objects.get(name="operator")
    password = "A long enough one"
    client.post(url, filled(page, username="olga", password1=password, password2=password, groups=[operator.pk]))
    made = User.objects.get(username="olga")
    assert (made.is_staff, made.is_superuser, list(made.groups.all())) == (True, False, [operator])
    assert Client().login(username="olga", password=password)
    assert made.has_perms(["accounts.give_any_credits", "phonebook.delete_contact"])


def test_user_without_a_role_is_saved_with_a_warning() -> None:
    client, warning = logged_in("superuser"), "has no role"
    page = client.get(address("auth.user", "add"))
    password = {"password1": "A long enough one", "password2": "A long enough one"}
    added = client.post(address("auth.user", "add"), filled(page, username="olga", **password), follow=True)
    assert f"olga {warning}" in added.text
    olga, viewer = User.objects.get(username="olga"), Group.objects.get(name="viewer")
    url = address("auth.user", "change", olga.pk)
    for fields, warned in (
        ({"groups": [viewer.pk]}, False),
        ({"groups": []}, True),
        ({"is_superuser": "on"}, False),
        ({"is_active": False, "is_superuser": False}, False),
    ):
        sent = {name: value for name, value in filled(client.get(url), **fields).items() if value is not False}
        assert (warning in client.post(url, sent, follow=True).text) == warned, fields


def test_user_name_cannot_be_changed(rows: dict[str, Model]) -> None:
    client, url = logged_in("superuser"), reverse("admin:auth_user_change", args=[rows["auth.user"].pk])
    assert client.post(url, filled(client.get(url), username="other", first_name="Sam")).status_code == 302
    user = User.objects.get(pk=rows["auth.user"].pk)
    assert (user.username, user.first_name) == ("somebody", "Sam")


def test_list_and_page_of_users_are_in_plain_words() -> None:
    boss = logged_in("superuser")
    User.objects.create_user("olga", "olga@example.org", is_staff=True)
    User.objects.create_user("left", is_staff=True, is_active=False)
    User.objects.create_user("guest")
    listed = words(boss.get(reverse("admin:auth_user_changelist")).text)
    for text in ("olga@example.org - active", "inactive", "may not log in", "Last login (UTC)", "superuser active"):
        assert text in listed, text
    page = boss.get(reverse("admin:auth_user_change", args=[User.objects.get(username="olga").pk])).text
    for text in (
        "Can log in to the console",
        "Has all permissions, even without a role.",
        "E-mail address",
        "Last login (UTC)",
    ):
        assert text in page, text
    for text in ("Designates", "150 characters or fewer", "pbkdf2", "Email address", "Save and add another"):
        assert text not in page, text


def test_role_form_offers_only_permissions_with_an_effect() -> None:
    page = logged_in("superuser").get(address("auth.group", "add"))
    offered = page.context["adminform"].form.fields["permissions"].queryset
    assert set(offered) == set(Permission.objects.filter(group__isnull=False))


def test_auditor_sees_no_password_hash(rows: dict[str, Model]) -> None:
    user = User.objects.get(pk=rows["auth.user"].pk)
    user.set_password("A long enough one")
    user.save()
    page = logged_in("auditor").get(reverse("admin:auth_user_change", args=[user.pk])).text
    *_, salt, digest = user.password.split("$")
    assert "somebody@example.org" in page
    assert salt not in page
    assert digest not in page


# --- History -----------------------------------------------------------------------------------------------------


def test_history_shows_user_action_object_and_message(rows: dict[str, Model]) -> None:
    client, contact = logged_in("superuser"), address("phonebook.contact", "change", str(rows["phonebook.contact"].pk))
    client.post(contact, filled(client.get(contact), name="renamed"))
    rule = str(rows["phonebook.numberrule"].pk)
    client.post(address("phonebook.numberrule", "delete", rule), {"post": "yes"})
    page = client.get(address("admin.logentry", "changelist")).text
    assert f'href="{contact}">contact 49********42</a>' in page
    assert "Changed Name." in page
    assert "rule 49********42" in page
    assert f'href="{address("phonebook.numberrule", "change", rule)}"' not in page
    assert all(word in page for word in ("the superuser", "changed", "deleted"))
    assert "renamed" not in page


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "accounts.apitoken": (
        {"name": "shop", "rate_limit": "90", "customer": "Example Ltd", "note": "hush"},
        'Changed Name from "pbx" to "shop", customer from nothing to "Example Ltd (#',
    ),
    "accounts.customer": (
        {"name": "Example Inc", "contacts-0-email": "hush@example.org"},
        'Changed Name from "Example Ltd" to "Example Inc". Changed E-mail address for customer contact “Contact ',
    ),
    "phonebook.numberrule": ({"name": "hush", "spam": "true"}, 'Changed Spam from nothing to "yes" and Name.'),
    "phonebook.contact": ({"name": "hush"}, "Changed Name."),
    "auth.user": (
        {"email": "hush@example.org", "is_active": ""},
        'Changed E-mail address and Active from "yes" to "no".',
    ),
    "auth.group": ({"name": "day shift"}, 'Changed Name from "night shift" to "day shift".'),
    **of_addons("CHANGES"),
}


@pytest.mark.parametrize("model", CHANGES)
def test_history_has_old_and_new_values_but_nothing_personal(rows: dict[str, Model], model: str) -> None:
    client, (fields, expected) = logged_in("superuser"), CHANGES[model]
    page = address(model, "edit" if model.startswith("accounts") else "change", str(rows[model].pk))
    assert client.post(page, filled(client.get(page), **fields)).status_code == 302
    entry = LogEntry.objects.get(user__username="the superuser")
    assert entry.get_change_message().startswith(expected)
    assert "hush" not in entry.get_change_message()


def test_history_has_the_roles_before_and_after(rows: dict[str, Model]) -> None:
    client, user = logged_in("superuser"), User.objects.get(pk=rows["auth.user"].pk)
    user.groups.add(*Group.objects.filter(name__in=["viewer", "auditor"]))
    page = address("auth.user", "change", str(user.pk))
    billing = Group.objects.get(name="billing")
    client.post(page, filled(client.get(page), groups=[billing.pk]))
    message = LogEntry.objects.get(user__username="the superuser").get_change_message()
    assert message == 'Changed Roles from "auditor, viewer" to "billing".'


def test_history_is_searched_by_user(rows: dict[str, Model]) -> None:
    client = logged_in("auditor")
    for term, found in (("BODY", 1), ("", 1), ("auditor", 0), ("nobody", 0)):
        response = client.get(address("admin.logentry", "changelist"), {"q": term})
        assert len(response.context["cl"].result_list) == found, term


def test_lists_run_a_fixed_number_of_queries(rows: dict[str, Model], django_assert_num_queries: Any) -> None:
    client = logged_in("superuser")
    for model in ("auth.user", "auth.group", "admin.logentry"):
        url = address(model, "changelist")
        client.get(url)
        with CaptureQueriesContext(connection) as few:
            client.get(url)
        for n in range(5):
            user = User.objects.create_user(f"{model} {n}")
            Invitation.objects.create(user=user, invited_by="boss")
            user.groups.set([*Group.objects.all(), Group.objects.create(name=f"{model} {n}")])
            LogEntry.objects.create(
                user=user,
                action_flag=n,
                content_type=ContentType.objects.get_for_model(user),
                object_id=str(user.pk),
                object_repr=str(user),
            )
        with django_assert_num_queries(len(few)):
            client.get(url)
