"""The console's pages of sources: all of them, one source, and the actions on it."""

from collections.abc import Callable
from typing import Any, cast

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from unfold.widgets import UnfoldAdminTextInputWidget

from core import periods
from core.admin import ReadOnlyAdmin, require
from lookup import source_actions, source_details, source_report, statistics
from lookup.address_books import status as address_books
from lookup.admin import tester
from lookup.imports import data_sets
from lookup.models import SourcePause, Usage

MAX_FAILURES = 100
#: State → its text and the type of its label.
STATES = {
    "paused": ("paused", "warning"),
    "breaker": ("paused", "danger"),
    "failing": ("failing", "danger"),
    "healthy": ("healthy", "success"),
    "unused": ("no calls", "default"),
}


class PauseForm(forms.Form):
    reason = forms.CharField(
        max_length=200, widget=UnfoldAdminTextInputWidget, help_text="Shown with the source and in the History."
    )


class ResumeForm(forms.Form):
    reason = forms.CharField(
        max_length=200, required=False, widget=UnfoldAdminTextInputWidget, help_text="Shown in the History."
    )


@admin.register(Usage)
class SourcesAdmin(ReadOnlyAdmin):
    """Totals by source instead of a list of rows."""

    def get_urls(self) -> list[URLPattern]:
        def page(route: str, view: Any, name: str) -> URLPattern:
            return path(route, self.admin_site.admin_view(view), name=f"lookup_usage_{name}")

        return [
            page("test/", self.test_view, "test"),
            page("source/<path:name>/check/", self.check_view, "check"),
            page("source/<path:name>/pause/", self.pause_view, "pause"),
            page("source/<path:name>/resume/", self.resume_view, "resume"),
            page("source/<path:name>/", self.source_view, "source"),
            *super().get_urls(),
        ]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        require(self.has_view_permission(request))
        period, now = periods.from_query(request.GET, periods.WITH_SHORTEST), timezone.now()
        since = period.since(now)
        return self.render_page(
            request,
            "change_list.html",
            title="Sources",
            periods=periods.WITH_SHORTEST,
            period=period,
            since=since,
            now=now,
            report=source_report.report(since),
            data_sets=data_sets.loaded(now),
            address_books=address_books.statuses(now),
            last_failures=statistics.last_results(since)[1][:MAX_FAILURES],
            failures_by_hour=statistics.failures_by_hour(since, MAX_FAILURES),
        )

    def test_view(self, request: HttpRequest) -> HttpResponse:
        return tester.respond(self, request)

    def source_view(self, request: HttpRequest, name: str) -> HttpResponse:
        require(self.has_view_permission(request))
        period, now = periods.from_query(request.GET), timezone.now()
        _require_storable(name)
        by_hour = period is periods.DAY or (period is periods.WEEK and request.GET.get("by") != "day")
        since = period.since(now)
        if (source := source_details.details(name, since=since, now=now, by_hour=by_hour)) is None:
            raise Http404
        text, label = STATES[source.state]
        return self.render_page(
            request,
            "source.html",
            title=name,
            button=name,
            periods=periods.ALL,
            period=period,
            since=since,
            now=now,
            by="hour" if by_hour else "day",
            can_choose_step=period is periods.WEEK,
            source=source,
            state={"text": text, "type": label},
            charts=source_details.charts(source.steps, label=_label(period, by_hour=by_hour)),
            may_check=source.member is not None and request.user.has_perm("lookup.check_source"),
            may_pause=request.user.has_perm("lookup.pause_source"),
            currency=settings.CURRENCY,
            check_seconds=f"{source_actions.MAX_CALL_S:g}",
        )

    def check_view(self, request: HttpRequest, name: str) -> HttpResponse:
        """Call the source once. By POST: a vendor may bill it."""
        require(request.user.has_perms(["lookup.view_usage", "lookup.check_source"]))
        self._require_configured(name)
        if request.method == "POST":
            try:
                result = source_actions.check(name=name, user=cast(User, request.user))
            except source_actions.CheckedRecently:
                text = "No call was made: this source is being checked, or was checked in the last 10 seconds."
                self.message_user(request, text, messages.WARNING)
            else:
                if result.ms is None:
                    self.message_user(request, f"No call was made: {result.outcome}.", messages.WARNING)
                else:
                    level = messages.SUCCESS if result.ok else messages.ERROR
                    self.message_user(request, f"Checked by one call: {result.outcome}.", level)
        return redirect(f"{_address('source', name)}#check")

    def pause_view(self, request: HttpRequest, name: str) -> HttpResponse:
        require(request.user.has_perms(["lookup.view_usage", "lookup.pause_source"]))
        self._require_configured(name)
        paused = set(SourcePause.objects.values_list("connector", flat=True))
        without = source_actions.slots_without_others(name, paused)

        def act(reason: str) -> str:
            source_actions.pause(name=name, reason=reason, user=cast(User, request.user))
            return f"Paused {name}. All processes stop calling it within a few seconds."

        return self._reason_page(
            request,
            name,
            PauseForm,
            act,
            title=f"Pause {name}",
            button="Pause",
            warning=_warning(without),
            explanation=(
                "No process calls the source until it is resumed. Its cached answers are still used; otherwise it "
                "counts as failed, and the sources after it in its slot are called."
            ),
        )

    def resume_view(self, request: HttpRequest, name: str) -> HttpResponse:
        require(request.user.has_perms(["lookup.view_usage", "lookup.pause_source"]))
        _require_storable(name)
        if (pause := SourcePause.objects.filter(pk=name).first()) is None:
            self._require_configured(name)
            self.message_user(request, f"{name} is not paused.", messages.WARNING)
            return redirect(_address("source", name))

        def act(reason: str) -> str:
            source_actions.resume(name=name, reason=reason, user=cast(User, request.user))
            return f"Resumed {name}."

        explanation = f"It is paused {source_actions.described(pause)}."
        return self._reason_page(
            request, name, ResumeForm, act, title=f"Resume {name}", button="Resume", explanation=explanation
        )

    def _reason_page(
        self, request: HttpRequest, name: str, form_class: type[forms.Form], act: Callable[[str], str], **context: Any
    ) -> HttpResponse:
        """Ask for a reason, then `act` with it, which returns the message."""

        def perform(data: dict[str, Any]) -> HttpResponse:
            self.message_user(request, act(data["reason"]), messages.SUCCESS)
            return redirect(_address("source", name))

        form = form_class(request.POST if request.method == "POST" else None)
        return self.form_page(request, form, perform, name=name, cancel_url=_address("source", name), **context)

    def _require_configured(self, name: str) -> None:
        """Raises Http404."""
        if name not in source_actions.configured():
            raise Http404


def _require_storable(name: str) -> None:
    """Raises Http404 for what PostgreSQL would refuse in a query."""
    if not name.isprintable():
        raise Http404


def _warning(without: list[str]) -> str:
    """What pausing the last sources of these slots means."""
    if not without:
        return ""
    slots = " and ".join(without)
    if len(without) == 1:
        return f"{slots} has no other source: it will fail for each number without a rule or a cached answer."
    return f"{slots} have no other source: searches without a rule or a cached answer will get 500."


def _label(period: periods.Period, *, by_hour: bool) -> str:
    return "%H:%M" if period is periods.DAY else "%b %d, %H:%M" if by_hour else "%b %d"


def _address(page: str, name: str) -> str:
    return reverse(f"admin:lookup_usage_{page}", args=[name])
