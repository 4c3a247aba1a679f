"""DRF's APIView on the event loop."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse
from rest_framework.request import Request
from rest_framework.views import APIView

from core import loop


def on_loop(view: Callable[..., Any]) -> Callable[..., HttpResponse]:
    """`view`, which is `async`, for Django's own handlers, such as that of its test client. callerid_project.asgi calls
    `view.on_loop` itself."""

    @wraps(view)
    def run(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return loop.run(view(request, *args, **kwargs))

    for mark in ("_is_coroutine", "_is_coroutine_marker"):  # asgiref's and Python's: Django would await `run`
        vars(run).pop(mark, None)
    vars(run).update(on_loop=view, csrf_exempt=True)
    return run


class AsyncAPIView(APIView):
    """An APIView whose handlers, authentication and throttles are `async`. The steps and their order are DRF's.

    Not adrf, which supports synchronous views, mixins and serializers too: this is what one view needs.
    """

    async def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        self.args, self.kwargs, self.format_kwarg = args, kwargs, None
        self.request = drf_request = self.initialize_request(request, *args, **kwargs)
        self.headers = self.default_response_headers
        try:
            await self.initial(drf_request, *args, **kwargs)
            method = str(drf_request.method).lower()
            allowed = method in self.http_method_names and hasattr(self, method)
            handler = getattr(self, method) if allowed else self.http_method_not_allowed
            response: Any = handler(drf_request, *args, **kwargs)
            response = await response if allowed else response
        except Exception as error:
            response = self.handle_exception(error)
        self.response = self.finalize_response(drf_request, response, *args, **kwargs)
        return self.response

    async def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Authenticate the request, then check its throttles."""
        negotiated = self.perform_content_negotiation(request)
        request.accepted_renderer, request.accepted_media_type = negotiated
        await self.perform_authentication(request)
        await self.check_throttles(request)

    async def perform_authentication(self, request: Request) -> None:  # type: ignore[override]
        """Set `request.user` and `request.auth` by the first authenticator that returns them."""
        for authenticator in request.authenticators or ():
            if (authenticated := await authenticator.authenticate(request)) is not None:  # type: ignore[misc]
                request.user, request.auth = authenticated
                return

    async def check_throttles(self, request: Request) -> None:  # type: ignore[override]
        """Raises Throttled."""
        for throttle in self.get_throttles():
            if not await throttle.allow_request(request, self):  # type: ignore[misc]
                self.throttled(request, throttle.wait())  # type: ignore[arg-type]
