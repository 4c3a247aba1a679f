"""Rules, contacts and complaints in the console: valid numbers and clean text are stored, and found again."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client
from django.utils import timezone

from core import history
from lookup.answers import Found
from phonebook import cache_versions
from phonebook.admin.number_admin import NUMBER_PAGES
from phonebook.models import CacheVersion, ComplaintDay, ComplaintSubject, Contact, NumberRule
from tests.console.dashboard_rows import timing_out
from tests.console_pages import words
from tests.phonebook.admin.pages import COMPLAINTS, CONTACTS, MODELS, NUMBER, RULES, row_page, searched
from tests.phonebook.rows import cache_version_of, rule_of

pytestmark = pytest.mark.django_db
T = "tests.connectors."


def add_rule(client: Client, **fields: Any) -> Any:
    return client.post(f"{RULES}add/", {"number": str(NUMBER), "spam": "true", "name": "", "note": "", **fields})


def found(client: Client, text: str, url: str = CONTACTS) -> set[int]:
    return {row.number for row in searched(client, url, text).context["cl"].result_list}


@pytest.mark.parametrize(
    ("spam", "name", "answer"),
    [
        ("true", "", Found(spam=True)),
        ("false", "", Found(spam=False)),
        ("unknown", "Alice", Found(name="Alice")),
        ("true", "Alice", Found(name="Alice", spam=True)),
    ],
)
def test_added_rule_is_found_by_a_search(admin_client: Client, spam: str, name: str, answer: Found) -> None:
    assert add_rule(admin_client, spam=spam, name=name).status_code == 302
    assert rule_of(str(NUMBER)) == answer


def test_rule_without_spam_and_name_is_refused(admin_client: Client) -> None:
    response = add_rule(admin_client, spam="unknown", name=" \u200b ", note="only a note")
    assert "Enter at least one of these: spam, name." in response.text
    assert not NumberRule.objects.exists()


def test_prefix_rule_is_added_and_shows_the_rules_that_overlap(admin_client: Client) -> None:
    for number, fields in ((49, {"is_prefix": True}), (4931, {"is_prefix": True}), (NUMBER, {})):
        NumberRule.objects.create(number=number, spam=False, name="", **fields)
    response = admin_client.post(
        f"{RULES}add/", {"number": "+49 30", "is_prefix": "on", "spam": "true", "name": "", "note": ""}, follow=True
    )
    shown = [(message.level_tag, re.sub(r"<[^>]+>", "", str(message))) for message in response.context["messages"]]
    assert shown == [
        ("success", "The rule “+4930…” was added successfully."),
        ("info", "This rule overrides +49… for its numbers."),
        ("info", "This rule is overridden by +49 30 23125042 for some of its numbers."),
    ]
    for number, message in zip((49, NUMBER), list(response.context["messages"])[1:], strict=True):
        link = f'href="{row_page(RULES, number)}change/">'
        assert link in str(message)
        assert link in response.text.partition("Overrides")[2]
    assert rule_of("49302312504") == Found(spam=True)
    assert rule_of(str(NUMBER)) == Found(spam=False)
    page = words(admin_client.get(f"{row_page(RULES, 4930)}change/").text)
    assert "+49… (not spam)" in page
    assert "+49 30 23125042 (not spam)" in page
    assert "+4930… (spam)" in words(admin_client.get(f"{row_page(RULES, NUMBER)}change/").text)
    assert "4931" not in page
    assert found(admin_client, "4930", RULES) == {4930, NUMBER}
    assert found(admin_client, "49", RULES) == {49, 4930, 4931, NUMBER}


def test_overriding_rules_are_counted_beyond_the_first_ten(admin_client: Client) -> None:
    NumberRule.objects.create(number=49, is_prefix=True, spam=True)
    NumberRule.objects.bulk_create(NumberRule(number=NUMBER + n, name="Alice") for n in range(12))
    page = admin_client.get(f"{row_page(RULES, 49)}change/").text
    assert "and 2 more" in page


def test_short_number_needs_the_box_for_a_prefix(admin_client: Client) -> None:
    assert "turn on Prefix" in add_rule(admin_client, number="4930").text
    rule = NumberRule.objects.create(number=4930, is_prefix=True, spam=True)
    response = admin_client.post(f"{RULES}{rule.pk}/change/", {"spam": "true", "name": "", "note": ""})
    assert "turn on Prefix" in response.text
    rule.refresh_from_db()
    assert rule.is_prefix


@pytest.mark.parametrize(
    "number",
    [
        *("", "123456", "1234567890123456", "0493023125042", "x" * 9000, "+999 (0)30 23125042"),
    ],
)
def test_invalid_number_is_refused(admin_client: Client, number: str) -> None:
    for url in (RULES, CONTACTS, COMPLAINTS):
        fields = {"number": number, "spam": "true", "name": "x", "source": "x", "day": "2026-01-01", "total": 1}
        response = admin_client.post(f"{url}add/", {**fields, "robocalls": 0})
        assert response.status_code == 200
        assert ("Enter it with its country code" in response.text) is bool(number)
    assert [model.objects.count() for model in (NumberRule, Contact, ComplaintDay)] == [0, 0, 0]


@pytest.mark.parametrize(
    "pasted",
    [
        *("493023125042", " +49-30-2312.5042 ", "\u202a+49\u00a030 2312\u20115042\u202c"),
    ],
)
def test_formatted_number_is_accepted(admin_client: Client, pasted: str) -> None:
    for url in (RULES, CONTACTS, COMPLAINTS):
        fields = {"number": pasted, "spam": "true", "name": "x", "source": "x", "day": "2026-01-01", "total": 1}
        assert admin_client.post(f"{url}add/", {**fields, "robocalls": 0}).status_code == 302
        assert found(admin_client, pasted, url) == {NUMBER}


def test_number_of_a_rule_cannot_be_changed(admin_client: Client) -> None:
    add_rule(admin_client, name="Alice")
    url = f"{row_page(RULES, NUMBER)}change/"
    assert 'id="id_number"' not in admin_client.get(url).text
    admin_client.post(url, {"number": "4930230000", "spam": "false", "name": "Bob", "note": ""})
    assert list(NumberRule.objects.values_list("number", "spam", "name")) == [(NUMBER, False, "Bob")]


def test_text_is_cleaned_before_it_is_stored(admin_client: Client) -> None:
    add_rule(admin_client, name="  Alice\u202e\x07   Example ", note="line\r\nbreak")
    assert NumberRule.objects.values_list("name", "note").get() == ("Alice Example", "line break")


def test_contact_needs_a_name_or_a_location(admin_client: Client) -> None:
    empty = {"number": str(NUMBER), "name": "", "location": ""}
    assert "Enter at least one of these: name, location." in admin_client.post(f"{CONTACTS}add/", empty).text
    assert admin_client.post(f"{CONTACTS}add/", {**empty, "location": "Berlin"}).status_code == 302
    assert Contact.objects.values_list("number", "name", "location").get() == (NUMBER, "", "Berlin")


def test_complaint_count_keeps_its_key(admin_client: Client) -> None:
    day = {"number": str(NUMBER), "source": "desk", "day": "2026-01-02", "total": 3, "robocalls": 4}
    assert "Enter at most as many robocalls as complaints" in admin_client.post(f"{COMPLAINTS}add/", day).text
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
        ("49-3023.125042*", {493023125042, 493023125042999}),
        ("4930231*", {4930231, 49302312, 493023125042, 493023125042999}),
        ("4", {4930231, 49302312, 493023125042, 493023125042999, 4940000}),
        ("493023125042999", {493023125042999}),
    ],
)
def test_search_by_digits_finds_numbers_with_this_prefix(admin_client: Client, text: str, expected: set[int]) -> None:
    stored = (4930231, 49302312, 493023125042, 493023125042999, 4940000, 14930231)
    Contact.objects.bulk_create(Contact(number=number, name="x") for number in stored)
    assert found(admin_client, text) == expected


def test_search_by_text_finds_rules_ignoring_case(admin_client: Client) -> None:
    NumberRule.objects.create(number=NUMBER, name="Alice Example")
    assert found(admin_client, "aLICE", RULES) == {NUMBER}
    assert found(admin_client, "bob", RULES) == set()
    assert found(admin_client, "4930", RULES) == {NUMBER}


def test_contacts_are_found_by_part_of_their_name(admin_client: Client) -> None:
    Contact.objects.create(number=NUMBER, name="Alice Example")
    Contact.objects.create(number=NUMBER + 1, location="Alice Springs")
    assert found(admin_client, "e EXAM", CONTACTS) == {NUMBER}
    assert found(admin_client, "%", RULES) == found(admin_client, "bob", CONTACTS) == set()
    with timing_out("phonebook_contact"):
        response = admin_client.post(CONTACTS, {"search_term": "alice"})
    assert "The search by name timed out: too many contacts. Enter a number prefix" in response.text


@pytest.mark.parametrize(
    ("url", "text"),
    [
        *((COMPLAINTS, text) for text in ("Alice", "desk")),
        *(
            (url, text)
            for url in (CONTACTS, COMPLAINTS)
            for text in ("+49 (0)30", "0493", "%", "²49", "4930231250429991")
        ),
    ],
)
def test_text_search_in_large_tables_explains_number_search(admin_client: Client, url: str, text: str) -> None:
    Contact.objects.create(number=NUMBER, name="Alice Example")
    ComplaintDay.objects.create(number=NUMBER, source="desk", day="2026-01-02", total=1)
    response = searched(admin_client, url, text)
    assert response.redirect_chain == [(url, 302)]
    assert "Enter a number prefix with country code" in response.text


# --- Corrections ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", [RULES, CONTACTS, COMPLAINTS])
def test_pages_of_a_number_show_it_in_groups(admin_client: Client, url: str) -> None:
    days = {"day": timezone.now().date(), "total": 1, "robocalls": 0} if url == COMPLAINTS else {}
    row = MODELS[url].objects.create(number=NUMBER, **days)
    page = admin_client.get(f"{url}{row.pk}/change/").text
    assert page.count("+49 30 23125042") >= 3  # breadcrumb, title and field
    assert str(NUMBER) not in page
    assert {page.count(title) for title in NUMBER_PAGES} <= {1}
    history.record(action=history.Action.CHANGE, target=row, message="m")
    [listed] = re.findall(r"field-target.*?</td>", admin_client.get("/admin/admin/logentry/").text, re.DOTALL)
    assert ("+49 30 23125042" in listed, str(NUMBER) in listed) == (True, False)
    fields = {**days, "name": "x", "location": "", "spam": "true", "note": "", "source": "desk"}
    messages = admin_client.post(f"{url}{row.pk}/change/", fields, follow=True).context["messages"]
    assert ["+49 30 23125042" in str(message) for message in messages] == [True]
    page = words(admin_client.get(f"{url}{row.pk}/change/").text)
    assert ("Updated (UTC)" in page) == (url == CONTACTS)
    deletion = {"action": "delete_selected", "_selected_action": row.pk}
    for page in (admin_client.get(f"{url}{row.pk}/delete/").text, admin_client.post(url, deletion).text):
        assert ("+49 30 23125042" in page, str(NUMBER) in page) == (True, False)


@pytest.mark.parametrize("given", [str(NUMBER), "x", "é", "a" * 3000])
def test_add_page_takes_no_number_from_the_url(admin_client: Client, given: str) -> None:
    page = admin_client.get("/admin/phonebook/numberrule/add/", {"number": given, "name": "Example"}).text
    field = re.search(r'<input[^>]*name="number"[^>]*>', page)
    assert field is not None
    assert "value=" not in field[0]
    assert 'value="Example"' in page


def test_missing_subject_is_shown_as_a_dash(admin_client: Client) -> None:
    subject = ComplaintSubject.objects.create(text="Reducing your debt")
    rows = [
        ComplaintDay.objects.create(number=NUMBER + n, source="desk", day="2026-01-02", total=1, subject_id=pk)
        for n, pk in enumerate((subject.pk, None, 30_000))
    ]
    page = admin_client.get(COMPLAINTS).text
    assert re.findall('class="field-subject[^>]*>([^<]*)<', page) == ["-", "-", "Reducing your debt"]
    pages = [admin_client.get(f"{COMPLAINTS}{row.pk}/change/").text for row in rows]
    assert ["Reducing your debt" in page for page in pages] == [True, False, False]
    for row in rows:
        assert admin_client.post(f"{COMPLAINTS}{row.pk}/change/", {"total": 2, "robocalls": 0}).status_code == 302
    assert list(ComplaintDay.objects.order_by("number").values_list("total", "subject_id")) == (
        [(2, subject.pk), (2, None), (2, 30_000)]
    )


@pytest.fixture
def rows() -> dict[str, Any]:
    """One row of NUMBER for each list URL."""
    return {
        CONTACTS: Contact.objects.create(number=NUMBER, name="old"),
        COMPLAINTS: ComplaintDay.objects.create(number=NUMBER, source="desk", day="2026-01-02", total=1),
    }


FIELDS = {"name": "new", "location": "", "source": "other", "day": "2026-01-03", "total": 2, "robocalls": 0}


@pytest.mark.parametrize("url", [CONTACTS, COMPLAINTS])
@pytest.mark.parametrize("how", ["add", "change", "delete", "delete selected"])
def test_correction_bumps_only_its_numbers_cache_version(
    admin_client: Client, rows: dict[str, Any], url: str, how: str
) -> None:
    number, row = NUMBER, rows[url]
    if how == "add":
        number = NUMBER + 1
        response = admin_client.post(f"{url}add/", {"number": str(number), **FIELDS})
    elif how == "delete selected":
        selected = {"action": "delete_selected", "_selected_action": row.pk, "post": "yes"}
        response = admin_client.post(url, selected)
    else:
        response = admin_client.post(f"{url}{row.pk}/{how}/", FIELDS if how == "change" else {"post": "yes"})
    assert response.status_code == 302
    assert bool(type(row).objects.filter(number=number).exists()) is ("delete" not in how)
    assert cache_version_of(str(number))
    assert CacheVersion.objects.count() == 1


@pytest.mark.parametrize("how", ["change", "delete", "delete selected"])
def test_failed_bump_rolls_back_the_correction(
    admin_client: Client, rows: dict[str, Any], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    admin_client.raise_request_exception = False
    monkeypatch.setattr(cache_versions, "bump", lambda *_: 1 / 0)
    url = CONTACTS if how == "delete selected" else f"{row_page(CONTACTS, NUMBER)}{how}/"
    selected = {"action": "delete_selected", "_selected_action": rows[CONTACTS].pk, "post": "yes"}
    fields = {**selected, "name": "new", "location": ""}
    assert admin_client.post(url, fields).status_code == 500
    assert Contact.objects.get().name == "old"


def test_complaint_from_the_future_is_refused(admin_client: Client) -> None:
    day = {"number": str(NUMBER), "source": "desk", "total": 3, "robocalls": 0}
    tomorrow = timezone.now().date() + timedelta(days=1)
    response = admin_client.post(f"{COMPLAINTS}add/", {**day, "day": tomorrow + timedelta(days=1)})
    assert "Enter a date that is not in the future." in response.text
    assert admin_client.post(f"{COMPLAINTS}add/", {**day, "day": tomorrow}).status_code == 302


def test_save_of_a_row_locked_by_an_import_is_explained(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    Contact.objects.create(number=NUMBER, name="old")

    def held(*_: Any, **__: Any) -> None:
        raise OperationalError("canceling statement due to statement timeout")

    monkeypatch.setattr(Contact, "save", held)
    url = f"{row_page(CONTACTS, NUMBER)}change/"
    response = admin_client.post(url, {"name": "new", "location": ""}, follow=True)
    assert response.redirect_chain == [(url, 302)]
    assert "Nothing was changed: the database timed out." in response.text
    assert Contact.objects.get().name == "old"
