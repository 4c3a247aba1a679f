"""A browser with the real service, one process for all of these tests.

Nothing here uses the ORM; tests read the database through `service.manage`. Playwright runs an event loop in this
thread, where Django refuses to use the ORM: so the browser has package scope and is closed before any other test runs.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests import plugin
from tests.browser.watch import Watch
from tests.servers import Unavailable, fresh_database, required
from tests.service import Service, serving
from tests.smtp import Mailbox, mail_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="package")
def browser() -> Iterator["Browser"]:
    with required():
        names = ("chromium", "chromium-browser", "google-chrome")
        executable = next(filter(None, map(shutil.which, names)), None)
        if executable is None:
            raise Unavailable(f"there is no browser on PATH: {', '.join(names)}")
    from playwright.sync_api import sync_playwright

    # Chromium's sandbox refuses root, and a container's /dev/shm is too small for it.
    arguments = [*(["--no-sandbox"] if os.getuid() == 0 else []), "--disable-dev-shm-usage"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def mailbox() -> Iterator[Mailbox]:
    """The mail server of the service."""
    with mail_server() as mailbox:
        yield mailbox


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory, mailbox: Mailbox) -> Iterator[Service]:
    """With the sample data and one superuser. No test empties its database: each creates the tokens it needs."""
    from tests.browser.pages import ADMIN, PASSWORD

    fill = f"""
from django.contrib.auth import get_user_model
from phonebook.imports.sample_data import load_sample_data
load_sample_data()
get_user_model().objects.create_superuser({ADMIN!r}, password={PASSWORD!r})
"""
    with ExitStack() as opened:
        environment = {
            "RATE_LIMIT": "1000/m",
            "EMAIL_URL": f"smtp://127.0.0.1:{mailbox.port}",
            "EMAIL_FROM": "callerid@example.org",
            "CREDIT_PRICE": "0.02",
            **plugin.of_addons("BROWSER_ENVIRONMENT"),
        }
        if plugin.production():
            environment["DATABASE_URL"] = opened.enter_context(fresh_database(plugin.named["DATABASE_URL"]))
            environment["REDIS_URL"] = plugin.named["REDIS_URL"]
        shared = tmp_path_factory.getbasetemp()
        service = opened.enter_context(serving(tmp_path_factory.mktemp("browser"), environment, shared=shared))
        service.manage("shell", "-c", fill)
        yield service


@pytest.fixture(scope="package")
def command(service: Service) -> Callable[..., str]:
    """`command("list_tokens", "--json")`: the output of manage.py."""
    return service.manage


@dataclass(frozen=True, slots=True)
class MadeToken:
    id: int
    name: str
    key: str


@pytest.fixture
def make_token(command: Callable[..., str], request: pytest.FixtureRequest) -> Callable[..., MadeToken]:
    """`make_token(credits=30)`: a token named after the test."""

    def make(*, credits: int) -> MadeToken:
        name = request.node.name.replace("_", " ")
        made = json.loads(command("create_token", name, f"--credits={credits}", "--json"))
        return MadeToken(made["id"], name, made["api_key"])

    return make


Account = Callable[[MadeToken], dict[str, Any]]


@pytest.fixture
def account(command: Callable[..., str]) -> Account:
    """`account(token)`: the token's entry in list_tokens. Fails unless every balance agrees with the ledger."""

    def read(token: MadeToken) -> dict[str, Any]:
        command("audit_credits")
        listed: list[dict[str, Any]] = json.loads(command("list_tokens", "--json"))
        return next(row for row in listed if row["id"] == token.id)

    return read


@pytest.fixture
def watch(service: Service) -> Iterator[Watch]:
    """Fails the test at its end if its pages had an error; `watch.expect_status(404)` allows an expected one."""
    watch = Watch(service.url)
    yield watch
    assert not watch.problems, "\n".join(watch.problems)


@contextmanager
def _open(browser: "Browser", service: Service, watch: Watch, session: Any = None) -> Iterator["Page"]:
    context = browser.new_context(
        base_url=service.url, storage_state=session, viewport={"width": 1440, "height": 900}, reduced_motion="reduce"
    )
    watch.attach(context)
    with context:
        yield context.new_page()
        # Resources that are still loading may fail.
        for page in context.pages:
            page.wait_for_load_state()


@pytest.fixture
def page(browser: "Browser", service: Service, watch: Watch) -> Iterator["Page"]:
    """A new browser window, not logged in; URLs are relative to the service."""
    with _open(browser, service, watch) as page:
        yield page


@pytest.fixture(scope="package")
def _admin_session(browser: "Browser", service: Service) -> Any:
    from tests.browser.pages import login

    with browser.new_context(base_url=service.url) as context:
        page = context.new_page()
        login(page)
        page.wait_for_url("**/admin/")
        return context.storage_state()


@pytest.fixture
def admin_page(browser: "Browser", service: Service, watch: Watch, _admin_session: Any) -> Iterator["Page"]:
    """The same, logged in as the superuser."""
    with _open(browser, service, watch, _admin_session) as page:
        yield page


# A month of a service, a token in every state, the longest names, and rows that only operators create.
_FILL = """
import json
from datetime import timedelta
from django.utils import timezone
from accounts import credits, tokens
from accounts.models import ApiToken, CreditEntry, Customer, TokenDay
from lookup.models import SourceCheck, SourcePause
from tests.month import fill
from tests.plugin import of_addons
now, made = timezone.now(), fill()
name = "A customer whose name is as long as the field admits it, incorporated in 1987, of Springfield"
for model in (Customer, ApiToken):
    model.objects.filter(pk=made[model._meta.model_name.removeprefix("api")]).update(name=name)
customer = Customer.objects.get(pk=made["customer"])
credits.refund(entry=CreditEntry.objects.get(pk=made["search"]), actor="boss", reason="the customer was right")
tokens.revoke(token=tokens.issue(name="revoked", initial_credits=5, actor="boss").token, reason="lost laptop")
tokens.rotate(token=tokens.issue(name="rotated", initial_credits=0, actor="boss").token, grace=timedelta(hours=5))
tokens.revoke(token=tokens.issue(name="old shop", initial_credits=5, actor="boss", customer=customer).token)
test_token = tokens.issue(
    name="sandbox", actor="boss", is_test=True, reason="for the integrator", customer=customer
).token
TokenDay.objects.bulk_create(
    TokenDay(token=test_token, day=(now - timedelta(days=back)).date(), outcome="test", count=3 + back % 9)
    for back in range(30)
)
SourcePause.objects.create(
    connector="geography", paused_by="admin", reason="The numbering plan has wrong places since the last upgrade."
)
SourceCheck.objects.create(
    connector="complaints", started_by="admin", started_at=now, finished_at=now,
    result={
        "outcome": "auth", "ok": False, "ms": 212.5, "fields": [], "samples": [
            {"title": "a caller with a name", "problem": ""},
            {"title": "a key that is rejected", "problem": "expected auth, got unavailable"},
        ],
        "fix": "401: the key is rejected; check TWILIO_ACCOUNT_SID and TWILIO_AUTH_TOKEN.",
    },
)
for add in of_addons("BROWSER_ROWS").values():
    made |= add(made, customer)
other = CreditEntry.objects.filter(token=made["token"], kind="search").exclude(pk=made["search"]).latest("created_at")
print(json.dumps({**made, "test_token": test_token.pk, "other": other.pk}))
"""


@pytest.fixture(scope="package")
def filled(service: Service) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(service.manage("shell", "-c", _FILL).splitlines()[-1])
    return made
