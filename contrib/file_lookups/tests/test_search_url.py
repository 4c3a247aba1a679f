"""An instance that answers no searches needs one that does."""

from contextlib import nullcontext
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from callerid_project.hooks import ON_START

REQUIRE = "contrib.file_lookups.conf.require_search_url"


@pytest.mark.parametrize(
    ("serve", "url", "starts"),
    [("console", "", False), ("console", "http://127.0.0.1:8001", True), ("search", "", True), ("all", "", True)],
)
def test_console_instance_needs_a_search_instance(settings: Any, serve: str, url: str, starts: bool) -> None:
    settings.SERVE, settings.SEARCH_URL = serve, url
    assert REQUIRE in ON_START
    refused = pytest.raises(ImproperlyConfigured, match=r"^SERVE=console needs SEARCH_URL, a search instance: ")
    with nullcontext() if starts else refused:
        import_string(REQUIRE)()
