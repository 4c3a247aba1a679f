from django.urls import path

from tests.addons.plain.services import page

urlpatterns = [path("plain", page, name="plain")]
