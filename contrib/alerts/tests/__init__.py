from collections.abc import Callable
from importlib import import_module
from typing import Any


def _rows(name: str) -> Callable[..., Any]:
    """A function of `rows`, which needs Django's models when it is called."""
    return lambda *arguments, **named: getattr(import_module(f"{__name__}.rows"), name)(*arguments, **named)


_INCIDENT, _NOTICE, _RECIPIENT = "alerts.incident", "alerts.notice", "alerts.alertrecipient"
_CUSTOMER = "accounts.customer"
#: For tests/console/console_rows.py: what makes a row of the model.
ROWS = {_NOTICE: _rows("notice"), _INCIDENT: _rows("incident"), _RECIPIENT: _rows("recipient")}
#: For tests/console/role_table.py.
_OPERATOR = "- - - - yes - yes"
ROLE_TABLE = {
    (_CUSTOMER, "webhook"): _OPERATOR,
    (_CUSTOMER, "remove_webhook"): _OPERATOR,
    (_NOTICE, "list"): "- - - yes yes yes yes",
    (_NOTICE, "send_selected_again"): _OPERATOR,
    (_INCIDENT, "list"): "- yes - yes yes yes yes",
    (_INCIDENT, "send_test"): _OPERATOR,
    (_INCIDENT, "acknowledge"): _OPERATOR,
    (_INCIDENT, "acknowledge_selected"): _OPERATOR,
    (_INCIDENT, "mute"): _OPERATOR,
    (_INCIDENT, "end_mute"): _OPERATOR,
    (_INCIDENT, "withdraw_acknowledgement"): _OPERATOR,
    (_RECIPIENT, "list"): "- - - - - yes yes",
    (_RECIPIENT, "add"): "- - - - - - yes",
    (_RECIPIENT, "change"): "- - - - - - yes",
    (_RECIPIENT, "delete"): "- - - - - - yes",
}
TYPED: dict[tuple[str, str], dict[str, Any]] = {
    (_CUSTOMER, "webhook"): {"url": "https://hooks.example.org/x"},
    (_CUSTOMER, "remove_webhook"): {"confirmed": "on"},
    (_INCIDENT, "mute"): {"hours": "8"},
    (_RECIPIENT, "add"): {"email": "new@example.org"},
    (_RECIPIENT, "change"): {"severities": "critical"},
}
PREPARED = {
    (_CUSTOMER, "remove_webhook"): _rows("webhook"),
    (_INCIDENT, "end_mute"): _rows("mute"),
    (_INCIDENT, "withdraw_acknowledgement"): _rows("acknowledged"),
}
ON_LIST = {
    (_INCIDENT, "acknowledge_selected"): "selected",
    (_INCIDENT, "end_mute"): "form",
    (_INCIDENT, "send_test"): "unchanged",  # alerts are off, so none is written
    (_NOTICE, "send_selected_again"): "selected",
}
#: For tests/console/test_saving.py, test_two_tabs.py and test_users.py.
EDITED = {_RECIPIENT: ("note", "day", "night")}
ADDED = {_RECIPIENT: {"email": "new@example.org", "severities": "all", "is_active": "on"}}
CHANGES = {
    _RECIPIENT: (
        {"email": "hush@example.org", "severities": "critical"},
        'Changed E-mail address and Receives from "all alerts" to "critical alerts only".',
    )
}
#: For tests of `prune`: what it counts.
PRUNED = {"notices": 0, "alerts": 0, "alert_mutes": 0}
#: For tests/month.py and the browser tests.
MONTH, BROWSER_ROWS = {"alerts": _rows("month")}, {"alerts": _rows("browser")}
LONG_TEXTS = {"alerts": _rows("long_texts")}
LONG_TEXT_PAGES = {
    "alerts": "/admin/alerts/incident/",
    "alert": "/admin/alerts/incident/{incident}/change/",
    "alert recipients": "/admin/alerts/alertrecipient/",
}
BROWSER_ENVIRONMENT = {"ALERT_EMAILS": "operations@example.org"}
CONSOLE_PAGES = {
    "customer-webhook": "/admin/accounts/customer/{customer}/webhook/",
    "customer-remove-webhook": "/admin/accounts/customer/{customer}/remove-webhook/",
    "notices": "/admin/alerts/notice/",
    "notice": "/admin/alerts/notice/{notice}/change/",
    "alerts": "/admin/alerts/incident/",
    "alert": "/admin/alerts/incident/{incident}/change/",
    "alert-acknowledge": "/admin/alerts/incident/{incident}/acknowledge/",
    "alert-mute": "/admin/alerts/incident/{incident}/mute/",
    "alert-end-mute": "/admin/alerts/incident/end-mute/",
    "alert-recipients": "/admin/alerts/alertrecipient/",
    "alert-recipient-add": "/admin/alerts/alertrecipient/add/",
    "send-test-alert": "/admin/alerts/incident/send-test/",
}
LISTS = {"notices": "/admin/alerts/notice/"}
#: For contrib/palette/tests: by what people call it, the name of the page's URL.
FOUND_BY_WORDS = {"test alert": "alerts_incident_send_test"}
#: For tests/browser/test_docs_images.py.
DOCS_IMAGES = {"console-alerts": ("console-alerts", "alerts/incident/", "Source slow", 620)}
