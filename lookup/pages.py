"""`/`: what this is, and on the embedded profile a form to try it. `/docs`: Swagger UI. `/schema`: OpenAPI."""

from functools import cache
from typing import Any

from csp.constants import SELF
from csp.decorators import csp_replace
from django.conf import settings
from django.http import HttpResponse
from django.urls import reverse
from django.utils.decorators import method_decorator
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer
from drf_spectacular.views import SpectacularSwaggerSplitView
from rest_framework.renderers import TemplateHTMLRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from phonebook.imports.sample_data import DEMO_NUMBER

#: Content-Security-Policy: what these pages need beyond settings.CONTENT_SECURITY_POLICY.
HOME_POLICY = {"script-src": [SELF], "style-src": [SELF], "img-src": [SELF], "connect-src": [SELF]}
# Swagger UI's style sheet contains its icons.
DOCS_POLICY = {**HOME_POLICY, "img-src": [SELF, "data:"]}
#: Numbers of the sample data, reserved for fiction, as people write them, and the expected answer.
EXAMPLES = (
    (f"+{DEMO_NUMBER[:2]} {DEMO_NUMBER[2:4]} {DEMO_NUMBER[4:]}", "spam"),
    ("+1 (212) 555-0100", "a known business"),
    ("+44 161 496 0142", "a person"),
)


@method_decorator(csp_replace(HOME_POLICY), name="get")
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


@method_decorator(csp_replace(DOCS_POLICY), name="get")
class Docs(SpectacularSwaggerSplitView):
    http_method_names = ["get", "head"]
    template_name = "callerid/docs.html"


@cache
def openapi_document() -> bytes:
    """The OpenAPI document as JSON. It depends only on code and settings, so each process generates it once."""
    return OpenApiJsonRenderer().render(SchemaGenerator().get_schema(public=True), renderer_context={})


class Schema(APIView):
    http_method_names = ["get", "head", "options"]
    renderer_classes = [OpenApiJsonRenderer]
    schema = None

    def get(self, request: Request) -> HttpResponse:
        headers = {"Content-Disposition": 'inline; filename="Caller ID.json"'}
        return HttpResponse(openapi_document(), content_type=OpenApiJsonRenderer.media_type, headers=headers)
