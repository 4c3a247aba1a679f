from django.conf import settings
from django.contrib import admin
from django.urls import include, path, re_path

from callerid_project import hooks, search_urls
from callerid_project.search_urls import handler400, handler403, handler404, handler500
from lookup.pages import Docs, Home, Schema

__all__ = ["handler400", "handler403", "handler404", "handler500", "urlpatterns"]

urlpatterns = [
    *search_urls.urlpatterns,
    path("", Home.as_view(), name="home"),
    re_path(r"^schema/?$", Schema.as_view(), name="schema"),
    re_path(r"^docs/?$", Docs.as_view(), name="docs"),
    *(path("", include(module)) for module in hooks.URLS),
    path(f"{settings.ADMIN_PATH}/", admin.site.urls),
]
