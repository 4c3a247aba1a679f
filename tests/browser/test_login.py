from tests.browser.pages import ADMIN, Page, expect, login, screenshots


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
