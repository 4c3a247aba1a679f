"""The page of the console's search."""

from django import forms
from django.contrib import admin
from django.core.validators import MaxLengthValidator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from unfold.widgets import UnfoldAdminTextInputWidget

from accounts import tokens
from accounts.models import JWT_PREFIX
from console import finding
from core.admin import submitted


class FindForm(forms.Form):
    q = forms.CharField(
        label="Search the console",
        # Not max_length: browsers would cut a pasted token, which then could not be recognized and refused.
        validators=[MaxLengthValidator(finding.MAX_LENGTH)],
        widget=UnfoldAdminTextInputWidget(
            attrs={"type": "search", "autocomplete": "off", "autocapitalize": "none", "spellcheck": "false"}
        ),
        error_messages={"required": "Enter what you are looking for."},
    )

    def clean(self) -> None:
        """A whole token is refused whatever its length, and not shown again."""
        try:
            tokens.require_no_token(self.data.get("q", ""))
        except tokens.WholeToken as error:
            self.data = {}
            self.errors.pop("q", None)
            self.add_error("q", str(error))


def view(request: HttpRequest) -> HttpResponse:
    """The text may be a number: it is sent by POST and shown in the response only. A single result opens at once."""
    form, groups = FindForm(submitted(request)), None
    if form.is_bound and form.is_valid():
        groups = finding.find(request, form.cleaned_data["q"])
        results = [result for group in groups for result in group.results]
        if len(results) == 1 and not any(group.timed_out for group in groups):
            return redirect(results[0].url)
    context = {
        "form": form,
        "groups": groups,
        "total": sum(len(group.results) for group in groups or ()),
        "is_token_beginning": form.data.get("q", "").startswith(JWT_PREFIX),
        "has_more": any(group.has_more for group in groups or ()),
        "searchable": finding.searchable(request),
        "title": "Search",
    }
    return TemplateResponse(request, "admin/find.html", {**admin.site.each_context(request), **context})
