"""Filters in the URL of a list: only those that the list offers reach the database."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.admin import autodiscover, site
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from monitoring.models import Source
from tests.console.console_rows import one_of_each

pytestmark = pytest.mark.django_db

LOOKUPS = (
    *("", "__exact", "__iexact", "__regex", "__iregex", "__startswith", "__icontains", "__gt", "__in", "__isnull"),
    *("__date", "__year__gt", "__nothing"),
)
#: A regular expression with exponential run time, an invalid one, and values that fit no column.
VALUES = ("(a+)+$", "(", str(10**30))
autodiscover()
MODELS = sorted(site._registry, key=lambda model: model._meta.label)


@pytest.fixture(autouse=True)
def rows(db: None) -> None:
    one_of_each()


def address(model: type[Model]) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")


def allowed(model: type[Model]) -> tuple[str, ...]:
    page = site._registry[model]
    if form := getattr(page, "list_form", None):
        return tuple(form.base_fields)
    return getattr(page, "lookups_allowed", ())


def conditions(model: type[Model]) -> Iterator[str]:
    """Every field of the model and of its related models, with every lookup."""
    for field in model._meta.get_fields():
        yield from (field.name + lookup for lookup in LOOKUPS)
        if field.is_relation and field.related_model:
            for beyond in field.related_model._meta.get_fields():
                yield from (f"{field.name}__{beyond.name}{lookup}" for lookup in ("", "__regex", "__gt", "__isnull"))
    yield from ("pk", "pk__gt", "nothing", "nothing__regex")


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label)
def test_lists_reject_filters_that_they_do_not_offer(admin_client: Client, model: type[Model]) -> None:
    for name in set(conditions(model)) - set(allowed(model)):
        with CaptureQueriesContext(connection) as ran:
            answer = admin_client.get(address(model), {name: "(a+)+$"})
        if model is Source:  # sums, and no list
            assert answer.status_code == 200
        else:
            assert answer.status_code == 400, name
        assert not [query["sql"] for query in ran if "(a+)+" in query["sql"]], name


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label)
def test_unknown_values_of_an_allowed_filter_are_no_error(admin_client: Client, model: type[Model]) -> None:
    for name in allowed(model):
        for value in VALUES:
            answer = admin_client.get(address(model), {name: value})
            assert answer.status_code in (200, 302), (name, value)
            if answer.status_code == 302:
                assert answer["Location"].endswith("?e=1")


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label)
def test_every_choice_of_a_list_filter_works(admin_client: Client, model: type[Model]) -> None:
    shown: Any = admin_client.get(address(model)).context.get("cl")
    for spec in shown.filter_specs if shown else ():
        for choice in spec.choices(shown):
            assert admin_client.get(address(model) + choice["query_string"]).status_code == 200, choice


@pytest.mark.parametrize(
    "model", [model for model in MODELS if model is not Source], ids=lambda model: model._meta.label
)
def test_no_list_shows_facet_counts_on_request(admin_client: Client, model: type[Model]) -> None:
    admin_client.get(address(model))
    ran: list[list[str]] = []
    for parameters in ({}, {"_facets": "True"}):
        with CaptureQueriesContext(connection) as captured:
            assert admin_client.get(address(model), parameters).status_code == 200
        ran.append([query["sql"].split(" ", 1)[0] for query in captured])
    assert ran[0] == ran[1]
