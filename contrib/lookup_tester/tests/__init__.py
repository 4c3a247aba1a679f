from typing import Any

NAME, URL, TITLE = "monitoring_source_test", "test-a-number/", "Test a number"
_PAGE = ("monitoring.source", "test")
#: For tests/console/role_table.py.
ROLE_TABLE = {_PAGE: "- - - yes yes - yes"}
TYPED: dict[tuple[str, str], dict[str, Any]] = {_PAGE: {"number": "+1 212 555 0100"}}
#: For tests/console/test_missing_country_code.py: by name of the URL, what is sent with the number, and its field.
COUNTRY_CODE_PAGES: dict[str, tuple[dict[str, str], str]] = {NAME: ({}, "number")}
#: For tests/console/test_trail.py.
TRAILS = {URL: ["Monitoring", TITLE]}
#: For the browser tests.
CONSOLE_PAGES = {"test-a-number": f"/admin/{URL}"}
#: For the tests of the palette: the name of the page that these words find.
FOUND_BY_WORDS = {TITLE: NAME}
