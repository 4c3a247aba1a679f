"""Adds a row for each answered request. Every command connects this, so it imports what it uses when it runs."""

from typing import TYPE_CHECKING, Any

from django.dispatch import receiver

from core.metrics import log_exceptions
from lookup import signals

if TYPE_CHECKING:
    from lookup.recording import SearchRecord


@receiver(signals.answered)
@log_exceptions
def add_row(record: "SearchRecord", number_mask: str, **kwargs: Any) -> None:
    from contrib.request_log import log

    log.add(record, number_mask)
