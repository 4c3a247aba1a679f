"""Lists of tables with millions of rows: none counts, sorts or reads the whole table."""

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from phonebook.admin import number_admin
from phonebook.models import ComplaintDay, ComplaintSubject, Contact, NumberRule
from tests.console_pages import words
from tests.phonebook.admin.pages import COMPLAINTS, CONTACTS, NUMBER, RULES, searched

pytestmark = pytest.mark.django_db


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """12 contacts and 12 complaint counts, with numbers of 8 and 12 digits; pages have 3 rows, lists 5, searches 3."""
    monkeypatch.setattr(number_admin.NumberAdmin, "list_per_page", 3)
    monkeypatch.setattr("core.admin.MAX_LISTED", 5)
    numbers = [*range(49302310, 49302316), *range(NUMBER, NUMBER + 6)]
    Contact.objects.bulk_create(Contact(number=number, name="x") for number in numbers)
    ComplaintDay.objects.bulk_create(
        ComplaintDay(number=number, source="desk", day="2026-01-02", total=1) for number in numbers
    )
    return numbers


def plan(sql: str) -> str:
    """The database's query plan."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {'QUERY PLAN ' if connection.vendor == 'sqlite' else ''}{sql}")
        return "\n".join(" ".join(map(str, row)) for row in cursor.fetchall())


@pytest.fixture
def crowd() -> None:
    """Enough rows for the planner to prefer an index."""
    rows = range(20_000)
    Contact.objects.bulk_create(Contact(number=12125000000 + n, name="x") for n in rows)
    ComplaintDay.objects.bulk_create(
        ComplaintDay(number=12125000000 + n, source="desk", day="2026-01-02", total=1) for n in rows
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


PAGES: list[dict[str, str]] = [
    {},
    {"p": "7"},
    {"o": "1"},
    {"o": "-1"},
    {"o": "2.-3"},
    {"search_term": "1212500"},
    {"search_term": "1"},
    {"all": ""},
]


@pytest.mark.parametrize(("url", "table"), [(CONTACTS, "phonebook_contact"), (COMPLAINTS, "phonebook_complaintday")])
def test_lists_never_count_sort_or_scan_the_whole_table(
    admin_client: Client, crowd: None, monkeypatch: pytest.MonkeyPatch, url: str, table: str
) -> None:
    monkeypatch.setattr("core.admin.MAX_LISTED", 1_000)
    for params in PAGES:
        with CaptureQueriesContext(connection) as ran:
            send = admin_client.post if "search_term" in params else admin_client.get
            assert send(url, params).status_code == 200
        statements = [query["sql"] for query in ran.captured_queries if f'FROM "{table}"' in query["sql"]]
        assert len(statements) >= 2, params
        for sql in statements:
            assert " LIMIT " in sql or " IN (" in sql, sql
            if " IN (" not in sql:  # at most 1,000 rows, which may be sorted
                assert not re.search(r"^ *(-> *)?Sort +\(|USE TEMP B-TREE FOR ORDER BY", plan(sql), re.MULTILINE), sql
            if "COUNT(" not in sql:  # a count ends at its limit
                # The newest first: SQLite reads the table backwards, up to the limit.
                by_pk = connection.vendor == "sqlite" and f'ORDER BY "{table}"."id" DESC LIMIT' in sql
                assert by_pk or not re.search(rf"Seq Scan on {table}|SCAN {table}(?! USING)", plan(sql)), sql


@pytest.mark.parametrize("url", [CONTACTS, COMPLAINTS, RULES])
def test_list_is_capped_and_says_so(admin_client: Client, many: list[int], url: str) -> None:
    if url == RULES:
        NumberRule.objects.bulk_create(NumberRule(number=number, name="x") for number in many)
    response = admin_client.get(url, {"p": "2"})
    assert response.context["cl"].result_count == 5
    listed = sorted(many, key=str) if url == RULES else many[::-1]
    assert [row.number for row in response.context["cl"].result_list] == listed[3:5]
    assert f"Showing the {'first' if url == RULES else 'last added'} 5." in response.text
    assert (", last added first" in response.text) == (url != RULES)
    sorted_by_number = admin_client.get(url, {"o": "1"})
    assert "added first" not in sorted_by_number.text
    assert "Showing the" not in searched(admin_client, url, str(NUMBER)).text


def test_search_offers_no_action_on_rows_that_it_does_not_list(admin_client: Client, many: list[int]) -> None:
    """They are sent to the URL of the list, which does not have the search term."""
    assert "Select all 5 contacts" in words(admin_client.get(CONTACTS).text)
    response = searched(admin_client, CONTACTS, "4930")
    assert not re.search("Select all [0-9]", words(response.text))
    assert response.context["cl"].result_count == 3


@pytest.mark.parametrize("url", [CONTACTS, COMPLAINTS])
def test_capped_search_shows_the_lowest_numbers_and_says_so(admin_client: Client, many: list[int], url: str) -> None:
    response = searched(admin_client, url, "4930")
    assert [row.number for row in response.context["cl"].result_list] == many[:3]
    assert "Only the first 3 matching rows are listed. Enter more digits." in response.text
    response = searched(admin_client, url, "4930231250")
    assert [row.number for row in response.context["cl"].result_list] == many[6:9]
    type(response.context["cl"].result_list[0]).objects.exclude(number__in=many[:3]).delete()
    all_of_them = searched(admin_client, url, "4930")
    assert [row.number for row in all_of_them.context["cl"].result_list] == many[:3]
    assert "Enter more digits" not in all_of_them.text


def test_only_the_number_column_can_be_sorted(admin_client: Client, many: list[int]) -> None:
    backwards = admin_client.get(CONTACTS, {"o": "-1"}).context["cl"].result_list
    assert [row.number for row in backwards] == many[:-4:-1]
    with CaptureQueriesContext(connection) as ran:
        admin_client.get(COMPLAINTS, {"o": "4.-2.6"})
    orders = [query["sql"].partition(" ORDER BY ")[2] for query in ran.captured_queries if " ORDER BY " in query["sql"]]
    assert not any('"total"' in order or '"text"' in order for order in orders)


def statements_of(client: Client, path: str) -> int:
    with CaptureQueriesContext(connection) as ran:
        assert client.get(path).status_code == 200
    assert not any(query["sql"].startswith(("INSERT", "UPDATE", "DELETE")) for query in ran.captured_queries)
    return len(ran.captured_queries)


@pytest.mark.parametrize("url", [CONTACTS, COMPLAINTS, RULES])
def test_lists_and_forms_run_a_fixed_number_of_statements(admin_client: Client, url: str) -> None:
    model: Any = {CONTACTS: Contact, COMPLAINTS: ComplaintDay, RULES: NumberRule}[url]

    def add(numbers: range) -> None:
        subjects = [ComplaintSubject.objects.create(text=f"about {number}") for number in numbers]
        fields: list[dict[str, Any]] = [{"name": "x"}] * len(numbers)
        if model is ComplaintDay:
            fields = [{"source": "desk", "day": "2026-01-02", "total": 1, "subject": subject} for subject in subjects]
        model.objects.bulk_create(model(number=n, **row) for n, row in zip(numbers, fields, strict=True))

    add(range(NUMBER, NUMBER + 1))
    paths = [url, f"{url}add/", f"{url}{model.objects.get().pk}/change/"]
    for path in paths:  # fills caches such as content types
        admin_client.get(path)
    few = [statements_of(admin_client, path) for path in paths]
    add(range(NUMBER + 1, NUMBER + 90))  # still one page
    assert [statements_of(admin_client, path) for path in paths] == few
