"""The WSGI application: all of Django but what runs on the event loop (callerid_project.asgi)."""

import os
import re

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "callerid_project.settings")

from django.core.wsgi import get_wsgi_application

_UTF_8 = re.compile(r"""\s*charset\s*=\s*"?utf-?8"?\s*""", re.IGNORECASE)

application = get_wsgi_application()


def safe_content_type(value: str) -> str:
    """`value` without parameters that harm Django: decoding RFC 2231's `name*=` can raise, and looking up a charset
    makes Python's codecs remember each unknown name forever."""
    if len(value) > 256:
        return "application/octet-stream"
    media_type, _, parameters = value.partition(";")
    if "*" in parameters or ("charset" in parameters.lower() and not _UTF_8.fullmatch(parameters)):
        return f"{media_type}; charset=unsupported"
    return value
