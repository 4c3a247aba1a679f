from tests.browser.pages import ADMIN, Page, assert_accessible, assert_not_cut, expect, login, screenshots


def test_login_page_is_accessible(page: Page) -> None:
    page.goto("/admin/login/")
    assert_accessible(page)
    assert_not_cut(page)
    screenshots(page, "login")


def test_login_opens_the_console_and_logout_closes_it(page: Page) -> None:
    login(page)
    expect(page).to_have_url("/admin/")
    expect(page.get_by_role("link", name="API tokens").first).to_be_visible()
    screenshots(page, "index")

    page.get_by_role("button", name=ADMIN).press("Enter")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_text("Logged out")).to_be_visible()
    page.goto("/admin/")
    expect(page).to_have_url("/admin/login/?next=/admin/")


def test_wrong_password_is_refused_with_a_message(page: Page) -> None:
    login(page, ADMIN, "wrong")
    expect(page.get_by_text("Please enter the correct username and password")).to_be_visible()
    screenshots(page, "login-refused")
    page.goto("/admin/")
    expect(page).to_have_url("/admin/login/?next=/admin/")
