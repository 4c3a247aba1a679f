"""What the ledger's pages ask: which rows to list, why to refund one, and whether it was a certain number."""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from typing import Any

from django import forms
from django.db.models import BigIntegerField, Case, CharField, DateTimeField, F, Field, Func, Q, QuerySet, Value, When
from django.db.models.lookups import GreaterThanOrEqual, LessThanOrEqual
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from accounts import sifting
from accounts.models import ApiToken, CreditEntry

BOOKED = "booked"
#: What each kind is called on the pages.
WORDS = {"issue": "Issue", "top-up": "Top-up", "search": "Search", "adjustment": "Adjustment", "refund": "Refund"}
#: So many tokens are offered, when a text means several.
MAX_CANDIDATES = 50
#: Callers choose request ids, and one may send the same with all its searches: so many rows of one request id are
#: listed, the newest, and as many of one reference.
MAX_MATCHES = 100
_ID = re.compile(r"#?([0-9]{1,18})")


class DayInput(UnfoldAdminTextInputWidget):
    def __init__(self) -> None:
        super().__init__(attrs={"type": "date"})


class DayField(forms.DateField):
    """As browsers send it."""

    widget = DayInput
    input_formats = ["%Y-%m-%d"]
    default_error_messages = {"invalid": "This is no day. Write it as 2026-01-31."}


class LedgerForm(forms.Form):
    """Which rows of the ledger: the parameters of the list's address, and of the export's.

    No condition is made but what an index serves in the order of time: what is typed is first looked up by itself, and
    becomes one request, one token, or a few rows.
    """

    q = forms.CharField(
        label="Request, token or reference",
        required=False,
        max_length=200,
        widget=UnfoldAdminTextInputWidget(
            attrs={"placeholder": "X-Request-ID, a token's name or #id, a reference", "type": "search"}
        ),
    )
    kind__exact = forms.ChoiceField(
        label="What happened",
        required=False,
        choices=[("", "Everything"), (BOOKED, "All but searches"), *WORDS.items()],
        widget=UnfoldAdminSelectWidget,
        error_messages={"invalid_choice": "There is no such kind of row."},
    )
    since = DayField(label="From day (UTC)", required=False)
    until = DayField(label="To day (UTC)", required=False)
    token__id__exact = forms.IntegerField(required=False, widget=forms.HiddenInput, min_value=1, max_value=2**63 - 1)

    most = MAX_CANDIDATES

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        super().__init__(parameters)
        #: The tokens that the text may mean, when there are several, or rows that it means too: the operator chooses.
        self.candidates: list[ApiToken] = []
        #: The token whose rows are listed alone.
        self.token: ApiToken | None = None
        #: The only rows that are listed, when there are but a few.
        self.keys: list[int] | None = None
        #: Whether the text has more rows than are listed.
        self.cut = False
        #: Among how many of the newest tokens the text was looked for as a name, when those are not all.
        self.sifted: int | None = None

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if data.get("since") and data.get("until") and data["since"] > data["until"]:
            self.add_error("until", "The last day is before the first.")
        if not self.errors:
            if data["token__id__exact"]:
                self.token = ApiToken.objects.filter(pk=data["token__id__exact"]).first()
                if self.token is None:
                    self.add_error("token__id__exact", "There is no such token.")
            if data["q"]:
                self._look_up(data["q"])
        return data

    @property
    def undecided(self) -> bool:
        """Nothing is listed before the operator has chosen one of the candidates."""
        return bool(self.candidates) and not self.keys

    @property
    def exportable(self) -> bool:
        """Not while the text means tokens that nobody has chosen from, though rows that it means too are listed."""
        return not self.errors and not self.candidates

    def cut_sentence(self) -> str:
        """For the list, when `cut`."""
        sentence = (
            f"There are more rows with this text: at most the newest {MAX_MATCHES} bookings and as many searches are "
            "listed. Choose fewer days to see older ones."
        )
        if self.token is None:
            sentence += " To see those of one token, open the ledger from that token's page and search there."
        return sentence

    def _look_up(self, text: str) -> None:
        """Whatever the text means: rows of this reference, rows of this request id, and tokens. Callers choose their
        request ids, so one must not hide what else the text means."""
        value = Value(text, CharField())
        entries = CreditEntry.objects.all()
        found: list[int] = []
        for meant, name in ((entries.exclude(reference=""), "reference"), (entries, "request_id")):
            # Days and token before the cut, or rows of other days and tokens would push out what is asked for.
            rows = self._of_days(meant, name, value)
            if self.token is not None:
                rows = _of_token(rows, self.token)
            keys = list(rows.values_list("pk", flat=True)[: MAX_MATCHES + 1])
            self.cut = self.cut or len(keys) > MAX_MATCHES
            found += keys[:MAX_MATCHES]
        tokens = self._tokens(text)
        if found:
            self.keys, self.candidates = found, ([] if self.token else tokens)
        elif len(tokens) == 1 and self.token in (None, tokens[0]):
            self.token = tokens[0]
        else:
            self.keys, self.candidates = [], ([] if self.token else tokens)

    def _days(self) -> tuple[datetime, datetime]:
        """The first moment and the last of the days that are asked for."""
        data = self.cleaned_data
        return (
            datetime.combine(data["since"] or date.min, time.min, tzinfo=UTC),
            datetime.combine(data["until"] or date.max, time.max, tzinfo=UTC),
        )

    def _of_days(self, entries: QuerySet[CreditEntry], name: str, value: Value) -> QuerySet[CreditEntry]:
        """Those whose column `name` is `value`, within the days, newest first. As a range of an index of both columns,
        and sorted by it: a value that PostgreSQL believes to be common it would look for in all rows."""
        first, last = self._days()
        of = _Pair(name, "created_at")
        entries = entries.filter(GreaterThanOrEqual(of, _pair(value, first)), LessThanOrEqual(of, _pair(value, last)))
        return entries.order_by(f"-{name}", "-created_at")

    def _tokens(self, text: str) -> list[ApiToken]:
        """Those of this id, or with this in their name."""
        identified = _ID.fullmatch(text)
        if identified and text.startswith("#"):
            named = Q(pk=identified[1])
        else:
            named = Q(name__icontains=text)
            if passed_over := sifting.passed_over():
                self.sifted = sifting.MAX_SIFTED
                named &= Q(pk__gt=passed_over)
            if identified:
                named |= Q(pk=identified[1])
        return list(ApiToken.objects.filter(named).order_by("name", "pk")[:MAX_CANDIDATES])

    def rows(self, entries: QuerySet[CreditEntry], before: tuple[datetime, int] | None = None) -> QuerySet[CreditEntry]:
        """Those of `entries` that are asked for, the newest first, and of what a text found the bookings before the
        searches; none when the form has errors or the text means several tokens. `before`: only what comes after the
        row with this time and key (of what a text found, nothing does: it is less than a page).

        The order is one index's, said so that PostgreSQL has no choice. It takes a token's rows to lie evenly among all
        others, and would look for those of one that stopped searching long ago by reading everything since.
        """
        if not self.is_valid():
            return entries.none()
        data = self.cleaned_data
        first, last = self._days()
        if before is not None:
            last = before[0]
            entries = entries.filter(Q(created_at__lt=last) | Q(pk__lt=before[1]))
        searches, kind = CreditEntry.Kind.SEARCH, data["kind__exact"]
        if kind and kind != searches:
            entries = entries.exclude(kind=searches)  # the condition of the indexes of what operators book
        if kind and kind != BOOKED:
            entries = entries.filter(kind=kind)
        if self.token is not None and self.keys is None and kind in ("", searches):
            of, token = _Pair("token_id", "created_at"), Value(self.token.pk, BigIntegerField())
            entries = entries.filter(GreaterThanOrEqual(of, _pair(token, first)))
            entries = entries.filter(LessThanOrEqual(of, _pair(token, last)))
            return entries.order_by("-token_id", "-created_at", "-pk")
        if self.keys is not None:
            entries = entries.filter(pk__in=self.keys, created_at__gte=first, created_at__lte=last)
            return entries.order_by(Case(When(kind=searches, then=1), default=0), "-created_at", "-pk")
        if self.token is not None:  # what operators book on one token has an index of its own, and is little
            entries = entries.filter(token=self.token)
        return entries.filter(created_at__gte=first, created_at__lte=last).order_by("-created_at", "-pk")

    def file_name(self) -> str:
        """For the export."""
        data = self.cleaned_data
        days = [f"{word}-{data[name]}" for word, name in (("from", "since"), ("to", "until")) if data[name]]
        token = f"token-{self.token.pk}" if self.token else ""
        return "-".join(filter(None, ["ledger", token, data["kind__exact"], *days])) + ".csv"


def _of_token(entries: QuerySet[CreditEntry], token: ApiToken) -> QuerySet[CreditEntry]:
    """A sum is in no index, so that `entries` are found by their own condition's."""
    return entries.alias(of=F("token_id") + 0).filter(of=token.pk)


class _Pair(Func):
    """`(a, b)`, which compares as an index of both columns is sorted."""

    template = "(%(expressions)s)"
    output_field = Field()


def _pair(value: Value, moment: datetime) -> _Pair:
    return _Pair(value, Value(moment, DateTimeField()))


class RefundForm(forms.Form):
    reason = forms.CharField(
        max_length=200, widget=UnfoldAdminTextInputWidget, help_text="Stands in the ledger, with your name."
    )


class NumberForm(forms.Form):
    """A number that somebody names, in whatever way it is written down; cleaned to its digits."""

    number = forms.CharField(
        label="Number",
        max_length=40,
        widget=UnfoldAdminTextInputWidget(attrs={"inputmode": "tel", "autocomplete": "off"}),
        help_text="With its country code.",
    )

    def clean_number(self) -> str:
        digits = re.sub(r"[\s()./-]", "", self.cleaned_data["number"]).removeprefix("+")
        if not re.fullmatch(r"[1-9][0-9]{6,14}", digits, re.ASCII):
            raise forms.ValidationError("A number has 7 to 15 digits and begins with its country code.")
        return digits
