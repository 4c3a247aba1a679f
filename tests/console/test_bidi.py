"""Names that are written from right to left leave the ids after them as they are."""

import pytest
from django.test import Client

from accounts import credits, customers, tokens
from core.bidi import isolated, isolated_name, isolated_title

pytestmark = pytest.mark.django_db

NAME = "מרפאה ברחוב הנמל"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{NAME} (#290)", f"<bdi>{NAME}</bdi> (#290)"),
        ("<b> (#1)", "<bdi>&lt;b&gt;</bdi> (#1)"),
        ("Ledger entry 5589", "Ledger entry 5589"),
        ("a (b)", "a (b)"),
    ],
)
def test_name_with_an_id_is_isolated(text: str, expected: str) -> None:
    assert str(isolated(text)) == expected


def test_ids_in_sentences_and_options_are_isolated() -> None:
    shown = str(isolated_title(f"{NAME} (#5) of {NAME} & Co (#7) expires"))
    assert shown == f'<bdi dir="ltr">{NAME} <bdi>(#5)</bdi> of {NAME} &amp; Co <bdi>(#7)</bdi> expires</bdi>'
    assert str(isolated_title("pbx (#5) expires")) == '<bdi dir="ltr">pbx (#5) expires</bdi>'
    assert isolated_name(f"{NAME} (#5)") == f"\u2068{NAME}\u2069 (#5)"
    assert isolated_name("pbx (#5)") == "pbx (#5)"


def test_lists_and_titles_isolate_names(admin_client: Client) -> None:
    customer = customers.create(name=NAME, contacts=[])
    token = tokens.issue(name=NAME, initial_credits=5, actor="op", customer=customer).token
    credits.top_up(token=token, amount=5, actor="op", reason="paid")
    of_token, of_customer = (f"<bdi>{NAME}</bdi> (#{each.pk})" for each in (token, customer))
    for path, shown in (
        ("accounts/creditentry/", of_token),
        (f"accounts/creditentry/?token=%23{token.pk}", f"{of_token}</a>."),
        (f"accounts/creditentry/?customer={customer.pk}", f"{of_customer}</a>."),
        (f"accounts/apitoken/{token.pk}/change/", of_token),
        (f"accounts/apitoken/{token.pk}/change/", of_customer),
        (f"accounts/apitoken/{token.pk}/top-up/", f"<bdi>Top up: {NAME}</bdi> (#{token.pk})"),
        (f"accounts/customer/{customer.pk}/change/", of_token),
        ("accounts/apitoken/", f"<bdi>{NAME}</bdi>"),
    ):
        text = admin_client.get(f"/admin/{path}").text
        assert shown in text, path
        assert "bdi" not in text.partition("<title>")[2].partition("</title>")[0]
