"""Looking up a file in the console: the upload, what it would cost, start, progress and result."""

from datetime import timedelta
from functools import partial
from typing import Any, ClassVar
from urllib.parse import urlencode

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.html import format_html, format_html_join
from django.utils.http import content_disposition_header
from django.utils.timesince import timesince
from django.views.decorators.http import require_POST
from unfold.decorators import action
from unfold.enums import ActionVariant
from unfold.utils import display_for_label
from unfold.widgets import UnfoldAdminTextInputWidget, UnfoldBooleanWidget

from accounts import tokens
from accounts.credits import credits_text
from accounts.models import ApiToken, CreditEntry
from contrib.file_lookups import services
from contrib.file_lookups.models import FileLookup
from contrib.file_lookups.number_file import ANSWERED, UNANSWERED, least_duration
from contrib.file_lookups.token_field import TokenField
from contrib.uploads.admin import RegionField, UploadAdmin, UploadForm
from contrib.uploads.models import ImportUpload
from core.admin import LargeTableAdmin, ReadOnlyAdmin, form_action, require
from core.cells import change_link, column, html_link, page_url
from core.commands import command_line
from core.forms import TextField

State = FileLookup.State
MAX_PROBLEMS = 50
PERMISSION, VIEW_TOKEN = services.PERMISSIONS
_OUTCOMES = (*ANSWERED, *UNANSWERED, "invalid")
_LABELS = {"Running": "info", "Stopped": "warning", "Done": "success"}


class LookupForm(UploadForm):
    field_order = ("file", "column", "region")

    column = TextField(
        required=False,
        max_length=100,
        widget=UnfoldAdminTextInputWidget,
        help_text="Name of the column of numbers, or its position from 1. Leave empty if it is named number or phone, "
        "or the only one.",
    )
    region = RegionField()


class StartForm(forms.Form):
    """`due`: how many numbers are to be searched."""

    token = TokenField(
        label="API token", max_length=200, help_text="This token is charged, and its rate limit applies."
    )
    partly = forms.BooleanField(
        label="Start even if the token might not have enough credits. You can look up the rest later.",
        required=False,
        widget=UnfoldBooleanWidget,
    )

    def __init__(self, *args: Any, due: int, **options: Any) -> None:
        super().__init__(*args, **options)
        self._due = due

    def clean_token(self) -> ApiToken:
        token: ApiToken = self.cleaned_data["token"]
        needed = 1 if self.data.get("partly") else self._due
        if token.credits < needed and not token.is_test:
            text = f"{token} has {credits_text(token.credits)}, and {self._due:,} may be needed."
            raise forms.ValidationError(f"{text} Top up the token, or choose another one.")
        return token


def _own_url(request: HttpRequest) -> str:
    """The URL of this process as the request has reached it: it may be one of several, behind a proxy."""
    server = request.META["SERVER_NAME"]
    server = f"[{server}]" if ":" in server else server
    return f"http://{server}:{request.META['SERVER_PORT']}"


def _counts(lookup: FileLookup) -> str:
    shown = (f"{lookup.figures[name]:,} {name.replace('_', ' ')}" for name in _OUTCOMES if lookup.figures[name])
    return ", ".join(shown) or "-"


def _cost(lookup: FileLookup) -> str:
    """What the rest costs at most, in words."""
    due = services.unanswered(lookup).count()
    return f"{due:,} different numbers: {credits_text(due)} at most" if due else "-"


def _charged(lookup: FileLookup, *, is_linked: bool = False) -> str:
    """`is_linked`: the request id links to the ledger."""
    request_id: str = format_html('<span class="whitespace-nowrap">{}</span>', lookup.request_id)
    if is_linked:
        query = urlencode({"request_id": lookup.request_id, "since": f"{lookup.created_at:%Y-%m-%d}"})
        request_id = html_link(f"{page_url(CreditEntry, 'changelist')}?{query}", request_id)
    credits = credits_text(services.charged(lookup))
    return format_html("{} (request id {})", credits, request_id)


def _time(due: int, limit: int, window_s: int) -> str:
    """How long `due` searches take at least, in words."""
    now, least = timezone.now(), least_duration(due, limit, window_s)
    time = timesince(now - least, now) if least >= timedelta(minutes=1) else f"{least.seconds} s"
    requests = f"{limit:,} request{'s' * (limit != 1)}"
    return f"At {requests} in {window_s} s it takes at least {time}." if due > limit else ""


def _problems(lookup: FileLookup) -> str:
    invalid = lookup.rows.filter(outcome="invalid", number=None)
    found = invalid.order_by("line").values_list("line", "problem")[:MAX_PROBLEMS]
    return format_html("<ul>{}</ul>", format_html_join("", "<li>Line {}: {}</li>", found)) if found else "-"


def _progress(lookup: FileLookup) -> dict[str, Any]:
    figures = lookup.figures
    done, total = sum(figures[name] for name in ANSWERED), figures.total() - figures["invalid"]
    state, text = lookup.get_state_display(), f"{done:,} of {total:,} rows are answered."
    if lookup.state == State.RUNNING and lookup.waits_until and lookup.waits_until > timezone.now():
        text += f" The rate limit of the token is reached: the search continues at {lookup.waits_until:%H:%M:%S} UTC."
    return {"state": state, "text": text, "done": done, "total": total}


@admin.register(FileLookup)
class FileLookupAdmin(UploadAdmin, ReadOnlyAdmin, LargeTableAdmin):
    upload_forms: ClassVar = {services.KIND: LookupForm}
    list_display = ("file", "token_link", "when", "by", "state_label")
    list_select_related = ("token", "user")
    ordering = ("-pk",)
    sortable_by = ()
    actions_detail = ("start", "stop", "discard")

    file = column(lambda lookup: lookup.file_name, "file")
    token_link = column(lambda lookup: change_link("accounts_apitoken", lookup.token_id, lookup.token), "API token")
    # Not by unfold's decorator, which has no effect on the page of a look-up.
    state_label = column(lambda lookup: display_for_label(lookup.get_state_display(), "-", _LABELS), "state")
    when = column(lambda lookup: f"{lookup.created_at:%Y-%m-%d %H:%M:%S}", "uploaded (UTC)")
    by = column(lambda lookup: lookup.user.get_username(), "by")
    rows = column(_counts, "rows")
    rest = column(_cost, "to be searched")
    charged = column(_charged, "charged to it")
    charged_link = column(partial(_charged, is_linked=True), "charged")
    failure = column(lambda lookup: lookup.error or "-", "stopped because")
    problems = column(_problems, "first invalid rows")

    def get_fields(self, request: HttpRequest, obj: FileLookup | None = None) -> tuple[str, ...]:
        is_running = obj is not None and obj.state == State.RUNNING  # the progress has the counts of this moment
        fields = ["state_label", *([] if is_running else ["rows"]), "file", "when", "by"]
        if obj is not None:
            fields += ["failure"] if obj.error else []
            may_view_ledger = request.user.has_perm("accounts.view_creditentry")
            fields += ["token_link"] if obj.token else []
            fields += ["charged_link" if may_view_ledger else "charged"] if obj.token and not is_running else []
            fields += ["rest"] if obj.state != State.DONE and not is_running else []
            fields += ["problems"] if obj.figures["invalid"] else []
        return tuple(fields)

    def get_urls(self) -> list[URLPattern]:
        views = {"progress": self.lookup_progress, "download": self.download}
        own = [
            path(f"<int:pk>/{name}/", self.admin_site.admin_view(view), name=f"file_lookups_filelookup_{name}")
            for name, view in views.items()
        ]
        return [*own, *super().get_urls()]

    def lookup_progress(self, request: HttpRequest, pk: int) -> HttpResponse:
        require(self.has_view_permission(request))
        return JsonResponse(_progress(self.object_or_404(request, str(pk))))

    @method_decorator(require_POST)
    def download(self, request: HttpRequest, pk: int) -> StreamingHttpResponse:
        require(request.user.has_perm(PERMISSION))
        lookup = self.object_or_404(request, str(pk))
        services.record(lookup, request.user, f"Downloaded: {_counts(lookup)}.")
        name = f"{lookup.file_name.partition('.')[0]}-answers.csv"
        return StreamingHttpResponse(
            services.csv_lines(lookup),
            content_type="text/csv; charset=utf-8",
            headers={"Content-Disposition": content_disposition_header(as_attachment=True, filename=name)},
        )

    def get_queryset(self, request: HttpRequest) -> Any:
        if not hasattr(request, "ended_killed"):  # once for a page
            services.end_killed()
            request.ended_killed = True  # type: ignore[attr-defined]
        # The output alone shows the columns, which may be thousands.
        return super().get_queryset(request).exclude(services.incomplete()).defer("columns")

    def page_context(self, request: HttpRequest, obj: FileLookup) -> dict[str, Any]:
        context: dict[str, Any] = {"title": obj.file_name, "subtitle": None}
        if obj.state not in (State.CHECKING, State.READY) and request.user.has_perm(PERMISSION):
            context["download_url"] = page_url(FileLookup, "download", obj.pk)
        if obj.state == State.RUNNING:
            context |= {"progress": _progress(obj), "progress_url": page_url(FileLookup, "progress", obj.pk)}
        return context

    # --- Upload ----------------------------------------------------------------------------------------------------

    @action(  # type: ignore[untyped-decorator]  # unfold has no types
        description="Upload numbers to look up",
        permissions=["upload"],
        url_path="upload",
        variant=ActionVariant.PRIMARY,
    )
    def upload(self, request: HttpRequest) -> HttpResponse:
        return self.upload_page(request)

    def can_upload(self, request: HttpRequest, kind: str) -> bool:
        return request.user.has_perms(services.PERMISSIONS)

    def upload_context(self, request: HttpRequest, kind: str) -> dict[str, Any]:
        intro = "CSV, or one number per line. The next page shows what it would cost, and asks you to start."
        command = command_line("lookup_file FILE --output OUTPUT")
        return {"title": "Upload numbers to look up", "kind": "Numbers to look up", "intro": intro, "command": command}

    def next_url(self, request: HttpRequest, upload: ImportUpload | None) -> str | None:
        """A file that was uploaded is started or discarded before the next one is uploaded."""
        waiting = services.waiting(request.user)
        if waiting is None:
            return None
        text = "This file is ready. Start the search, or discard the file before you upload another one."
        self.message_user(request, text, messages.INFO)
        return self.url_of(waiting)

    # --- What can be done with a look-up -----------------------------------------------------------------------------

    def offers(self, request: HttpRequest, url_path: str, obj: FileLookup) -> bool:
        states = {"start": (State.READY, State.STOPPED), "stop": (State.RUNNING,)}
        return obj.state in states.get(url_path, (State.READY, State.STOPPED, State.DONE))

    def action_context(self, request: HttpRequest, url_path: str, obj: FileLookup) -> dict[str, Any]:
        if url_path != "start":
            return {}
        due = services.unanswered(obj).count()
        explanation = f"{due:,} different numbers cost at most {credits_text(due)}."
        return {"explanation": explanation, "initial": {"token": obj.token}, "form_options": {"due": due}}

    @form_action("Start", PERMISSION, VIEW_TOKEN, form=StartForm, variant=ActionVariant.PRIMARY)
    def start(self, request: HttpRequest, obj: FileLookup, data: dict[str, Any]) -> str:
        token = data["token"]
        url = settings.SEARCH_URL or _own_url(request)
        services.start(obj, token=token, by=request.user, url=url, host=request.get_host())
        services.record(obj, request.user, f"Started at the expense of token {token.pk}: {_counts(obj)}.")
        at_its_expense = f"Started file look-up {obj.pk} at its expense: {_counts(obj)}."
        services.record(obj, request.user, at_its_expense, target=token)
        due = services.unanswered(obj).count()
        return f"The search has started. {_time(due, *tokens.rate_limit(token))}".strip()

    @form_action("Stop", PERMISSION, explanation="What was answered is kept, and the rest can be started again.")
    def stop(self, request: HttpRequest, obj: FileLookup, data: dict[str, Any]) -> str:
        services.stop(obj)
        services.record(obj, request.user, f"Stopped: {_counts(obj)}.")
        return "The search ends within seconds."

    @form_action(
        "Discard",
        PERMISSION,
        explanation="Deletes the file and all answers.",
        variant=ActionVariant.DANGER,
        atomic=False,
    )
    def discard(self, request: HttpRequest, obj: FileLookup, data: dict[str, Any]) -> str:
        rows = _counts(obj)
        services.discard(obj)
        services.record(obj, request.user, f"Discarded: {rows}.")
        return "The file and its answers were deleted."
