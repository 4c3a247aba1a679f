"""One row of each model in the console, and helpers to compare databases and to fill in forms."""

from datetime import UTC, datetime
from typing import Any

from django.apps import apps
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.db import connection
from django.db.models import Model
from django_otp.plugins.otp_totp.models import TOTPDevice

from accounts import customers, tokens
from console.models import Invitation
from lookup.models import SourcePause
from monitoring.models import Source
from phonebook.models import ComplaintDay, Contact, ImportBatch, NumberRule
from tests import awaited
from tests.plugin import of_addons

NUMBER = 493023125042
#: A source that is paused.
PAUSED = "directory"


def one_of_each() -> dict[str, Model]:
    """By `app.model`. The ledger entry is a refundable search; the user is invited."""
    token = tokens.issue(name="pbx", initial_credits=100, actor="boss").token
    awaited.charge(token=token, request_id="r1", number=str(NUMBER), answer={})
    now = datetime.now(UTC)
    user = User.objects.create_user("somebody", email="somebody@example.org")
    Invitation.objects.create(user=user, invited_by="boss", sent_at=now)
    SourcePause.objects.create(connector=PAUSED, reason="invoice", paused_by="olga")
    TOTPDevice.objects.create(user=user, name="Authenticator app")
    search = token.entries.get(kind="search")
    customer = customers.create(name="Example Ltd", contacts=["owner@example.org"])
    return {
        "accounts.apitoken": token,
        "accounts.customer": customer,
        "accounts.creditentry": search,
        "monitoring.source": Source.objects.create(hour=now, connector="x", outcome="found", count=1),
        "phonebook.numberrule": NumberRule.objects.create(number=NUMBER, name="Example Bakery"),
        "phonebook.contact": Contact.objects.create(number=NUMBER, name="Example Bakery"),
        "phonebook.complaintday": ComplaintDay.objects.create(number=NUMBER, source="desk", day=now.date(), total=1),
        "phonebook.importbatch": ImportBatch.objects.create(
            kind="contacts", state="done", file_name="contacts.csv", counts={"added": 1}, can_undo=True, last_id=0
        ),
        "auth.user": user,
        "auth.group": Group.objects.create(name="night shift"),
        "admin.logentry": LogEntry.objects.create(user=user, action_flag=CHANGE, object_repr="x", change_message="y"),
        **{model: made(user=user, token=token) for model, made in of_addons("ROWS").items()},
    }


def database() -> dict[str, list[Any]]:
    """Every row of every table except sessions, in which Django stores messages. In SQL, for tests compare it often."""
    models = [model for model in apps.get_models(include_auto_created=True) if model is not Session]
    tables = sorted({model._meta.db_table for model in models if model._meta.managed})
    rows: dict[str, list[Any]] = {}
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            rows[table] = sorted(map(repr, cursor.fetchall()))
    return rows


def filled(page: Any, **fields: Any) -> dict[str, Any]:
    """What a browser submits from the form on this page, with `fields` changed; only `fields` if there is no form."""
    context = page.context or {}
    form = context["adminform"].form if "adminform" in context else context.get("form")
    inlines = [inline.formset for inline in context.get("inline_admin_formsets", ())]
    forms = [form, *(each for formset in inlines for each in (formset.management_form, *formset.initial_forms))]
    values = {bound.html_name: bound.value() for each in forms if each is not None for bound in each}
    values = {name: value for name, value in values.items() if value is not None and value is not False}
    return {**values, **fields}
