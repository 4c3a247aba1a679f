"""The console's Sources page: calls, failures and cost."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from core import periods
from core.admin import ReadOnlyAdmin, require
from lookup import source_report, statistics
from lookup.address_books import status as address_books
from lookup.imports import data_sets
from lookup.models import Usage

MAX_FAILURES = 100


@admin.register(Usage)
class SourcesAdmin(ReadOnlyAdmin):
    """Totals by source instead of a list of rows."""

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
