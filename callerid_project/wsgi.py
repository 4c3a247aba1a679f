"""The WSGI application: Django, with two things settled before the first request."""

import io
import os
from collections.abc import Iterable
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "callerid_project.settings")
# While serving, no statement may outlast a ringing phone's patience.
os.environ.setdefault("DB_STATEMENT_TIMEOUT_MS", "1500")

from django.conf import settings
from django.core.wsgi import get_wsgi_application

django_application = get_wsgi_application()

from callerid_project import urls  # noqa: E402, F401  (or the first caller would wait for the import)
from lookup.search import bind_slots  # noqa: E402

bind_slots()


def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Give a chunked search its Content-Length, for Django takes a body without one to be empty.

    Reads one byte more than a search may have, so that the parser sees that it is too large. A server that has taken
    the chunks apart says so by `wsgi.input_terminated`.
    """
    if (
        environ.get("wsgi.input_terminated")
        and environ.get("HTTP_TRANSFER_ENCODING", "").lower() == "chunked"
        and environ.get("PATH_INFO", "").startswith("/callerid/")
    ):
        body = environ["wsgi.input"].read(settings.MAX_BODY_BYTES + 1)
        environ |= {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
    return django_application(environ, start_response)
