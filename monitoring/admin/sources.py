"""The console's pages of sources: all of them, one source, and the actions on it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, cast

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.module_loading import import_string
from unfold.enums import ActionVariant
from unfold.widgets import UnfoldAdminTextInputWidget

from core import charts, periods
from core.admin import (
    ReadOnlyAdmin,
    Unchanged,
    form_action,
    related_page,
    require,
)
from core.forms import TextField
from lookup import source_actions
from lookup.models import SourcePause
from monitoring import hooks, source_report, source_statistics
from monitoring.models import Source, SourceResult
from monitoring.source_statistics import BOUNDS_MS, SourceUsage
from phonebook.imports import data_sets

MAX_FAILURES = 100
VIEW = "monitoring.view_source"
#: The bars of a source's chart: title, the attribute of SourceUsage, the name of the colour in console.css, and its
#: value there.
BARS = (
    ("found", "found", "found", "#1f6fb2"),
    ("not found", "not_found", "not-found", "#8a93a0"),
    ("cached", "cached", "cached", "#45a5d9"),
    ("failed", "failed", "failed", "#d03a20"),
)


class PauseForm(forms.Form):
    reason = TextField(
        max_length=200,
        widget=UnfoldAdminTextInputWidget,
        help_text="Shown with the source and its alert, and in the History.",
    )


class ResumeForm(forms.Form):
    reason = TextField(max_length=200, widget=UnfoldAdminTextInputWidget, required=False)


@dataclass(frozen=True, slots=True)
class SourcePage:
    """The object of a source's page. `pk`: its name. `pause`: None if no operator has paused it."""

    pk: str
    pause: SourcePause | None
    _meta: ClassVar[Any] = Source._meta  # for unfold's header

    def __str__(self) -> str:
        return self.pk


@admin.register(Source)
class SourcesAdmin(ReadOnlyAdmin):
    """Totals by source instead of a list of rows. The object of a page is a source: its name is the key."""

    actions_detail = ("pause", "resume", "check_now")

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> SourcePage | None:
        """The source of this name, if it is configured or paused."""
        if not object_id.isprintable():  # PostgreSQL would refuse it
            return None
        pause = SourcePause.objects.filter(pk=object_id).first()
        return SourcePage(object_id, pause) if pause or object_id in source_actions.configured() else None

    def offers(self, request: HttpRequest, url_path: str, obj: SourcePage) -> bool:
        if url_path == "resume":
            return obj.pause is not None
        return obj.pk in source_actions.configured() and not (url_path == "pause" and obj.pause)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        require(self.has_view_permission(request))
        period, now = periods.from_query(request.GET), timezone.now()
        since, until = period.since(now), period.until(now)
        return self.render_page(
            request,
            "change_list.html",
            title="Sources",
            periods=periods.ALL,
            period=period,
            since=since,
            described=period.described(now),
            now=now,
            report=source_report.report(since, until, source_report.states(now)),
            published=data_sets.published(),
            data_sets=data_sets.loaded(now),
            sections=_sections(now),
            last_failures=source_statistics.last_results(since).failures[:MAX_FAILURES],
        )

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The page of a source, which may be one that is no longer configured."""
        require(self.has_view_permission(request))
        if not object_id.isprintable():
            raise Http404
        period, now = periods.from_query(request.GET), timezone.now()
        if (source := source_report.details(object_id, period, now)) is None:
            raise Http404
        if source["bound"] and (requests := related_page(request, SourceResult)):
            for failure in source["last_failures"]:
                failure.requests_url = requests.url(failure)
        actions = self.get_actions_detail(request, object_id)
        return self.render_page(
            request,
            "source.html",
            title=object_id,
            periods=periods.ALL,
            period=period,
            since=period.since(now),
            described=period.described(now),
            now=now,
            by=period.step,
            source=source,
            failing_since=source_report.failing_since(now).get(object_id),
            charts=_charts(source["steps"], label=period.step_label),
            actions_detail=self._get_actions_navigation(self.actions_detail, actions, object_id),
            currency=settings.CURRENCY,
        )

    def action_context(self, request: HttpRequest, url_path: str, obj: SourcePage) -> dict[str, Any]:
        if url_path == "resume":
            return {
                "explanation": "Searches call the source again, in all processes within a few seconds. "
                + (f"{obj.pk}: paused {source_actions.described(obj.pause)}." if obj.pause else "It is not paused.")
            }
        if url_path == "pause":
            without = [source_report.slot_name(slot) for slot in source_actions.slots_without_others(obj.pk)]
            slots = " and ".join(without).replace("Source", "source")
            fail = "fail" if len(without) > 1 else "fails"
            only = f"This is the only active source in {slots}. While it is paused, {slots} {fail} "
            return {"warning": f"{only}for every number without a rule or a cached answer." if without else ""}
        bound = source_actions.configured().get(obj.pk)
        may_cost = bound is not None and bound.connector.remote
        seconds = f"The check takes at most {source_actions.MAX_CALL_S:g} seconds."
        return {"once": True, "warning": f"The vendor may bill it. {seconds}" if may_cost else ""}

    @form_action(
        "Pause",
        VIEW,
        "monitoring.pause_source",
        form=PauseForm,
        explanation=(
            "No process calls the source until it is resumed. Its cached answers are still used. For a number without "
            "a cached answer the source counts as failed, and the next source in its slot is called."
        ),
    )
    def pause(self, request: HttpRequest, obj: SourcePage, data: dict[str, Any]) -> str:
        source_actions.pause(name=obj.pk, reason=data["reason"], user=cast(User, request.user))
        return f"Paused {obj}. All processes stop calling it within a few seconds."

    @form_action("Resume", VIEW, "monitoring.pause_source", form=ResumeForm, variant=ActionVariant.PRIMARY)
    def resume(self, request: HttpRequest, obj: SourcePage, data: dict[str, Any]) -> str:
        source_actions.resume(name=obj.pk, reason=data["reason"], user=cast(User, request.user))
        return f"Resumed {obj}."

    @form_action(
        "Check now",
        VIEW,
        "monitoring.check_source",
        explanation=(
            "Makes one real call for a number reserved for fictional use, bypassing the cache and the circuit breaker, "
            "even if the source is paused."
        ),
        atomic=False,
    )
    def check_now(self, request: HttpRequest, obj: SourcePage, data: dict[str, Any]) -> HttpResponse | str:
        try:
            result = source_actions.check(name=obj.pk, user=cast(User, request.user))
        except source_actions.CheckedRecently:
            return Unchanged("No call was made: this source is being checked, or was checked in the last 10 seconds.")
        if result.ms is None:
            return Unchanged(f"No call was made: {result.outcome}.")
        text = source_statistics.check_text(result.outcome, ok=result.ok, ms=result.ms, fix=result.fix)
        self.message_user(request, text, messages.SUCCESS if result.ok else messages.ERROR)
        return redirect(f"{self.url_of(obj)}#check")


def _sections(now: datetime) -> list[tuple[str, dict[str, Any]]]:
    """Those of add-ons: their templates and values."""
    found = [(section.template, import_string(section.context)(now)) for section in hooks.SOURCE_SECTIONS]
    return [(template, values) for template, values in found if values is not None]


def _charts(steps: Sequence[tuple[datetime, SourceUsage]], *, label: str) -> dict[str, Any]:
    """The lookups by outcome, and how long the calls took. `label`: the strftime format of the steps' labels."""
    labels = [f"{at:{label}}" for at, _ in steps]
    counts = {title: [getattr(usage, attribute) for _, usage in steps] for title, attribute, _, _ in BARS}
    return {
        "legend": [(title, css, sum(counts[title])) for title, _, css, _ in BARS],
        "outcomes": charts.stacked_bars(labels, [(title, colour, counts[title]) for title, _, _, colour in BARS]),
        "latency": charts.lines(
            labels,
            [
                ("median", "#1f6fb2", [_drawn_ms(usage.median_ms) for _, usage in steps]),
                ("p95", "#c58a00", [_drawn_ms(usage.p95_ms) for _, usage in steps]),
            ],
        ),
        "has_counts": any(map(any, counts.values())),
        "has_latency": any(usage.calls for _, usage in steps),
    }


def _drawn_ms(duration_ms: float | None) -> float | None:
    """At most the greatest bound: the table says that a duration is over it."""
    return None if duration_ms is None else round(min(duration_ms, BOUNDS_MS[-1]), 1)
