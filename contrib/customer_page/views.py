"""`/customer/…`: a customer's own page, its figures as JSON and its ledger as CSV, by a signed link.

None of them has a number, note, reason or price.
"""

from datetime import date, datetime, timedelta
from typing import Any

from csp.decorators import csp_replace
from django.conf import settings
from django.db.models import Exists, OuterRef
from django.http import HttpResponse, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from rest_framework.exceptions import NotFound, ParseError
from rest_framework.request import Request
from rest_framework.views import APIView

from accounts import credits, request_statistics, tokens
from accounts.admin import ledger_export, token_list
from accounts.admin.ledger_queries import LedgerForm
from accounts.models import ApiToken, CreditEntry, Customer
from accounts.newest import newest
from contrib.customer_page import links
from core import attempt_limits, pages, periods
from core.numbers import EXAMPLE_NUMBER
from core.periods import CalendarPeriod, iso

NEWEST_CHARGES = 20
#: How many tokens are listed, those that can be used first.
MAX_TOKENS = 50
#: Of the chart, in units of its viewBox.
CHART_HEIGHT, BAR_STEP = 100, 20
#: How many months the page offers as CSV.
MONTHS = 12
LEDGER_COLUMNS = {
    "time": "created_at",
    "token": "token__name",
    "last_four": "token__last_four",
    "kind": "kind",
    "credits": "amount",
    "balance_after": "balance_after",
    "request_id": "request_id",
    "reference": "reference",
}


class CustomerLinkView(APIView):
    """Responds 404 while CUSTOMER_PAGES is off. Links that are not valid count against AUTH_FAILURE_RATE."""

    http_method_names = ["get", "head"]
    schema = None

    def get(self, request: Request, link: str) -> HttpResponseBase:
        if not settings.CUSTOMER_PAGES:
            raise NotFound
        try:
            customer = links.read(link)
        except links.InvalidLink as error:
            attempt_limits.FAILED_AUTHENTICATIONS.inc("link")
            attempt_limits.count_attempt(request._request, group="customer", rate=settings.AUTH_FAILURE_RATE)
            ended = isinstance(error, links.LinkEnded)
            status, title = (410, "This link has expired or was revoked") if ended else (404, "This link is not valid")
            response: HttpResponseBase = self.refuse(request, status, title)
        else:
            response = self.respond(request, customer, link)
        # The URL is a secret: no other site and no search engine may learn it.
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["X-Robots-Tag"] = "noindex, nofollow"
        return response

    def respond(self, request: Request, customer: Customer, link: str) -> HttpResponseBase:
        raise NotImplementedError

    def refuse(self, request: Request, status: int, detail: str) -> HttpResponse:
        return JsonResponse({"detail": detail}, status=status)


@method_decorator(csp_replace(pages.POLICY), name="get")
class CustomerPage(CustomerLinkView):
    def respond(self, request: Request, customer: Customer, link: str) -> HttpResponse:
        context = {
            "search_url": request.build_absolute_uri(reverse("search")),
            "json_url": reverse("customer-json", args=[link]),
            "csv_url": reverse("customer-csv", args=[link]),
            **_overview(customer),
        }
        return render(request._request, "callerid/customer.html", context)

    def refuse(self, request: Request, status: int, detail: str) -> HttpResponse:
        if pages.asks_for_html(request._request):
            return render(request._request, "callerid/customer_link.html", {"title": detail}, status=status)
        return super().refuse(request, status, detail)


class CustomerFigures(CustomerLinkView):
    """The figures of the page as JSON, of all tokens."""

    def respond(self, request: Request, customer: Customer, link: str) -> HttpResponse:
        now = timezone.now()
        rows = _owned(customer, now)
        figures = {
            "customer": customer.name,
            "time": iso(now),
            "balance": _balance(rows, now),
            "tokens": [
                {
                    "name": token.name,
                    "last_four": token.last_four,
                    "test": token.is_test,
                    "state": _state(token, now),
                    "credits": token.credits,
                    "expires_at": iso(token.expires_at),
                }
                for token in rows
            ],
            "days": [{"day": day.isoformat(), "searches": total} for day, total in _searches(rows, now).items()],
        }
        return JsonResponse(figures)


class CustomerLedger(CustomerLinkView):
    """The ledger entries of a month or quarter (UTC), by default the current month, as CSV, newest first."""

    http_method_names = ["get"]

    def respond(self, request: Request, customer: Customer, link: str) -> HttpResponseBase:
        key = request.query_params.get("month") or request.query_params.get("quarter")
        period = CalendarPeriod.parse(key) if key else CalendarPeriod.of(timezone.now())
        if period is None:
            raise ParseError("Enter a month as YYYY-MM, or a quarter as YYYY-Q1.")
        form = LedgerForm({"customer": customer.pk, "period": period.key})
        return StreamingHttpResponse(
            ledger_export.as_csv(form, LEDGER_COLUMNS),
            content_type="text/csv; charset=utf-8",
            headers={"Content-Disposition": f'attachment; filename="ledger-{period.key}.csv"'},
        )


def _calendars(rows: list[ApiToken], now: datetime) -> list[tuple[str, list[CalendarPeriod]]]:
    """The months, at most MONTHS of them, and quarters since the first of these tokens was issued, newest first."""
    oldest = CalendarPeriod.of(now).since - timedelta(days=30 * (MONTHS - 1))
    return periods.calendars(max(oldest, min(token.created_at for token in rows)), now) if rows else []


def _owned(customer: Customer, now: datetime) -> list[ApiToken]:
    """The customer's tokens: those that can be used first, and the newest first."""
    return sorted(customer.tokens.order_by("-pk"), key=lambda token: not token.is_usable_at(now))


def _balance(rows: list[ApiToken], now: datetime) -> int:
    return sum(token.credits for token in rows if token.is_usable_at(now))


def _state(token: ApiToken, now: datetime) -> str:
    """`active`, `expired` or `revoked`."""
    state = token.state_at(now)
    return "active" if state == "in grace" else state


def _searches(rows: list[ApiToken], now: datetime) -> dict[date, int]:
    """The answered searches of each day."""
    days = request_statistics.by_day([token.pk for token in rows], now)
    return {day: sum(counts.get(outcome, 0) for outcome in request_statistics.SEARCHES) for day, counts in days.items()}


def _overview(customer: Customer) -> dict[str, Any]:
    now = timezone.now()
    rows = _owned(customer, now)
    searches = CreditEntry.objects.filter(kind=CreditEntry.Kind.SEARCH).select_related("token")
    refunds = CreditEntry.objects.filter(refunds=OuterRef("pk"))
    days = _searches(rows, now)
    return {
        "customer": customer,
        "now": now,
        "balance": _balance(rows, now),
        "usable": sum(token.is_usable_at(now) for token in rows),
        "tokens": [_token(token, now) for token in request_statistics.activity_of(rows[:MAX_TOKENS], now)],
        "has_test_tokens": any(token.is_test for token in rows),
        "more": max(0, len(rows) - MAX_TOKENS),
        "charges": newest(searches, [token.pk for token in rows], NEWEST_CHARGES).annotate(refunded=Exists(refunds)),
        "days": _bars(days),
        "searches": sum(days.values()),
        "most_a_day": max(days.values()),
        "calendars": _calendars(rows, now),
        "chart_height": CHART_HEIGHT,
        "chart_width": request_statistics.DAYS * BAR_STEP,
        "number": EXAMPLE_NUMBER,
        "charge_rule": credits.charge_rule(),
    }


def _token(token: Any, now: datetime) -> dict[str, Any]:
    count, window_s = tokens.rate_limit(token)
    in_grace_until = token.previous_until if token.state_at(now) == "in grace" else None
    return {
        "row": token,
        "state": _state(token, now),
        "in_grace_until": in_grace_until,
        "runs_out": token_list.runs_out(token, now),
        "limit": f"{count:,} requests in {window_s} seconds",
    }


def _bars(days: dict[date, int]) -> list[dict[str, Any]]:
    """Each day with its bar of the chart."""
    highest = max(*days.values(), 1)
    bars = [round(CHART_HEIGHT * total / highest) or (1 if total else 0) for total in days.values()]
    return [
        {"day": day, "count": total, "x": n * BAR_STEP, "y": CHART_HEIGHT - bar, "height": bar}
        for n, ((day, total), bar) in enumerate(zip(days.items(), bars, strict=True))
    ]
