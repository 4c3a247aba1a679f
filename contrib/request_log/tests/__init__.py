from typing import Any

from django.db.models import Model

MODEL = "request_log.requestlogentry"
URL = "/admin/request_log/requestlogentry/"


def _log(**fields: Any) -> Model:
    from contrib.request_log.models import RequestLogEntry  # Django is set up when it is called

    return RequestLogEntry.objects.create(**fields)


def _logged(**owner: Any) -> Model:
    """The request of the token's search, for its number."""
    search = owner["token"].entries.get(kind="search")
    return _log(
        created_at=search.created_at,
        token=search.token,
        request_id=search.request_id,
        status=200,
        outcome="found_both",
        charged=True,
        replayed=False,
        entry=search,
        number_hash=search.number_hash,
        duration_us=2_000,
    )


def _request(search: Any) -> Any:
    from contrib.request_log.models import RequestLogEntry

    return RequestLogEntry.objects.get(entry=search).pk


def _degraded(search: Any) -> Any:
    from contrib.request_log.models import RequestLogEntry

    return RequestLogEntry.objects.filter(outcome="found_degraded").latest("created_at").pk


#: For tests/console/console_rows.py: what makes a row of the model.
ROWS = {MODEL: _logged}
#: For tests/console/role_table.py.
ROLE_TABLE = {(MODEL, "list"): "- - - yes yes yes yes"}
#: For tests/console/test_missing_country_code.py: by name of the URL, what is sent with the number, and its field.
COUNTRY_CODE_PAGES: dict[str, tuple[dict[str, str], str]] = {"request_log_requestlogentry_changelist": ({}, "number")}
#: For tests/month.py: what logs a request, and finds rows for the pages of the browser tests.
LOGS = {MODEL: _log}
LOGGED = {"request": _request, "degraded_request": _degraded}
#: For tests/browser/test_pages.py: by name, its path; lists.
CONSOLE_PAGES = {
    "requests": URL,
    "requests-failed": f"{URL}?failed=source_b&reason=late",
    "request": f"{URL}{{degraded_request}}/change/",
}
LISTS = {"requests": URL}
#: For tests of `forget` and `prune`: what they count.
ERASED, PRUNED = {"requests": 0}, {"requests": 0}
#: For the tests of the palette: by title, the model of what is found by request id, and by number.
FOUND_BY_REQUEST = {"Request log": MODEL}
#: For tests/test_costs.py: without rows of this add-on.
NO_ROWS = {"REQUEST_LOG_DAYS": "0"}
