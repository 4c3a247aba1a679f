"""Importing a file in the console: the form, the parts that uploads.js sends, progress, preview and confirmation.

A file comes in parts, because no request may be larger than DATA_UPLOAD_MAX_MEMORY_SIZE: bodies are read before the
login. Each user has one upload, which only this user sees.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, cast

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.shortcuts import redirect
from django.urls import URLPattern, path
from django.utils.text import get_text_list
from unfold.decorators import action
from unfold.enums import ActionVariant
from unfold.widgets import (
    UnfoldAdminFileFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

from contrib.uploads import uploads
from contrib.uploads.models import ImportUpload
from contrib.uploads.undo import TABLES
from contrib.uploads.uploads import UploadRefused
from core import numbers
from core.admin import ConsoleAdmin, require
from core.amounts import whole_number
from core.cells import page_url
from core.commands import command_line
from core.forms import TextField, WholeNumberField
from core.text import clean_text, encoding_named
from phonebook.admin.imports import fault_texts
from phonebook.imports import COMPLAINT_FORMATS, CONTACT_FORMATS, Format
from phonebook.imports.readers import base
from phonebook.models import ImportBatch

Kind, State = ImportBatch.Kind, ImportUpload.State
EXAMPLES_PER_PAGE = 25


def can_import(request: HttpRequest, kind: str) -> bool:
    """Whether the user may add, change and delete what the import is about."""
    opts = TABLES[kind].model._meta
    names = ("add", "change", "delete")
    return request.user.has_perms([f"{opts.app_label}.{name}_{opts.model_name}" for name in names])


def progress(upload: ImportUpload | None) -> dict[str, Any]:
    """What uploads.js shows; the page is loaded again when `state` changes."""
    if upload is None:
        return {"state": ""}
    text = "Waiting for the process to start."
    if upload.step:
        about = "about " if upload.step == "Reading" else ""
        text = f"{upload.step}: row {upload.done:,} of {about}{upload.total:,}."
    return {"state": upload.get_state_display(), "text": text, "done": upload.done, "total": upload.total}


def _effect(counts: Mapping[str, int], noun: str) -> str:
    """What an import would do, in words. `noun`: what a row is."""
    verbs = {"added": "adds", "changed": "changes", "removed": "removes", "unchanged": "does not change"}
    found = [(verb, counts[name]) for name, verb in verbs.items() if counts[name]]
    if not found:
        return f"The import changes no {noun}s."
    (verb, count), *others = found
    texts = [f"{verb} {count:,} {noun}{'s' * (count != 1)}", *(f"{verb} {count:,}" for verb, count in others)]
    return f"The import {get_text_list(texts, 'and')}."


def _faults(counts: Mapping[str, Any]) -> dict[str, int]:
    """How many rows are not imported, by reason."""
    return {**counts.get("rejected", {}), "repeated": counts.get("repeated", 0)}


def _not_imported(counts: Mapping[str, Any]) -> str:
    """How many rows of how many are not imported, and why; empty for none."""
    found = _faults(counts)
    total = sum(found.values())
    why = ", ".join(f"{reason} ({count:,})" for reason, count in found.items() if count)
    return f"{total:,} of {counts['read']:,} rows {'are' if total != 1 else 'is'} not imported: {why}." if total else ""


def _blocked(upload: ImportUpload) -> str:
    """The newest imports that cannot be undone while this one, which met rows that exist, is not."""
    newest = ImportBatch.objects.filter(kind=upload.kind, can_undo=True).order_by("-pk")[:3]
    return ", ".join(f"import {batch.pk}" for batch in newest)


class UploadForm(forms.Form):
    """The fields of every upload. Fields that are set are ImportBatch.options, but for those in FILE."""

    FILE = ("file_name", "size")

    file = forms.FileField(widget=UnfoldAdminFileFieldWidget)
    encoding = TextField(
        required=False,
        max_length=40,
        widget=UnfoldAdminTextInputWidget,
        help_text="Leave empty for UTF-8. Files of older Windows programs may use cp1252.",
    )
    file_name = forms.CharField(max_length=255, widget=forms.HiddenInput)
    size = WholeNumberField(
        min_value=1,
        max_value=uploads.MAX_BYTES,
        widget=forms.HiddenInput,
        error_messages={
            "min_value": "The file is empty.",
            "max_value": f"The file has more than {uploads.MAX_BYTES >> 20} MB. Compress it with gzip, or use the "
            "command.",
        },
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.is_bound:
            del self.fields["file"]  # it comes in parts

    def clean_encoding(self) -> str:
        encoding: str = self.cleaned_data["encoding"]
        if encoding and encoding_named(encoding) is None:
            raise forms.ValidationError("Enter the name of an encoding such as cp1252.")
        return encoding

    def clean_file_name(self) -> str:
        return clean_text(self.cleaned_data["file_name"].replace("/", "_"))


class FormatField(forms.ChoiceField):
    def __init__(self, known: Iterable[Format]) -> None:
        def choices() -> list[tuple[str, str]]:
            return [("", "Detect automatically"), *((each.name, each.title) for each in known)]

        super().__init__(choices=choices, required=False, widget=UnfoldAdminSelectWidget)


class RegionField(TextField):
    """An ISO 3166-1 alpha-2 code, or empty."""

    def __init__(self) -> None:
        text = (
            "Country of numbers that do not start with +, for example US. "
            "If empty, every number needs its country code."
        )
        super().__init__(required=False, max_length=2, widget=UnfoldAdminTextInputWidget, help_text=text)

    def clean(self, value: Any) -> str:
        region: str = super().clean(value).upper()
        if region and region not in numbers.REGIONS:
            raise forms.ValidationError("Enter an ISO 3166-1 code such as US.")
        return region


class ContactsForm(UploadForm):
    field_order = ("file", "region", "format")

    format = FormatField(CONTACT_FORMATS)
    region = RegionField()


class ComplaintsForm(UploadForm):
    field_order = ("file", "source", "format")

    format = FormatField(COMPLAINT_FORMATS)
    source = TextField(
        required=False,
        max_length=base.MAX_SOURCE,
        widget=UnfoldAdminTextInputWidget,
        help_text="Of rows that name none. If it is empty: that of the format, or import for CSV.",
    )
    full = forms.BooleanField(
        label="The block list is complete (--full): remove the numbers that it does not name",
        required=False,
        widget=UnfoldBooleanWidget,
    )
    allow_loss = forms.BooleanField(
        label="Import even if more than half of a day's or list's numbers are lost (--allow-loss)",
        required=False,
        widget=UnfoldBooleanWidget,
    )

    def clean_source(self) -> str:
        try:
            return base.parse_source(self.cleaned_data["source"]) if self.cleaned_data["source"] else ""
        except base.InvalidCell as error:
            raise forms.ValidationError(f"The {error}.") from error


class UploadAdmin(ConsoleAdmin):
    """The page of a user's upload, for the ModelAdmin of what becomes of it, and what uploads.js requests."""

    #: By kind.
    upload_forms: ClassVar[Mapping[str, type[UploadForm]]]
    actions_list = ("upload",)
    list_before_template = "admin/parts/action_buttons.html"

    def can_upload(self, request: HttpRequest, kind: str) -> bool:
        raise NotImplementedError

    def upload_context(self, request: HttpRequest, kind: str) -> dict[str, Any]:
        """Of the page: `title`, `kind` of file, `intro`, and `command`, which does the same."""
        raise NotImplementedError

    def next_url(self, request: HttpRequest, upload: ImportUpload | None) -> str | None:
        """The page of what became of the user's file, or of an earlier one, if that must be seen first."""
        raise NotImplementedError

    def has_upload_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request) and bool(self._kinds(request))

    def get_urls(self) -> list[URLPattern]:
        views = {"part": self.part, "progress": self.progress, "step": self.step}
        name = f"{self.opts.app_label}_{self.opts.model_name}_upload"
        own = [
            path(f"upload/{step}/", self.admin_site.admin_view(view), name=f"{name}_{step}")
            for step, view in views.items()
        ]
        return [*own, *super().get_urls()]

    @action(  # type: ignore[untyped-decorator]  # unfold has no types
        description="Import a file", permissions=["upload"], url_path="upload", variant=ActionVariant.PRIMARY
    )
    def upload(self, request: HttpRequest) -> HttpResponse:
        return self.upload_page(request)

    def upload_page(self, request: HttpRequest) -> HttpResponse:
        """The user's upload or, without one, the form of `kind`; a POST, by uploads.js, begins an upload."""
        kinds = self._kinds(request)
        kind = request.GET.get("kind", kinds[0])
        require(kind in kinds)
        if request.method == "POST":
            return self._begin(request, kind)
        uploads.end_killed()
        uploads.run_waiting()
        upload = self._own(request)
        if url := self.next_url(request, upload):
            return redirect(url)
        others = [(each, self.upload_context(request, each)["title"]) for each in kinds if each != kind]
        context: dict[str, Any] = {"form": self.upload_forms[kind](), "others": others}
        if upload is not None:
            kind, context = upload.kind, self._state(upload, request.GET.get("p"))
        context |= {
            "part_bytes": uploads.PART_BYTES,
            "max_mb": uploads.MAX_BYTES >> 20,
            "cancel_url": self.url_of(None),
        }
        urls = {f"{name}_url": page_url(self.model, f"upload_{name}") for name in ("progress", "step")}
        return self.render_page(request, "upload.html", **context, **urls, **self.upload_context(request, kind))

    def _begin(self, request: HttpRequest, kind: str) -> HttpResponse:
        form = self.upload_forms[kind](request.POST)
        if not form.is_valid():
            fields = {field.name: " ".join(map(str, field.errors)) for field in form.visible_fields() if field.errors}
            errors = [error for field in form.hidden_fields() for error in field.errors]
            return JsonResponse({"errors": errors, "fields": fields}, status=400)
        options = {name: value for name, value in form.cleaned_data.items() if value and name not in form.FILE}
        file = {name: form.cleaned_data[name] for name in form.FILE}
        try:
            if self.next_url(request, None):
                raise UploadRefused("You have a file that waits. Reload the page.")
            upload = uploads.begin(user=cast(User, request.user), kind=kind, options=options, **file)
        except UploadRefused as error:
            return JsonResponse({"errors": [str(error)]}, status=409)
        return JsonResponse({"part": f"{page_url(self.model, 'upload_part')}?upload={upload.pk}"})

    @staticmethod
    def _state(upload: ImportUpload, page: str | None) -> dict[str, Any]:
        """`page`: the number of the page of the preview."""
        counts = {name: upload.counts.get(name, 0) for name in ("added", "changed", "removed", "unchanged")}
        changes = counts["added"] + counts["changed"] + counts["removed"]
        return {
            "upload": upload,
            "progress": progress(upload),
            "effect": _effect(counts, "contact" if upload.kind == Kind.CONTACTS else "complaint count"),
            "not_imported": _not_imported(upload.counts),
            "faults": fault_texts(upload.faults),
            "has_all_faults": len(upload.faults) == sum(_faults(upload.counts).values()),
            "changes": changes,
            # Of a list of complaints without changes the import records the version.
            "can_confirm": upload.state == State.READY and (changes or upload.kind == Kind.COMPLAINTS),
            "blocked": _blocked(upload) if changes - counts["added"] + counts["unchanged"] else "",
            "examples": Paginator(
                [row | {"number": numbers.formatted(row["number"])} for row in upload.preview], EXAMPLES_PER_PAGE
            ).get_page(page),
        }

    def part(self, request: HttpRequest) -> HttpResponse:
        try:
            offset = whole_number(request.GET.get("offset", ""))
        except ValueError:
            offset = -1
        if request.method != "POST" or request.content_type != "application/octet-stream" or offset < 0:
            return JsonResponse({"errors": ["This is no part of a file."]}, status=400)
        try:
            received = uploads.append(self._meant(request, request.GET), offset=offset, content=request.body)
        except UploadRefused as error:
            return JsonResponse({"errors": [str(error)]}, status=409)
        return JsonResponse({"received": received})

    def progress(self, request: HttpRequest) -> HttpResponse:
        uploads.end_killed()
        uploads.run_waiting()
        return JsonResponse(progress(self._own(request)))

    def step(self, request: HttpRequest) -> HttpResponse:
        """What the buttons on the page of an upload do."""
        try:
            upload = self._meant(request, request.POST)
            if request.POST.get("step") == "import":
                return redirect(self.url_of(uploads.confirm(upload)))
            if uploads.discard(upload):
                self.message_user(request, "The file was discarded.", messages.SUCCESS)
        except UploadRefused as error:
            self.message_user(request, str(error), messages.ERROR)
        return redirect(page_url(self.model, "upload"))

    def _kinds(self, request: HttpRequest) -> list[str]:
        return [kind for kind in self.upload_forms if self.can_upload(request, kind)]

    def _own(self, request: HttpRequest) -> ImportUpload | None:
        """The user's upload, if it is of a kind that the user may upload here. Raises PermissionDenied."""
        kinds = self._kinds(request)
        require(bool(kinds))
        return ImportUpload.objects.select_related("batch", "user").filter(user=request.user.pk, kind__in=kinds).first()

    def _meant(self, request: HttpRequest, data: QueryDict) -> ImportUpload:
        """The user's upload, if it is the one that the page was about. Raises UploadRefused and PermissionDenied."""
        upload = self._own(request)
        if upload is None or str(upload.pk) != data.get("upload"):
            raise UploadRefused("The file was imported, discarded or replaced by another upload. Reload the page.")
        return upload


class ImportUploadAdmin(UploadAdmin):
    """For the ModelAdmin of ImportBatch."""

    change_form_template = "uploads/change_form.html"
    upload_forms: ClassVar = {Kind.CONTACTS: ContactsForm, Kind.COMPLAINTS: ComplaintsForm}

    def can_upload(self, request: HttpRequest, kind: str) -> bool:
        return can_import(request, kind)

    def upload_context(self, request: HttpRequest, kind: str) -> dict[str, Any]:
        known = {Kind.CONTACTS: CONTACT_FORMATS, Kind.COMPLAINTS: COMPLAINT_FORMATS}[Kind(kind)]
        titles = "; ".join(each.title for each in known)
        checked = "It is checked first: the next page shows what the import would change, and asks you to confirm."
        title = f"Import {Kind(kind).label.lower()}"
        label = Kind(kind).label
        command = command_line(f"import_{kind} FILE")
        return {"title": title, "kind": label, "intro": f"{titles}. {checked}", "command": command}

    def next_url(self, request: HttpRequest, upload: ImportUpload | None) -> str | None:
        return self.url_of(upload.batch) if upload is not None and upload.batch is not None else None

    def page_context(self, request: HttpRequest, obj: ImportBatch) -> dict[str, Any]:
        """With the progress, for the user who has uploaded its file, until it has ended."""
        context = super().page_context(request, obj)
        upload = ImportUpload.objects.filter(batch=obj, user=request.user.pk).first()
        if upload is None or obj.state != ImportBatch.State.RUNNING or not can_import(request, obj.kind):
            return context
        return {**context, "progress": progress(upload), "progress_url": page_url(ImportBatch, "upload_progress")}


class ImportFileAction(ConsoleAdmin):
    """For the ModelAdmin of what an import writes."""

    actions_list = ("import_file",)
    list_before_template = "admin/parts/action_buttons.html"

    @property
    def _kind(self) -> str:
        return next(kind for kind, table in TABLES.items() if table.model is self.model)

    def has_import_file_permission(self, request: HttpRequest) -> bool:
        return can_import(request, self._kind)

    @action(description="Import a file", permissions=["import_file"], url_path="import-file")  # type: ignore[untyped-decorator]
    def import_file(self, request: HttpRequest) -> HttpResponse:
        return redirect(f"{page_url(ImportBatch, 'upload')}?kind={self._kind}")
