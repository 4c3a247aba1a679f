"""Importing a file in the console: the form, the parts that uploads.js sends, progress, preview and confirmation.

A file comes in parts, because no request may be larger than DATA_UPLOAD_MAX_MEMORY_SIZE: bodies are read before the
login. Only who has begun an upload can continue it.
"""

import codecs
from collections.abc import Iterable, Mapping
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path
from unfold.decorators import action
from unfold.widgets import (
    UnfoldAdminFileFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

from core import numbers
from core.admin import ConsoleAdmin, page_url, require, submitted
from core.text import clean_text
from phonebook.imports import formats, uploads
from phonebook.imports.readers import base
from phonebook.imports.undo import TABLES
from phonebook.imports.uploads import UploadRefused
from phonebook.models import ImportBatch, ImportUpload

Kind, State = ImportBatch.Kind, ImportBatch.State
_FORMATS: dict[str, Mapping[str, formats.Format]] = {
    Kind.CONTACTS: formats.CONTACTS,
    Kind.COMPLAINTS: formats.COMPLAINTS,
}
INTERRUPTED = "Interrupted"


def can_import(request: HttpRequest, kind: str) -> bool:
    """Whether the user may add, change and delete what the import is about."""
    opts = TABLES[kind].model._meta
    names = ("add", "change", "delete")
    return request.user.has_perms([f"{opts.app_label}.{name}_{opts.model_name}" for name in names])


def state_text(batch: ImportBatch) -> str:
    return INTERRUPTED if uploads.is_interrupted(batch) else batch.get_state_display()


def progress(batch: ImportBatch) -> dict[str, Any]:
    """What uploads.js shows; the page is loaded again when `state` changes."""
    upload = getattr(batch, "upload", None)
    if upload is None or upload.done is None:
        return {"state": state_text(batch), "text": "Waiting for the process to start."}
    about = "about " if upload.step == "Reading" else ""
    text = (
        f"{upload.step}: row {upload.done:,} of {about}{upload.total:,}."
        if upload.step
        else "Waiting for another import."
    )
    return {"state": state_text(batch), "text": text, "done": upload.done, "total": upload.total}


def _of_kind(kind: str) -> dict[str, str]:
    """For uploads.js, which hides the options of the other kind."""
    return {"data-kind": kind}


class UploadForm(forms.Form):
    """The options of import_contacts and import_complaints. `kinds`: those that the user may import."""

    file = forms.FileField(widget=UnfoldAdminFileFieldWidget)
    what = forms.ChoiceField(label="What is in the file", widget=UnfoldAdminSelectWidget)
    region = forms.CharField(
        required=False,
        max_length=2,
        widget=UnfoldAdminTextInputWidget(attrs=_of_kind(Kind.CONTACTS)),
        help_text="Where numbers without a plus are dialed, such as US. Without it they need their country code.",
    )
    source = forms.CharField(
        required=False,
        widget=UnfoldAdminTextInputWidget(attrs=_of_kind(Kind.COMPLAINTS)),
        help_text="Source of rows that name none. By default ftc, fcc, phoneblock or import, by the format.",
    )
    full = forms.BooleanField(
        label="The block list is complete (--full): remove the numbers that it does not name",
        required=False,
        widget=UnfoldBooleanWidget(attrs=_of_kind(Kind.COMPLAINTS)),
    )
    allow_loss = forms.BooleanField(
        label="Import even if more than half of a day's or list's numbers are lost (--allow-loss)",
        required=False,
        widget=UnfoldBooleanWidget(attrs=_of_kind(Kind.COMPLAINTS)),
    )
    encoding = forms.CharField(
        required=False,
        max_length=40,
        widget=UnfoldAdminTextInputWidget,
        help_text="Such as cp1252, for files in neither UTF-8 nor with a byte order mark.",
    )
    file_name = forms.CharField(max_length=255, widget=forms.HiddenInput)
    size = forms.IntegerField(
        min_value=1,
        max_value=uploads.MAX_BYTES,
        widget=forms.HiddenInput,
        error_messages={
            "min_value": "The file is empty.",
            "max_value": f"The file has more than {uploads.MAX_BYTES >> 20} MB. Compress it with gzip, or import it by "
            "a command.",
        },
    )

    def __init__(self, *args: Any, kinds: Iterable[str], **options: Any) -> None:
        super().__init__(*args, **options)
        if self.is_bound:
            del self.fields["file"]  # it comes in parts
        self.fields["what"].choices = [  # type: ignore[attr-defined]
            (
                Kind(kind).label,
                [
                    (kind, f"{Kind(kind).label}: recognize the format"),
                    *((f"{kind}:{name}", f"{Kind(kind).label}: {each.title}") for name, each in _FORMATS[kind].items()),
                ],
            )
            for kind in kinds
        ]

    def clean_region(self) -> str:
        region: str = self.cleaned_data["region"].upper()
        if region and region not in numbers.REGIONS:
            raise forms.ValidationError("Enter an ISO 3166-1 code such as US.")
        return region

    def clean_source(self) -> str:
        try:
            return base.parse_source(self.cleaned_data["source"]) if self.cleaned_data["source"] else ""
        except base.InvalidCell as error:
            raise forms.ValidationError(f"The {error}.") from error

    def clean_encoding(self) -> str:
        encoding: str = self.cleaned_data["encoding"]
        try:
            codecs.lookup(encoding or "utf-8")
        except LookupError:
            raise forms.ValidationError("Enter the name of an encoding such as cp1252.") from None
        return encoding

    def clean_file_name(self) -> str:
        return clean_text(self.cleaned_data["file_name"].replace("/", "_"))

    def importing(self) -> tuple[str, dict[str, Any]]:
        """The kind of import, and its options that are set (ImportBatch.options)."""
        kind, _, format_name = self.cleaned_data["what"].partition(":")
        names = ("region",) if kind == Kind.CONTACTS else ("source", "full", "allow_loss")
        options = {"format": format_name} | {name: self.cleaned_data[name] for name in (*names, "encoding")}
        return kind, {name: value for name, value in options.items() if value}


class UploadAdmin(ConsoleAdmin):
    """The pages of an upload, for the ModelAdmin of ImportBatch."""

    actions_list = ("upload",)
    list_before_template = "admin/parts/action_buttons.html"
    list_select_related = ("upload",)

    def has_upload_permission(self, request: HttpRequest) -> bool:
        can_view = request.user.has_perm("phonebook.view_importbatch")
        return can_view and any(can_import(request, kind) for kind in Kind)

    def get_urls(self) -> list[URLPattern]:
        views = {"part": self.part, "progress": self.progress, "step": self.step}
        own = [
            path(
                f"<int:batch_id>/{name}/",
                self.admin_site.admin_view(view),
                name=f"{self.opts.app_label}_{self.opts.model_name}_{name}",
            )
            for name, view in views.items()
        ]
        return [*own, *super().get_urls()]

    @action(description="Import a file", permissions=["upload"], url_path="upload")  # type: ignore[untyped-decorator]  # unfold has no types
    def upload(self, request: HttpRequest) -> HttpResponse:
        """The form; a POST, by uploads.js, begins the upload, and gets the URLs for its parts and of its page."""
        form = UploadForm(
            submitted(request),
            kinds=[kind for kind in Kind if can_import(request, kind)],
            initial={"what": request.GET.get("kind")},
        )
        if request.method != "POST":
            limits = {"part_bytes": uploads.PART_BYTES, "max_bytes": uploads.MAX_BYTES}
            return self.render_page(
                request, "upload.html", form=form, title="Import a file", cancel_url=self.url_of(None), **limits
            )
        if not form.is_valid():
            errors = [
                error if form.fields[name].widget.is_hidden else f"{form[name].label}: {error}"
                for name, found in form.errors.items()
                for error in found
            ]
            return JsonResponse({"errors": errors}, status=400)
        kind, options = form.importing()
        try:
            batch = uploads.begin(
                kind=kind,
                by=request.user.get_username(),
                file_name=form.cleaned_data["file_name"],
                size=form.cleaned_data["size"],
                options=options,
            )
        except UploadRefused as error:
            return JsonResponse({"errors": [str(error)]}, status=409)
        return JsonResponse({"part": page_url(ImportBatch, "part", batch.pk), "page": self.url_of(batch)})

    def part(self, request: HttpRequest, batch_id: int) -> HttpResponse:
        batch = self._own(request, batch_id)
        offset = request.GET.get("offset", "")
        if request.method != "POST" or request.content_type != "application/octet-stream" or not offset.isdecimal():
            return JsonResponse({"errors": ["This is no part of a file."]}, status=400)
        try:
            received = uploads.append(batch_id=batch.pk, by=batch.by, offset=int(offset[:12]), content=request.body)
        except ImportUpload.DoesNotExist:
            raise Http404 from None
        except UploadRefused as error:
            return JsonResponse({"errors": [str(error)]}, status=409)
        return JsonResponse({"received": received})

    def progress(self, request: HttpRequest, batch_id: int) -> HttpResponse:
        return JsonResponse(progress(self._own(request, batch_id)))

    def step(self, request: HttpRequest, batch_id: int) -> HttpResponse:
        """What the buttons on the page of an upload do."""
        batch = self._own(request, batch_id)
        which: Any = {"batch_id": batch.pk, "by": batch.by}
        try:
            match request.POST.get("step"):
                case "import":
                    uploads.confirm(**which)
                case "restart":
                    return redirect(self.url_of(uploads.restart(**which)))
                case "discard" if uploads.discard(**which):
                    self.message_user(request, "The file was discarded.", messages.SUCCESS)
                    return redirect(self.url_of(None))
        except UploadRefused as error:
            self.message_user(request, str(error), messages.ERROR)
        return redirect(self.url_of(batch))

    def upload_context(self, request: HttpRequest, batch: ImportBatch) -> dict[str, Any]:
        """Of the page of an import, for the user who has uploaded its file, until it has ended."""
        upload = getattr(batch, "upload", None)
        if upload is None or batch.by != request.user.get_username() or not can_import(request, batch.kind):
            return {}
        counts = {name: batch.counts.get(name, 0) for name in ("added", "changed", "removed", "unchanged", "repeated")}
        changes = counts["added"] + counts["changed"] + counts["removed"]
        return {
            "upload": upload,
            "is_interrupted": uploads.is_interrupted(batch),
            "is_working": batch.state in (State.CHECKING, State.RUNNING),
            "progress": progress(batch),
            "counts": counts | {"rejected": sum(batch.counts.get("rejected", {}).values())},
            "changes": changes,
            # Of a list of complaints without changes the import records the version.
            "can_confirm": batch.state == State.READY and (changes or batch.kind == Kind.COMPLAINTS),
            "examples": [row | {"number": numbers.formatted(row["number"])} for row in upload.preview or ()],
        }

    @staticmethod
    def _own(request: HttpRequest, batch_id: int) -> ImportBatch:
        """The batch, if this user has begun it. Raises Http404 and PermissionDenied."""
        require(any(can_import(request, kind) for kind in Kind))
        by = request.user.get_username()
        batch = ImportBatch.objects.filter(pk=batch_id, by=by).select_related("upload").first()
        if batch is None:
            raise Http404
        require(can_import(request, batch.kind))
        return batch
