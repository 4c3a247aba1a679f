from django.urls import re_path

from contrib.customer_page.views import CustomerFigures, CustomerLedger, CustomerPage

urlpatterns = [
    re_path(r"^customer/(?P<link>[A-Za-z0-9_:-]+)/?$", CustomerPage.as_view(), name="customer"),
    re_path(r"^customer/(?P<link>[A-Za-z0-9_:-]+)\.json/?$", CustomerFigures.as_view(), name="customer-json"),
    re_path(r"^customer/(?P<link>[A-Za-z0-9_:-]+)\.csv/?$", CustomerLedger.as_view(), name="customer-csv"),
]
