"""Rules, contacts and complaints in the admin: only numbers and clean text get in, and they are found again."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from lookup import rules
from lookup.answers import Found
from lookup.models import ComplaintDay, Contact, NumberRule

pytestmark = pytest.mark.django_db
NUMBER = 493023125042
RULES = "/admin/lookup/numberrule/"
CONTACTS = "/admin/lookup/contact/"
COMPLAINTS = "/admin/lookup/complaintday/"


def add_rule(client: Client, **fields: Any) -> Any:
    return client.post(f"{RULES}add/", {"number": str(NUMBER), "spam": "true", "name": "", "note": "", **fields})


def found(client: Client, text: str, url: str = CONTACTS) -> set[int]:
    return {row.number for row in client.get(url, {"q": text}).context["cl"].result_list}


@pytest.mark.parametrize(
    ("spam", "name", "answer"),
    [
        ("true", "", Found(spam=True)),
        ("false", "", Found(spam=False)),
        ("unknown", "Alice", Found(name="Alice")),
        ("true", "Alice", Found(name="Alice", spam=True)),
    ],
)
def test_a_rule_is_what_a_search_will_find(admin_client: Client, spam: str, name: str, answer: Found) -> None:
    assert add_rule(admin_client, spam=spam, name=name).status_code == 302
    assert rules.find(str(NUMBER)) == answer


def test_a_rule_that_says_nothing_is_refused(admin_client: Client) -> None:
    response = add_rule(admin_client, spam="unknown", name=" \u200b ", note="only a note")
    assert "At least one of these is needed: spam, name." in response.text
    assert not NumberRule.objects.exists()


@pytest.mark.parametrize(
    "number",
    ["", "123456", "1234567890123456", "0493023125042", "+493023125042", "49 3023125042", "٤٩٣٠٢٣١٢٥٠٤٢", "x" * 9000],
)
def test_what_is_no_number_is_refused(admin_client: Client, number: str) -> None:
    for url in (RULES, CONTACTS, COMPLAINTS):
        fields = {"number": number, "spam": "true", "name": "x", "source": "x", "day": "2026-01-01", "total": 1}
        assert admin_client.post(f"{url}add/", {**fields, "robocalls": 0}).status_code == 200
    assert [model.objects.count() for model in (NumberRule, Contact, ComplaintDay)] == [0, 0, 0]


def test_a_second_rule_for_a_number_does_not_replace_the_first(admin_client: Client) -> None:
    add_rule(admin_client, name="first")
    assert "already exists" in add_rule(admin_client, name="second").text
    assert NumberRule.objects.get().name == "first"


def test_the_number_of_a_rule_stays(admin_client: Client) -> None:
    add_rule(admin_client, name="Alice")
    url = f"{RULES}{NUMBER}/change/"
    assert 'name="number"' not in admin_client.get(url).text
    admin_client.post(url, {"number": "4930230000", "spam": "false", "name": "Bob", "note": ""})
    assert list(NumberRule.objects.values_list("number", "spam", "name")) == [(NUMBER, False, "Bob")]


def test_text_is_cleaned_before_it_is_stored(admin_client: Client) -> None:
    add_rule(admin_client, name="  Alice\u202e\x07   Example ", note="line\r\nbreak")
    assert NumberRule.objects.values_list("name", "note").get() == ("Alice Example", "line break")


def test_saving_says_when(admin_client: Client) -> None:
    old = timezone.now() - timedelta(days=9)
    for model, url in ((Contact, CONTACTS), (NumberRule, RULES)):
        model.objects.create(number=NUMBER, name="old", updated_at=old)
        fields = {"name": "new", "location": "", "spam": "unknown", "note": ""}
        assert admin_client.post(f"{url}{NUMBER}/change/", fields).status_code == 302
        row = model.objects.get()
        assert row.name == "new"
        assert row.updated_at > old + timedelta(days=8)


def test_a_contact_needs_a_name_or_a_place(admin_client: Client) -> None:
    empty = {"number": str(NUMBER), "name": "", "location": ""}
    assert "At least one of these is needed: name, location." in admin_client.post(f"{CONTACTS}add/", empty).text
    assert admin_client.post(f"{CONTACTS}add/", {**empty, "location": "Berlin"}).status_code == 302
    assert Contact.objects.values_list("number", "name", "location").get() == (NUMBER, "", "Berlin")


def test_a_complaint_day_keeps_its_key_and_its_sums(admin_client: Client) -> None:
    day = {"number": str(NUMBER), "source": "desk", "day": "2026-01-02", "total": 3, "robocalls": 4}
    assert "errorlist" in admin_client.post(f"{COMPLAINTS}add/", day).text
    assert admin_client.post(f"{COMPLAINTS}add/", {**day, "robocalls": 2}).status_code == 302
    assert "already exists" in admin_client.post(f"{COMPLAINTS}add/", {**day, "robocalls": 2}).text
    row = ComplaintDay.objects.get()
    url = f"{COMPLAINTS}{row.pk}/change/"
    changed = {"number": "4930230000", "source": "x", "day": "2026-01-03", "total": 5, "robocalls": 5}
    assert admin_client.post(url, changed).status_code == 302
    row.refresh_from_db()
    assert (row.number, row.source, str(row.day), row.total, row.robocalls) == (NUMBER, "desk", "2026-01-02", 5, 5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("493023125042", {493023125042, 493023125042999}),
        ("+49 3023 125042", {493023125042, 493023125042999}),
        ("4930231*", {4930231, 49302312, 493023125042, 493023125042999}),
        ("4", {4930231, 49302312, 493023125042, 493023125042999, 4940000}),
        ("493023125042999", {493023125042999}),
        ("4930231250429991", set()),
        ("04930231", set()),
        ("٤٩", set()),
    ],
)
def test_digits_find_the_numbers_that_begin_so_and_no_others(
    admin_client: Client, text: str, expected: set[int]
) -> None:
    stored = (4930231, 49302312, 493023125042, 493023125042999, 4940000, 14930231)
    Contact.objects.bulk_create(Contact(number=number, name="x") for number in stored)
    assert found(admin_client, text) == expected


def test_digits_are_searched_by_the_index_and_not_as_text(admin_client: Client) -> None:
    with CaptureQueriesContext(connection) as queries:
        found(admin_client, "4930*")
    listing = [q["sql"] for q in queries if '"lookup_contact"' in q["sql"]]
    assert listing
    assert not any("LIKE" in sql.upper() for sql in listing)


def test_text_finds_names_whatever_their_case(admin_client: Client) -> None:
    Contact.objects.create(number=NUMBER, name="Alice Example")
    NumberRule.objects.create(number=NUMBER, name="Alice Example")
    for url in (CONTACTS, RULES):
        assert found(admin_client, "aLICE", url) == {NUMBER}
        assert found(admin_client, "bob", url) == set()


def test_every_list_and_form_opens_and_a_get_changes_nothing(admin_client: Client) -> None:
    Contact.objects.create(number=NUMBER, name="Alice")
    NumberRule.objects.create(number=NUMBER, name="Alice")
    ComplaintDay.objects.create(number=NUMBER, source="desk", day="2026-01-02", total=1)
    with CaptureQueriesContext(connection) as queries:
        for url in (CONTACTS, RULES, COMPLAINTS):
            row = admin_client.get(url).context["cl"].result_list[0]
            for path in ("add/", f"{row.pk}/change/", f"{row.pk}/delete/"):
                assert admin_client.get(url + path).status_code == 200
    assert not any(q["sql"].startswith(("INSERT", "UPDATE", "DELETE")) for q in queries)
