"""Looking up a file in the console: the upload, what it would cost, start, progress and result."""

import re
from collections import Counter
from types import MappingProxyType
from typing import Any, ClassVar, cast

from django import forms
from django.contrib import admin
from django.db.models import Count
from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.urls import URLPattern, path
from django.utils.html import format_html, format_html_join
from unfold.decorators import action, display
from unfold.enums import ActionVariant
from unfold.widgets import UnfoldAdminTextInputWidget

from accounts import tokens
from accounts.admin.customer_field import CustomerWidget
from accounts.models import ApiToken
from core.admin import LargeTableAdmin, ReadOnlyAdmin, change_link, column, form_action, page_url, require
from lookup import file_lookups
from lookup.models import FileLookup
from lookup.number_file import ANSWERED, OUTCOMES, least_duration
from phonebook.admin.uploads import ContactsForm, UploadAdmin
from phonebook.models import ImportUpload

State = FileLookup.State
MAX_PROBLEMS = 50
PERMISSION, VIEW_TOKEN = file_lookups.PERMISSIONS
_TOKEN = re.compile(r"(?:.*\(#|#)?([0-9]{1,18})\)?")
_LABELS = {"Running": "info", "Stopped": "warning", "Done": "success"}


class TokenWidget(CustomerWidget):
    source: ClassVar = {"app_label": "lookup", "model_name": "filelookup", "field_name": "token"}
    suggested = "API tokens"


class LookupForm(ContactsForm):
    FORMATS = MappingProxyType({})
    field_order = ("file", "token", "column", "region")

    format = None  # type: ignore[assignment]  # Django then leaves it out
    token = forms.CharField(
        label="API token", max_length=200, widget=TokenWidget, help_text="Its credits pay, and its rate limit applies."
    )
    column = forms.CharField(
        required=False,
        max_length=100,
        widget=UnfoldAdminTextInputWidget,
        help_text="Name of the column of numbers, or its position from 1. Leave empty if it is named number or phone, "
        "or the only one.",
    )

    def clean_token(self) -> int:
        match = _TOKEN.fullmatch(self.cleaned_data["token"].strip())
        token = ApiToken.objects.filter(pk=match[1]).first() if match else None
        if token is None:
            raise forms.ValidationError("Choose a token from the list that opens as you type.")
        if token.state in ("revoked", "expired"):
            raise forms.ValidationError(f"This token is {token.state}. Choose another one.")
        return token.pk


def _figures(lookup: Any) -> Counter[str]:
    """How many rows have each outcome. Read once."""
    if not hasattr(lookup, "figures"):
        found = lookup.rows.order_by().values_list("outcome").annotate(count=Count("pk"))
        lookup.figures = Counter(dict(found))
    return cast("Counter[str]", lookup.figures)


def _rows(lookup: FileLookup) -> str:
    figures = _figures(lookup)
    return ", ".join(f"{figures[name]:,} {name.replace('_', ' ')}" for name in OUTCOMES if figures[name]) or "-"


def _cost(lookup: FileLookup) -> str:
    """What the rest costs at most, in words."""
    due, token = file_lookups.unanswered(lookup).count(), lookup.token
    limit, window_s = tokens.rate_limit(token)
    duration = least_duration(due, limit, window_s)
    costs = "A test token costs nothing" if token.is_test else f"{due:,} credits at most; {token} has {token.credits:,}"
    return f"{due:,} different numbers. {costs}. At {limit:,} requests in {window_s} s: {duration} at least."


def _problems(lookup: FileLookup) -> str:
    found = lookup.rows.exclude(problem="").order_by("line").values_list("line", "problem")[:MAX_PROBLEMS]
    return format_html("<ul>{}</ul>", format_html_join("", "<li>Line {}: {}</li>", found)) if found else "-"


def _progress(lookup: FileLookup) -> dict[str, Any]:
    figures = _figures(lookup)
    done, total = sum(figures[name] for name in ANSWERED), figures.total() - figures["invalid"]
    state = lookup.get_state_display()
    return {"state": state, "text": f"{done:,} of {total:,} rows are answered.", "done": done, "total": total}


@admin.register(FileLookup)
class FileLookupAdmin(UploadAdmin, ReadOnlyAdmin, LargeTableAdmin):
    upload_forms: ClassVar = {file_lookups.KIND: LookupForm}
    list_display = ("file", "token_link", "when", "by", "state_label")
    list_select_related = ("token", "user")
    ordering = ("-pk",)
    sortable_by = ()
    actions_detail = ("start", "stop", "download", "discard")

    file = column(lambda lookup: lookup.file_name, "file")
    token_link = column(lambda lookup: change_link("accounts_apitoken", lookup.token_id, lookup.token), "API token")
    when = column(lambda lookup: f"{lookup.created_at:%Y-%m-%d %H:%M:%S}", "uploaded (UTC)")
    by = column(lambda lookup: lookup.user.get_username(), "by")
    rows = column(_rows, "rows")
    rest = column(_cost, "to be searched")
    failure = column(lambda lookup: lookup.error or "-", "stopped because")
    problems = column(_problems, "first invalid rows")

    @display(description="state", label=_LABELS)  # type: ignore[untyped-decorator]  # unfold has no types
    def state_label(self, lookup: FileLookup) -> str:
        return lookup.get_state_display()

    def get_fields(self, request: HttpRequest, obj: FileLookup | None = None) -> tuple[str, ...]:
        fields = ["file", "token_link", "when", "by", "state_label", "rows", "rest"]
        if obj is not None:
            fields += ["failure"] if obj.error else []
            fields += ["problems"] if _figures(obj)["invalid"] else []
        return tuple(fields)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.lookup_progress)
        return [path("<int:pk>/progress/", view, name="lookup_filelookup_progress"), *super().get_urls()]

    def lookup_progress(self, request: HttpRequest, pk: int) -> HttpResponse:
        require(self.has_view_permission(request))
        return JsonResponse(_progress(self.object_or_404(request, str(pk))))

    def get_queryset(self, request: HttpRequest) -> Any:
        if not hasattr(request, "ended_killed"):  # once for a page
            file_lookups.end_killed()
            request.ended_killed = True  # type: ignore[attr-defined]
        return super().get_queryset(request)

    def page_context(self, request: HttpRequest, obj: FileLookup) -> dict[str, Any]:
        context: dict[str, Any] = {"title": obj.file_name, "subtitle": None}
        if obj.state == State.RUNNING:
            context |= {"progress": _progress(obj), "progress_url": page_url(FileLookup, "progress", obj.pk)}
        return context

    # --- Upload ----------------------------------------------------------------------------------------------------

    @action(description="Upload numbers to look up", permissions=["upload"], url_path="upload")  # type: ignore[untyped-decorator]  # unfold has no types
    def upload(self, request: HttpRequest) -> HttpResponse:
        return self.upload_page(request)

    def can_upload(self, request: HttpRequest, kind: str) -> bool:
        return request.user.has_perms(file_lookups.PERMISSIONS)

    def upload_context(self, request: HttpRequest, kind: str) -> dict[str, Any]:
        intro = "CSV, or one number per line. The next page shows what it would cost, and asks you to start."
        command = "lookup_file FILE --output OUTPUT"
        return {"title": "Upload numbers to look up", "kind": "Numbers to look up", "intro": intro, "command": command}

    def next_url(self, request: HttpRequest, upload: ImportUpload | None) -> str | None:
        """A file that was uploaded is started or discarded before the next one is uploaded."""
        waiting = FileLookup.objects.filter(user=request.user.pk, state=State.READY).first()
        return None if waiting is None else self.url_of(waiting)

    # --- What can be done with a look-up -----------------------------------------------------------------------------

    def offers(self, request: HttpRequest, url_path: str, obj: FileLookup) -> bool:
        states = {"start": (State.READY, State.STOPPED), "stop": (State.RUNNING,), "download": (*State,)}
        return obj.state in states.get(url_path, (State.READY, State.STOPPED, State.DONE))

    def action_context(self, request: HttpRequest, url_path: str, obj: FileLookup) -> dict[str, Any]:
        return {"explanation": _cost(obj)} if url_path == "start" else {}

    @form_action("Start", PERMISSION, VIEW_TOKEN, explanation="Searches for the numbers that have no answer.")
    def start(self, request: HttpRequest, obj: FileLookup, data: dict[str, Any]) -> str:
        # As this process was reached: it may be one of several, behind a proxy.
        server = request.META["SERVER_NAME"]
        server = f"[{server}]" if ":" in server else server
        url = f"http://{server}:{request.META['SERVER_PORT']}"
        file_lookups.start(obj, by=request.user, url=url, host=request.get_host())
        file_lookups.record(obj, request.user, f"Started at the expense of token {obj.token_id}: {_rows(obj)}.")
        at_its_expense = f"Started look-up {obj.pk} of a file at its expense: {_rows(obj)}."
        file_lookups.record(obj, request.user, at_its_expense, target=obj.token)
        return "The search has started."

    @form_action("Stop", PERMISSION, explanation="What was answered is kept, and the rest can be started again.")
    def stop(self, request: HttpRequest, obj: FileLookup, data: dict[str, Any]) -> str:
        file_lookups.stop(obj)
        file_lookups.record(obj, request.user, f"Stopped: {_rows(obj)}.")
        return "The search ends within seconds."

    @form_action("Download", PERMISSION, explanation="The file's columns with the answers, as CSV.")
    def download(self, request: HttpRequest, obj: FileLookup, data: dict[str, Any]) -> StreamingHttpResponse:
        file_lookups.record(obj, request.user, f"Downloaded: {_rows(obj)}.")
        headers = {"Content-Disposition": f'attachment; filename="look-up-{obj.pk}.csv"'}
        return StreamingHttpResponse(
            file_lookups.csv_lines(obj), content_type="text/csv; charset=utf-8", headers=headers
        )

    @form_action(
        "Discard",
        PERMISSION,
        explanation="Deletes the file and all answers.",
        variant=ActionVariant.DANGER,
        atomic=False,
    )
    def discard(self, request: HttpRequest, obj: FileLookup, data: dict[str, Any]) -> str:
        rows = _rows(obj)
        file_lookups.discard(obj)
        file_lookups.record(obj, request.user, f"Discarded: {rows}.")
        return "The file and its answers were deleted."
