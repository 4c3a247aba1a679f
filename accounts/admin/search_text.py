"""Which tokens and customers the text of a search means."""

import re

from django.db.models import Max, Model, Q, QuerySet

from accounts import tokens
from accounts.models import JWT_PREFIX, ApiToken, Customer, CustomerContact
from core.text_lookups import has_words

#: How many rows a filter, a sort or a text search may scan: no index helps them, and a page must not time out.
MAX_SCANNED = 100_000
_BEGIN_ALIKE = "Tokens begin alike: enter the last four characters, or all up to the second dot."


def scan_floor_id(model: type[Model]) -> int:
    """The newest MAX_SCANNED rows have greater ids than this; 0 when there are no others."""
    newest = model._default_manager.aggregate(newest=Max("pk"))["newest"] or 0
    return max(0, newest - MAX_SCANNED)


def id_in(text: str) -> int | None:
    """The token id that `text` may mean: `12` or `#12`."""
    match = re.fullmatch(r"#?([0-9]{1,18})", text.strip())
    return int(match[1]) if match else None


def is_only_id(text: str) -> bool:
    """Whether `text` is an id such as `#12`, and no part of a name."""
    return text.startswith("#") and id_in(text) is not None


def identified_tokens(text: str) -> Q:
    """The tokens with this id, or whose JWT `text` identifies (tokens.find)."""
    return Q(pk=id_in(text)) | Q(pk__in=[token.pk for token in tokens.find(text)])


def matching_tokens(text: str) -> tuple[QuerySet[ApiToken], bool]:
    """The tokens that `text` identifies or that have it in their name; and whether names were only searched among the
    newest tokens."""
    condition, floor_id = identified_tokens(text), 0
    if not is_only_id(text):
        floor_id = scan_floor_id(ApiToken)
        condition |= has_words("name", text) & Q(pk__gt=floor_id)
    return ApiToken.objects.filter(condition), floor_id > 0


def matching_customers(text: str) -> Q:
    """The customers with this id, and among the newest those with this text in their name or a contact."""
    condition = Q(pk=id_in(text))
    if is_only_id(text):
        return condition
    floor_id = scan_floor_id(Customer)
    named = has_words("name", text) | Q(email__icontains=text)
    contacts = CustomerContact.objects.filter(named, customer_id__gt=floor_id)
    return condition | (has_words("name", text) & Q(pk__gt=floor_id)) | Q(pk__in=contacts.values("customer"))


def token_text_problem(text: str) -> str:
    """Why no token can be found by `text`, which begins like a JWT or contains one; empty for other texts."""
    try:
        found = tokens.find(text)
    except tokens.WholeToken as error:
        return str(error)
    return _BEGIN_ALIKE if text.startswith(JWT_PREFIX) and not found else ""
