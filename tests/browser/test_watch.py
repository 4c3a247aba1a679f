"""Watch and the page assertions find what they must find."""

from collections.abc import Callable

import pytest

from tests.browser.pages import Page, assert_accessible, assert_not_cut, expect
from tests.browser.watch import Watch

pytestmark = pytest.mark.once

# The strictest policy: tests cannot inject scripts or styles into such a page.
STRICT = {"Content-Security-Policy": "default-src 'none'; script-src 'self'; require-trusted-types-for 'script'"}


@pytest.fixture
def show(page: Page) -> Callable[[str], None]:
    """`show(body)`: open a page of the service with this body."""

    def show(body: str) -> None:
        html = f"<!doctype html><html lang=en><title>Test</title><main><h1>Test</h1>{body}</main>"
        page.route("**/made-up", lambda route: route.fulfill(body=html, headers=STRICT, content_type="text/html"))
        page.goto("/made-up")

    return show


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("<script>1</script>", "console: "),
        ("<style>p { color: red }</style>", "console: "),
        ("<script src=/static/none.js></script>", "answer 404: GET "),
    ],
)
def test_page_error_is_a_problem(page: Page, watch: Watch, show: Callable[[str], None], body: str, said: str) -> None:
    show(body)
    page.wait_for_load_state()
    problems, watch.problems = watch.problems, []
    assert any(problem.startswith(said) for problem in problems), problems


def test_script_error_is_a_problem(page: Page, watch: Watch, show: Callable[[str], None]) -> None:
    show("")
    with page.context.expect_event("weberror"):
        page.evaluate("setTimeout(() => { throw new Error('of the page') })")
    problems, watch.problems = watch.problems, []
    assert problems == ["uncaught error: of the page"]


def test_request_to_another_origin_is_blocked(page: Page, watch: Watch) -> None:
    page.goto("about:blank")
    with page.expect_event("requestfailed"):
        page.evaluate("fetch('http://127.0.0.1:9/pixel', {mode: 'no-cors'}).catch(() => null)")
    problems, watch.problems = watch.problems, []
    assert problems[0] == "request to another origin: http://127.0.0.1:9/pixel"


def test_expected_status_is_not_a_problem(page: Page, watch: Watch) -> None:
    watch.expect_status(404)
    page.goto("/nowhere")
    expect(page.get_by_text("detail")).to_be_visible()
    assert watch.problems == []


def test_image_without_alt_text_is_not_accessible(page: Page, watch: Watch, show: Callable[[str], None]) -> None:
    show("<p>Words.</p>")
    assert_accessible(page)
    show("<img src=data:,>")
    with pytest.raises(AssertionError, match="image-alt at"):
        assert_accessible(page)
    problems, watch.problems = watch.problems, []
    assert all("image" in problem for problem in problems), "axe itself broke the page's policy"


def test_page_wider_than_a_phone_is_cut(page: Page, show: Callable[[str], None]) -> None:
    show("<p>Words.</p>")
    assert_not_cut(page)
    show(f"<p>{'x' * 200}</p>")
    with pytest.raises(AssertionError, match="in a window of"):
        assert_not_cut(page)
