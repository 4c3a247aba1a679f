#: For tests/browser/test_pages.py: by name, its path.
CONSOLE_PAGES = {"search": "/admin/search/"}
#: For tests/console/test_missing_country_code.py: by name of the URL, what is sent with the number, and its field.
COUNTRY_CODE_PAGES: dict[str, tuple[dict[str, str], str]] = {"search": ({}, "q")}
#: For tests/console/test_trail.py: by path, the breadcrumbs.
TRAILS = {"search/": ["Search"]}
