"""Forms in the browser: errors at their fields, and what was entered when the session had ended."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.conftest import Account, MadeToken
from tests.browser.pages import PASSWORD, Page, assert_accessible, expect, fill_in_top_up, login
from tests.browser.test_tokens import TOKENS
from tests.service import Service

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

pytestmark = pytest.mark.once

MakeToken = Callable[..., MadeToken]
SIZES = ({"width": 1280, "height": 720}, {"width": 390, "height": 664})
_IS_UNCOVERED = """field => {
    const { x, y, width, height } = field.getBoundingClientRect();
    const top = document.elementFromPoint(x + Math.min(width, innerWidth) / 2, y + height / 2);
    return y >= 0 && y + height <= innerHeight && (top === field || field.contains(top) || top?.contains(field));
}"""


def assert_focused(field: "Locator") -> None:
    expect(field).to_be_focused()
    expect(field).to_have_attribute("aria-invalid", "true")
    assert field.evaluate(_IS_UNCOVERED), "the field is not on the screen"
    ids = (field.get_attribute("aria-describedby") or "").split()
    assert [field.page.locator(f"[id='{each}']").count() for each in ids] == [1] * len(ids)
    assert any(each.endswith("_error") for each in ids)


def set_size(page: Page, size: Any) -> None:
    page.set_viewport_size(size)


# --- Errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size["width"]))
def test_no_error_of_a_form_hides_another(admin_page: Page, make_token: MakeToken, size: Any) -> None:
    page, token = admin_page, make_token(credits=1)
    set_size(page, size)
    page.goto(f"{TOKENS}{token.id}/top-up/")
    page.get_by_label("Amount").fill("-1")
    page.get_by_label(re.compile("^Price")).fill("-2")
    page.get_by_role("button", name="Top up").click()
    assert_focused(page.get_by_label("Amount"))
    for name, text in (
        ("amount", "greater than or equal to 1"),
        ("price", "or equal to 0"),
        ("reason", "Enter a reason"),
    ):
        expect(page.locator(f"#id_{name}_error")).to_contain_text(text)
    expect(page.get_by_role("alert").get_by_role("link")).to_have_text(["Amount", "Price", "Reason"])
    assert_accessible(page)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size["width"]))
def test_error_below_the_fold_is_scrolled_to(admin_page: Page, size: Any) -> None:
    page = admin_page
    set_size(page, size)
    page.goto(f"{TOKENS}add/")
    page.get_by_label("Name", exact=True).fill("shop")
    page.get_by_label("Reason").fill("")
    page.get_by_role("button", name="Issue").click()
    assert_focused(page.get_by_label("Reason"))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size["width"]))
def test_error_of_an_added_row_is_focused(admin_page: Page, size: Any) -> None:
    page = admin_page
    set_size(page, size)
    page.goto("/admin/accounts/customer/add/")
    page.locator("#id_name").fill("Example Ltd")
    page.get_by_text("Add a contact").click()
    page.locator("#id_contacts-0-name").fill("Ann")
    page.locator("#id_contacts-0-email").fill("ann")
    page.get_by_role("button", name="Save", exact=True).click()
    assert_focused(page.locator("#id_contacts-0-email"))


def test_service_error_is_at_its_field(admin_page: Page, make_token: MakeToken) -> None:
    page, token = admin_page, make_token(credits=1)
    page.goto(f"{TOKENS}{token.id}/adjust/")
    page.get_by_label("Amount").fill("-5")
    page.get_by_label(re.compile("^Reason")).fill("test")
    page.get_by_label("I understand").check()
    page.get_by_role("button", name="Adjust").click()
    assert_focused(page.get_by_label("Amount"))


def test_login_names_both_empty_fields(page: Page) -> None:
    page.goto("/admin/login/?next=/admin/")
    page.get_by_role("button", name="Log in").click()
    assert_focused(page.get_by_label("Username"))
    expect(page.locator("#id_password_error")).to_be_visible()


# --- A session that has ended ----------------------------------------------------------------------------------------


def end_session(page: Page, service: Service) -> None:
    page.context.add_cookies([{"name": "sessionid", "value": "ended", "url": service.url}])


def log_in_again(page: Page, username: str = "admin") -> None:
    page.get_by_label("Username").fill(username)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()


KEPT = "Your session has ended. Log in again; what you entered is kept."


def test_ended_session_keeps_amount_and_reason(
    admin_page: Page, service: Service, make_token: MakeToken, account: Account
) -> None:
    page, token = admin_page, make_token(credits=1)
    page.goto(f"{TOKENS}{token.id}/top-up/")
    once = page.locator("[name=once]").input_value()
    page.get_by_label("Amount").fill("7")
    page.get_by_label(re.compile("^Reason")).fill("paid by cheque")
    end_session(page, service)
    page.get_by_role("button", name="Top up").click()
    expect(page.get_by_text(KEPT)).to_be_visible()
    assert_accessible(page)
    log_in_again(page)
    expect(page.get_by_text("What you entered before you logged in again is filled in.")).to_be_visible()
    expect(page.get_by_label("Amount")).to_have_value("7")
    expect(page.get_by_label(re.compile("^Reason"))).to_have_value("paid by cheque")
    assert page.locator("[name=once]").input_value() != once
    page.get_by_role("button", name="Top up").click()
    expect(page.get_by_text("Added ledger entry")).to_be_visible()
    assert account(token)["credits"] == 8
    assert page.evaluate("sessionStorage.length") == 0


def test_ended_session_keeps_added_contacts(admin_page: Page, service: Service) -> None:
    page = admin_page
    service.manage("create_customer", "Kept Ltd", "--contact=old@example.org")
    page.goto("/admin/accounts/customer/?q=Kept+Ltd")
    page.locator("#result_list").get_by_role("link", name="Kept Ltd").click()
    page.get_by_role("link", name="Edit", exact=True).click()
    page.wait_for_load_state()
    page.get_by_text("Add a contact").click()
    page.locator("#id_contacts-0-name").fill("Ann")
    page.locator("#id_contacts-1-email").fill("new@example.org")
    page.locator("#id_contacts-1-low_balance").uncheck()
    end_session(page, service)
    page.get_by_role("button", name="Save", exact=True).click()
    log_in_again(page)
    expect(page.locator("#id_contacts-1-email")).to_have_value("new@example.org")
    expect(page.locator("#id_contacts-1-low_balance")).not_to_be_checked()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    contacts = "CustomerContact.objects.filter(customer__name='Kept Ltd').values_list('email', flat=True)"
    listed = service.manage("shell", "-c", f"from accounts.models import CustomerContact; print(*{contacts})")
    assert "new@example.org" in listed
    assert "old@example.org" in listed


def test_ended_session_keeps_the_selected_tokens(
    admin_page: Page, service: Service, make_token: MakeToken, account: Account
) -> None:
    page, one, other = admin_page, make_token(credits=1), make_token(credits=2)
    fill_in_top_up(page, "keeps the selected", one.id, other.id)
    end_session(page, service)
    page.get_by_role("button", name="Top up").click()
    log_in_again(page)
    expect(page.get_by_label("Amount")).to_have_value("5")
    page.get_by_role("button", name="Top up").click()
    expect(page.get_by_text("Added 5 credits to each of 2 tokens.")).to_be_visible()
    assert [account(token)["credits"] for token in (one, other)] == [6, 7]


def test_ended_session_keeps_ticked_roles_and_others_changes(admin_page: Page, service: Service) -> None:
    """Boxes that were restored by their place have been reported as FThompson/FormPersistence.js#16 and
    brainfoolong/form-data-json#35."""
    page = admin_page
    make = "from django.contrib.auth.models import Group, User; u = User.objects.create_user('kept', is_staff=True)"
    roles = "[Group.objects.create(name=n) for n in ('m', 'o', 'q')]"
    service.manage("shell", "-c", f"{make}; u.groups.add(*{roles}[:1])")
    page.goto("/admin/auth/user/?q=kept")
    page.locator("#result_list").get_by_role("link", name="kept").click()
    page.get_by_label("o", exact=True).check()
    granted = "Group.objects.create(name='n'), Group.objects.get(name='q')"
    service.manage(
        "shell",
        "-c",
        f"from django.contrib.auth.models import Group, User; User.objects.get(username='kept').groups.add({granted})",
    )
    end_session(page, service)
    page.get_by_role("button", name="Save", exact=True).click()
    log_in_again(page)
    expect(page.get_by_text("What you entered before you logged in again is filled in.")).to_be_visible()
    for role, is_ticked in (("m", True), ("n", False), ("o", True), ("q", False)):
        expect(page.get_by_label(role, exact=True)).to_be_checked(checked=is_ticked)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    listed = "from django.contrib.auth.models import Group; print(*Group.objects.filter(user__username='kept'))"
    assert sorted(service.manage("shell", "-c", listed).split()[-4:]) == ["m", "n", "o", "q"]


def test_another_user_does_not_get_what_was_entered(admin_page: Page, service: Service, make_token: MakeToken) -> None:
    page, token = admin_page, make_token(credits=1)
    make = "from django.contrib.auth.models import User; User.objects.create_superuser('second', password="
    service.manage("shell", "-c", f"{make}{PASSWORD!r})")
    page.goto(f"{TOKENS}{token.id}/top-up/")
    page.get_by_label("Amount").fill("7")
    end_session(page, service)
    page.get_by_role("button", name="Top up").click()
    expect(page.get_by_text(KEPT)).to_be_visible()
    log_in_again(page, "second")
    expect(page.get_by_label("Amount")).to_have_value("")
    page.wait_for_function("sessionStorage.length === 0")


def test_searches_tokens_and_secrets_are_not_kept(admin_page: Page, service: Service, make_token: MakeToken) -> None:
    page, token = admin_page, make_token(credits=1)
    page.goto(f"{TOKENS}{token.id}/top-up/")
    page.get_by_label("Amount").fill("7")
    page.get_by_label(re.compile("^Reason")).fill(f"for {token.key}")
    end_session(page, service)
    page.get_by_role("button", name="Top up").click()
    expect(page.get_by_text(KEPT)).to_be_visible()
    kept = page.evaluate("sessionStorage.getItem('console-form')")
    assert '"amount"' in kept
    assert token.key not in kept
    assert "csrf" not in kept
    assert '"once"' not in kept


def test_first_visit_names_no_ended_session(page: Page) -> None:
    page.goto("/admin/")
    expect(page.get_by_label("Username")).to_be_visible()
    expect(page.get_by_text("session has ended")).to_have_count(0)


def test_ended_session_is_named_when_a_page_is_opened(page: Page, service: Service) -> None:
    end_session(page, service)
    page.goto("/admin/accounts/apitoken/")
    expect(page.get_by_text("Your session has ended. Log in again.")).to_be_visible()
    login(page)
    page.wait_for_url("**/admin/")
    page.get_by_role("link", name="API tokens").first.wait_for()
    page.context.clear_cookies(name="sessionid")
    page.goto("/admin/")
    expect(page.get_by_text("session has ended")).to_have_count(0)


def test_without_scripts_the_login_says_what_was_not_saved(
    browser: "Browser", service: Service, admin_page: Page, make_token: MakeToken
) -> None:
    token, session = make_token(credits=1), admin_page.context.storage_state()
    with browser.new_context(base_url=service.url, storage_state=session, java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{TOKENS}{token.id}/top-up/")
        page.locator("[name=amount]").fill("7")
        end_session(page, service)
        page.locator("form[data-keep] [type=submit]").click()
        expect(page.locator("#session-ended")).to_have_text(
            "Your session has ended. What you submitted was not saved. Log in again."
        )


def test_form_without_a_kept_field_is_not_said_to_be_filled(admin_page: Page) -> None:
    page = admin_page
    page.goto("/admin/phonebook/contact/add/")
    kept = "{user: document.getElementById('console-user').dataset.user, path: location.pathname, loggedIn: true"
    page.evaluate(f"sessionStorage.setItem('console-form', JSON.stringify({kept}, values: [['gone', ['x']]]}}))")
    page.reload()
    page.wait_for_function("sessionStorage.length === 0")
    expect(page.locator(".console-kept")).to_have_count(0)
