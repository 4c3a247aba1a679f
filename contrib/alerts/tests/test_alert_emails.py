"""E-mails about alerts say the same as plain text and as HTML, and link to each alert."""

from email.message import EmailMessage
from html import unescape
from typing import Any

import pytest
from django.utils import timezone

from contrib.alerts import incidents, notices
from contrib.alerts.models import Incident
from monitoring.health.registry import Condition
from tests.smtp import Mailbox

pytestmark = pytest.mark.django_db

NAME = "מרפאה ברחוב <b>הנמל</b> & Co"
PUBLIC_URL = "https://callerid.example.org"


@pytest.fixture(autouse=True)
def alerts_on(settings: Any) -> None:
    settings.ALERT_EMAILS, settings.PUBLIC_URL = ["ops@example.org"], PUBLIC_URL


def send(mailbox: Mailbox, *conditions: Condition, event: str = "opened") -> EmailMessage:
    kinds = {each.kind: False for each in conditions}
    incidents.report(conditions=conditions, kinds=kinds, now=timezone.now())
    if event == "resolved":
        incidents.report(conditions=[], kinds=kinds, now=timezone.now())
    assert "sent" in notices.send_due()
    return mailbox.messages[-1]


def parts(message: EmailMessage) -> dict[str, str]:
    assert message.get_content_type() == "multipart/alternative"
    return {each.get_content_type(): str(each.get_content()).replace("\r\n", "\n") for each in message.iter_parts()}


def token(number: int, hint: str = "Top it up.") -> Condition:
    return Condition("token.running_out", str(number), f"{NAME} {number} runs out on 12 March", "It has 5.", hint)


def url(subject: int) -> str:
    return f"{PUBLIC_URL}/admin/alerts/incident/{Incident.objects.get(subject=str(subject)).pk}/change/"


def test_both_parts_say_what_happened_and_what_to_do(mailbox: Mailbox) -> None:
    found = parts(send(mailbox, token(1)))
    assert list(found) == ["text/plain", "text/html"]
    for text in (found["text/plain"], unescape(found["text/html"])):
        for shown in (f"{NAME} 1 runs out on 12 March", "It has 5.", "Top it up.", "Since 20", url(1)):
            assert shown in text
    assert "Severity: warning\n" in found["text/plain"]
    assert ">Warning</span>" in found["text/html"]


def test_names_are_escaped_and_isolated(mailbox: Mailbox) -> None:
    html = parts(send(mailbox, token(1)))["text/html"]
    assert "<b>" not in html
    assert f'<bdi dir="ltr">{NAME.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")} 1 runs out' in html


def test_parts_about_several_link_each_and_say_once_what_to_do(mailbox: Mailbox) -> None:
    found = parts(send(mailbox, token(1), token(2), token(3, "Ask the customer.")))
    for text in found.values():
        assert all(url(number) in text for number in (1, 2, 3))
        assert f"{PUBLIC_URL}/admin/alerts/incident/?kind=token.running_out" in text
        assert (text.count("Top it up."), text.count("Ask the customer.")) == (1, 1)
    assert f"- {NAME} 2 runs out on 12 March\n  {url(2)}\n" in found["text/plain"]


def test_no_link_is_made_without_public_url(mailbox: Mailbox, settings: Any) -> None:
    settings.PUBLIC_URL = ""
    for conditions in ([token(1)], [token(2), token(3)]):
        for text in parts(send(mailbox, *conditions)).values():
            assert "http" not in text
            assert "None" not in text


def test_end_of_several_is_reported_with_its_time(mailbox: Mailbox) -> None:
    for text in parts(send(mailbox, token(1), token(2), event="resolved")).values():
        assert "These alerts have ended." in text
        assert "Until 20" in text
