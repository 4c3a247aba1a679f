"""`/schema`: the OpenAPI document of the API."""

from functools import cache

from django.http import HttpResponse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer
from rest_framework.request import Request
from rest_framework.views import APIView


@cache
def document() -> bytes:
    """The OpenAPI document as JSON. It depends on code and settings alone, so each process generates it once."""
    return OpenApiJsonRenderer().render(SchemaGenerator().get_schema(public=True), renderer_context={})


class Schema(APIView):
    http_method_names = ["get", "head", "options"]
    renderer_classes = [OpenApiJsonRenderer]
    schema = None

    def get(self, request: Request) -> HttpResponse:
        headers = {"Content-Disposition": 'inline; filename="Caller ID.json"'}
        return HttpResponse(document(), content_type=OpenApiJsonRenderer.media_type, headers=headers)
