from django.urls import path

from bench.peers.naive_drf.views import SearchView, livez

urlpatterns = [path("livez", livez), path("callerid/search", SearchView.as_view())]
