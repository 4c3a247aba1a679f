"""The forms of the ledger's pages, and which entries a LedgerForm selects, read through one index each.

The ledger may have hundreds of millions of rows, and each statement must end within the statement timeout. So the text
is resolved first, to one token or to a few entries, and every condition is one that an index serves in order of time.
"""

import copy
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from typing import Any

from django import forms
from django.db.models import BigIntegerField, Case, CharField, F, Q, QuerySet, Value, When
from django.utils.functional import cached_property
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from accounts import tokens
from accounts.admin import base
from accounts.models import ApiToken, CreditEntry, Customer
from accounts.newest import NEWEST_FIRST, newest_ids
from core.admin import MAX_SEARCH
from core.index_range import in_range

#: Callers choose request ids and may send the same one with every search: at most so many entries of one request id are
#: listed, the newest, and as many of one reference.
MAX_MATCHES = 100
#: A choice of `kind__exact` beside the kinds: what operators did.
EXCEPT_SEARCHES = "booked"
#: How many entries of a customer are listed at most, the newest.
MAX_OF_CUSTOMER = 1_000


def _date_field(label: str) -> forms.DateField:
    return forms.DateField(
        label=label,
        required=False,
        input_formats=["%Y-%m-%d"],  # what browsers send
        widget=UnfoldAdminTextInputWidget(attrs={"type": "date"}),
        error_messages={"invalid": "Enter a date as YYYY-MM-DD."},
    )


class LedgerForm(forms.Form):
    """The URL parameters that filter the ledger's list and its export."""

    q = forms.CharField(
        label="Request, token or reference",
        required=False,
        max_length=MAX_SEARCH,
        widget=UnfoldAdminTextInputWidget(
            attrs={"placeholder": "Request id, token name, #id, its last 4 characters, or reference", "type": "search"}
        ),
    )
    kind__exact = forms.ChoiceField(
        label="Kind",
        required=False,
        choices=[("", "All"), (EXCEPT_SEARCHES, "All except searches"), *CreditEntry.Kind.choices],
        widget=UnfoldAdminSelectWidget,
        error_messages={"invalid_choice": "Select a kind from the list."},
    )
    since = _date_field("From (UTC)")
    until = _date_field("To (UTC)")
    token__id__exact = forms.ModelChoiceField(ApiToken.objects.all(), required=False, widget=forms.HiddenInput)
    customer = forms.ModelChoiceField(Customer.objects.all(), required=False, widget=forms.HiddenInput)

    def clean_q(self) -> str:
        text: str = self.cleaned_data["q"]
        try:
            tokens.require_no_token(text)
        except tokens.WholeToken as error:
            raise forms.ValidationError(str(error)) from error
        return text

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if data.get("since") and data.get("until") and data["since"] > data["until"]:
            self.add_error("until", "The end date is before the start date.")
        return data


class RefundForm(forms.Form):
    reason = forms.CharField(
        max_length=200, widget=UnfoldAdminTextInputWidget, help_text="Shown in the ledger, with your name."
    )


class CompareNumberForm(forms.Form):
    """A phone number in any common notation; cleaned to its digits."""

    number = forms.CharField(
        label="Number",
        max_length=40,
        widget=UnfoldAdminTextInputWidget(attrs={"inputmode": "tel", "autocomplete": "off"}),
        help_text="With the country code.",
    )

    def clean_number(self) -> str:
        digits = re.sub(r"[\s()./-]", "", self.cleaned_data["number"]).removeprefix("+")
        if not re.fullmatch(r"[1-9][0-9]{6,14}", digits, re.ASCII):
            raise forms.ValidationError("Enter 7 to 15 digits, starting with the country code.")
        return digits


class LedgerSelection:
    """The entries that `form` selects; none if it is invalid."""

    MAX_CANDIDATES = 50

    def __init__(self, form: LedgerForm) -> None:
        self.form = form
        #: Only this token's entries are selected.
        self.token: ApiToken | None = None
        #: Only the entries of this customer's tokens are selected.
        self.customer: Customer | None = None
        #: Only these entries are selected: those that the text matches.
        self.entry_ids: list[int] | None = None
        #: Tokens that the text matches, at most MAX_CANDIDATES, for the operator to choose from.
        self.candidates: list[ApiToken] = []
        #: Whether the text matches more entries than MAX_MATCHES.
        self.truncated = False
        #: Whether the customer has more entries than MAX_OF_CUSTOMER.
        self.customer_truncated = False
        #: Whether names were only searched among the newest tokens (accounts.admin.base).
        self.scan_limited = False
        if form.is_valid():
            self.token = form.cleaned_data["token__id__exact"]
            self.customer = form.cleaned_data["customer"]
            if text := form.cleaned_data["q"]:
                self._resolve(text)

    @property
    def needs_choice(self) -> bool:
        """Whether nothing is listed until the operator chooses one of the candidates."""
        return bool(self.candidates) and not self.entry_ids

    @property
    def exportable(self) -> bool:
        """Whether the selection can be exported. Not while there are candidates, even if entries match too."""
        return self.form.is_valid() and not self.candidates

    def entries(
        self, entries: QuerySet[CreditEntry], before: tuple[datetime, int] | None = None
    ) -> QuerySet[CreditEntry]:
        """The selected ones of `entries`, newest first; of entries that a text matches, searches come last.

        `before`: only entries after the one with this time and id, for paging. Entries that a text matches need no
        paging: there are fewer than a page.

        The order is that of one index, spelled out to leave PostgreSQL no choice. It assumes that a token's entries are
        evenly distributed, and for a token that stopped searching long ago it would otherwise read everything since.
        """
        if not self.form.is_valid():
            return entries.none()
        first, last = self._period()
        if before is not None:
            last = before[0]
            entries = entries.filter(Q(created_at__lt=last) | Q(pk__lt=before[1]))
        entries = self._of_kind(entries)
        searches, kind = CreditEntry.Kind.SEARCH, self.form.cleaned_data["kind__exact"]
        if self.entry_ids is None and self.token is None and self.customer is not None:
            return entries.filter(pk__in=self._newest_of_customer).order_by(*NEWEST_FIRST)
        if self.entry_ids is None and self.token is not None and kind in ("", searches):
            entries = in_range(entries, "token_id", Value(self.token.pk, BigIntegerField()), first, last)
            return entries.order_by("-token_id", "-created_at", "-pk")
        entries = entries.filter(created_at__gte=first, created_at__lte=last)
        if self.entry_ids is not None:
            entries = entries.filter(pk__in=self.entry_ids)
            return entries.order_by(Case(When(kind=searches, then=1), default=0), "-created_at", "-pk")
        if self.token is not None:  # operators' entries of one token have an index of their own, and are few
            entries = entries.filter(token=self.token)
        return entries.order_by("-created_at", "-pk")

    def parts(self) -> Iterator["LedgerSelection"]:
        """Selections that together have all entries of this one, each read from one index. Of a customer: one for each
        token, because `entries` has only the newest entries of a customer. Otherwise this selection alone."""
        if self.customer is None or self.token is not None or self.entry_ids is not None:
            yield self
            return
        for token in self.customer.tokens.order_by("-pk"):
            part = copy.copy(self)
            part.token = token
            yield part

    def _of_kind(self, entries: QuerySet[CreditEntry]) -> QuerySet[CreditEntry]:
        searches, kind = CreditEntry.Kind.SEARCH, self.form.cleaned_data["kind__exact"]
        if kind not in ("", searches):
            entries = entries.exclude(kind=searches)  # the condition of the partial indexes of operators' entries
        if kind not in ("", EXCEPT_SEARCHES):
            entries = entries.filter(kind=kind)
        return entries

    @cached_property
    def _newest_of_customer(self) -> list[int]:
        """The ids of the newest entries of the customer within the form's kind and days, at most MAX_OF_CUSTOMER."""
        first, last = self._period()
        entries = self._of_kind(CreditEntry.objects.filter(created_at__gte=first, created_at__lte=last))
        ids = newest_ids(entries, self._token_ids(), MAX_OF_CUSTOMER + 1)
        self.customer_truncated = len(ids) > MAX_OF_CUSTOMER
        return ids[:MAX_OF_CUSTOMER]

    def _token_ids(self) -> list[int]:
        return list(ApiToken.objects.filter(customer=self.customer).values_list("pk", flat=True))

    def _period(self) -> tuple[datetime, datetime]:
        """The first and the last moment of the selected days."""
        data = self.form.cleaned_data
        return (
            datetime.combine(data["since"] or date.min, time.min, tzinfo=UTC),
            datetime.combine(data["until"] or date.max, time.max, tzinfo=UTC),
        )

    def _resolve(self, text: str) -> None:
        """Find all that the text may mean: entries with this reference or request id, and tokens. Callers choose their
        request ids, so a matching one must not hide the other meanings."""
        matches: list[int] = []
        for name in ("reference", "request_id"):
            ids = list(self._matching(name, text).values_list("pk", flat=True)[: MAX_MATCHES + 1])
            self.truncated |= len(ids) > MAX_MATCHES
            matches += ids[:MAX_MATCHES]
        found = self._tokens(text)
        if not matches and len(found) == 1 and self.token in (None, found[0]):
            self.token = found[0]
        else:
            self.entry_ids = matches
            self.candidates = [] if self.token else found

    def _matching(self, name: str, text: str) -> QuerySet[CreditEntry]:
        """Entries whose column `name` is `text`, newest first, within the form's days and token: filtered later, those
        of other days and tokens would use up MAX_MATCHES."""
        entries = in_range(CreditEntry.objects.all(), name, Value(text, CharField()), *self._period())
        if name == "reference":
            entries = entries.exclude(reference="")  # the condition of the index of references
        # No index has a sum, so PostgreSQL has to use the one of column `name`.
        entries = entries.alias(id_of_token=F("token_id") + 0)
        if self.token is not None:
            entries = entries.filter(id_of_token=self.token.pk)
        elif self.customer is not None:
            entries = entries.filter(id_of_token__in=self._token_ids())
        return entries.order_by(f"-{name}", "-created_at")

    def _tokens(self, text: str) -> list[ApiToken]:
        tokens_found, self.scan_limited = base.matching_tokens(text)
        if self.customer is not None:
            tokens_found = tokens_found.filter(customer=self.customer)
        return list(tokens_found.order_by("name", "pk")[: self.MAX_CANDIDATES])
