"""The pages: `/` says what this is, and on the embedded profile has a form to try it with; `/docs` is Swagger UI."""

from typing import Any

from csp.decorators import csp_replace
from django.conf import settings
from django.urls import reverse
from django.utils.decorators import method_decorator
from drf_spectacular.views import SpectacularSwaggerSplitView
from rest_framework.renderers import TemplateHTMLRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from callerid_project import security_policy
from lookup.datasets.samples import DEMO_NUMBER

#: Numbers of the sample data, reserved for fiction, as people write them, and what to expect.
EXAMPLES = (
    (f"+{DEMO_NUMBER[:2]} {DEMO_NUMBER[2:4]} {DEMO_NUMBER[4:]}", "spam"),
    ("+1 (212) 555-0100", "a known business"),
    ("+44 161 496 0142", "a person, no verdict"),
)


@method_decorator(csp_replace(security_policy.HOME), name="get")
class Home(APIView):
    http_method_names = ["get", "head"]
    renderer_classes = [TemplateHTMLRenderer]
    schema = None

    def get(self, request: Request) -> Response:
        data: dict[str, Any] = {
            "can_try": settings.EMBEDDED,
            "examples": EXAMPLES,
            "demo_number": DEMO_NUMBER,
            "search_url": request.build_absolute_uri(reverse("search")),
        }
        return Response(data, template_name="callerid/home.html")


@method_decorator(csp_replace(security_policy.DOCS), name="get")
class Docs(SpectacularSwaggerSplitView):
    http_method_names = ["get", "head"]
    template_name = "callerid/docs.html"
