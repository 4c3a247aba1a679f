"""What the event loop answers. An instance with SERVE=search has no other URLs, and loads no pages."""

from django.urls import path, re_path

from callerid_project import errors
from core.views import on_loop
from lookup.views import SearchView
from monitoring import http_metrics
from monitoring.health import probes

# A trailing slash is accepted and never redirected: a redirected POST loses its body.
urlpatterns = [
    path("callerid/search", on_loop(SearchView.as_view()), name="search"),
    path("callerid/search/", on_loop(SearchView.as_view(schema=None)), name="search-slash"),
    re_path(r"^livez/?$", on_loop(probes.Livez.as_view()), name="livez"),
    re_path(r"^readyz/?$", on_loop(probes.Readyz.as_view()), name="readyz"),
    re_path(r"^metrics/?$", on_loop(http_metrics.view), name="metrics"),
]
handler400 = errors.bad_request
handler403 = errors.permission_denied
handler404 = errors.not_found
handler500 = errors.server_error
