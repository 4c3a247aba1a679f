"""The ASGI application. Searches, health checks and metrics run on the event loop; everything else are pages, in a few
threads (callerid_project.page_handler). SERVE chooses which of the two this process answers."""

import asyncio
import gc
import io
import logging
import os
import re
import time
from functools import cache
from typing import Any, NamedTuple, cast

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "callerid_project.settings")
os.environ["CALLERID_SERVING"] = "true"

import django

django.setup()

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import resolve
from django.utils.module_loading import import_string

from accounts import unknown_charges
from callerid_project import errors, hooks, middleware
from callerid_project.page_handler import PageHandler
from core import admission, background, db, loop, metrics
from core.request_body import BodyTooLarge, IncompleteBody, read_body
from lookup.search import SLOTS, bound_sources
from monitoring.health import probes, redis_check
from monitoring.http_metrics import observe_request

log = logging.getLogger(__name__)

for start in hooks.ON_START:
    import_string(start)()
for slot in SLOTS:
    bound_sources(slot)  # raises ImproperlyConfigured now, not at the first search

#: Answered on the event loop, each with and without a slash at the end.
LOOP_PATHS = ("/callerid/search", "/livez", "/readyz", "/metrics")
LOOP_VIEWS = {path: resolve(path) for name in LOOP_PATHS for path in (name, f"{name}/")}
SEARCHES = frozenset({"search", "search-slash"})
SEARCH_URLS = frozenset(path.encode() for path, match in LOOP_VIEWS.items() if match.view_name in SEARCHES)
#: What handles pages; None if this process has none.
pages = PageHandler() if settings.SERVE != "search" else None
if pages is not None:
    probes.process_checks.append(pages.problem)

#: By default the garbage collector runs after some hundred new objects, and regularly looks at all there are. With
#: thousands of connections that takes a fifth of a second each time. Searches leave it nothing to find; pages do.
GC_THRESHOLDS = (20_000, 10, 10)

#: All pages of the console are below it.
CONSOLE_PATH = f"/{settings.ADMIN_PATH}/"
_UTF_8 = re.compile(r"""\s*charset\s*=\s*"?utf-?8"?\s*""", re.IGNORECASE)
#: How often a line says that searches are refused on arrival: none of them has a line of its own.
REFUSAL_LOG_INTERVAL_S = 10.0
_refusal_logged_at = -REFUSAL_LOG_INTERVAL_S


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await _lifespan(scope.get("state", {}), receive, send)
        return
    received_at = time.perf_counter()
    match = LOOP_VIEWS.get(scope["path"])
    is_search = match is not None and match.view_name in SEARCHES
    limit = _body_limit(scope["path"])
    body = await _read(receive, limit)
    scope = {**scope, "headers": _headers(scope["headers"], body)}
    request = ASGIRequest(scope, io.BytesIO(body.data))
    request.META["callerid.received_at"] = received_at
    request.resolver_match = match
    refusal = _refusal(request, limit, is_search=is_search)
    if match is None and refusal is None:
        if await cast(PageHandler, pages).respond(request, scope, receive, send):
            return
        refusal = errors.overloaded()  # STOP_TIMEOUT_S is over
    with middleware.observe(request) as finish:
        response = refusal or await _respond(request, match, is_search=is_search)
        finish(response)
    if not body.complete:  # what remains of it is not read
        response.headers["Connection"] = "close"
    headers = _response_headers(response, is_secure=request.is_secure())
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": response.content})


async def _respond(request: HttpRequest, match: Any, *, is_search: bool) -> HttpResponse:
    """The view's response, or that of the error table to a request that reaches no view."""
    try:
        request.get_host()
        if is_search:
            await admission.searches.begin()
    except DisallowedHost as error:
        return errors.bad_request(request, error)
    except admission.Overloaded:
        admission.REFUSED.inc()
        return errors.overloaded()
    try:
        return await match.func.on_loop(request, *match.args, **match.kwargs)
    except Http404 as error:
        return errors.not_found(request, error)
    except asyncio.CancelledError:  # STOP_TIMEOUT_S is over
        return errors.server_error(request)
    except Exception:
        log.exception("unhandled error")
        return errors.server_error(request)
    finally:
        if is_search:
            admission.searches.end()


def overload_response(method: bytes, url: bytes, headers: list[tuple[bytes, bytes]]) -> bytes | None:
    """The response to a search that is refused on arrival; None for other requests. The server sends it without calling
    the application, so that refusing many leaves time to answer others."""
    global _refusal_logged_at  # noqa: PLW0603
    if method != b"POST" or url not in SEARCH_URLS or admission.searches.admits():
        return None
    admission.REFUSED.inc()
    observe_request("search", 503, 0.0, in_test_mode=False)
    now = time.monotonic()
    if now - _refusal_logged_at > REFUSAL_LOG_INTERVAL_S:
        _refusal_logged_at = now
        log.warning("overloaded: searches are refused with 503 on arrival")
    sent_id = next((value for name, value in headers if name == b"x-request-id"), b"").decode("latin-1")
    before_id, after_id = _overload_response_parts()
    return before_id + middleware.request_id_for(sent_id).encode() + after_id


@cache
def _overload_response_parts() -> tuple[bytes, bytes]:
    """The response, up to the request id and after it."""
    response = errors.overloaded()
    lines = b"".join(b"%b: %b\r\n" % header for header in _response_headers(response, is_secure=False))
    return b"HTTP/1.1 503 Service Unavailable\r\n" + lines + b"x-request-id: ", b"\r\n\r\n" + response.content


def _refusal(request: ASGIRequest, limit: int, *, is_search: bool) -> HttpResponse | None:
    """The response to a request that no view gets: because of SERVE, or because no page may act upon it. None acts on a
    part of a form. The CSRF check parses bodies before the login, and Django limits neither files nor what is between
    the parts of a multipart body."""
    is_page = request.resolver_match is None
    if (is_page and pages is None) or (is_search and settings.SERVE == "console"):
        return errors.not_served()
    if not is_page:
        return None
    if cast(PageHandler, pages).is_full:
        return errors.overloaded()
    # No form of ours has files. Django decodes RFC 2231's parameters of each part, and Python's codecs remember each
    # unknown name forever.
    if request.content_type == "multipart/form-data":
        return errors.unsupported_media_type(request)
    try:
        read_body(request, limit)
    except BodyTooLarge:
        return errors.body_too_large(request)
    except IncompleteBody as error:
        return errors.incomplete_body(request, error)
    return None


# --- Request and response ------------------------------------------------------------------------------------------


class _Body(NamedTuple):
    """The bytes of a request's body that arrived, and whether those are all."""

    data: bytes
    complete: bool


def _body_limit(path: str) -> int:
    """The longest body of a request, in bytes. A longer one is for the console, which then requires a login
    (BodyLimitMiddleware)."""
    in_console = path.startswith(CONSOLE_PATH)
    return int(settings.DATA_UPLOAD_MAX_MEMORY_SIZE if in_console else settings.MAX_BODY_BYTES)


async def _read(receive: Any, limit: int) -> _Body:
    """The body: incomplete if it is longer than `limit`, if the client disconnects, after BODY_TIMEOUT_S, or when
    STOP_TIMEOUT_S is over."""
    data = bytearray()
    task = cast(asyncio.Task[None], asyncio.current_task())
    timer = asyncio.get_running_loop().call_later(settings.BODY_TIMEOUT_S, task.cancel)
    try:
        while len(data) <= limit and (message := await receive())["type"] == "http.request":
            data += message["body"]
            if not message.get("more_body"):
                return _Body(bytes(data), True)
    except asyncio.CancelledError:
        task.uncancel()
    finally:
        timer.cancel()
    return _Body(bytes(data), False)


def _headers(headers: list[tuple[bytes, bytes]], body: _Body) -> list[tuple[bytes, bytes]]:
    """The headers that Django may see. A chunked body gets a Content-Length, without which Django takes it for empty;
    that of an incomplete body, or of one in another transfer coding, is greater than what arrived. Names with an
    underscore could pass for others."""
    result, content_types, codings = [], [], []
    for name, value in headers:
        if name == b"content-type":
            content_types.append(value)
        elif name == b"transfer-encoding":
            codings.append(value.strip().lower())
        elif b"_" not in name:
            result.append((name, value))
    if content_types:  # Django parses all of them as one
        result.append(
            (b"content-type", safe_content_type(b",".join(content_types).decode("latin-1")).encode("latin-1"))
        )
    if codings:
        is_complete = body.complete and codings == [b"chunked"]
        result.append((b"content-length", b"%d" % (len(body.data) + (not is_complete))))
    return result


def safe_content_type(value: str) -> str:
    """`value` without parameters that harm Django: decoding RFC 2231's `name*=` can raise, and looking up a charset
    makes Python's codecs remember each unknown name forever."""
    if len(value) > 256:
        return "application/octet-stream"
    media_type, _, parameters = value.partition(";")
    if "*" in parameters or ("charset" in parameters.lower() and not _UTF_8.fullmatch(parameters)):
        return f"{media_type}; charset=unsupported"
    return value


def _response_headers(response: HttpResponse, *, is_secure: bool) -> tuple[tuple[bytes, bytes], ...]:
    """All of a response of the event loop, as ASGI sends them."""
    length = (b"content-length", b"%d" % len(response.content))
    return (*middleware.encoded(response), *middleware.loop_headers(is_secure), length)


# --- Start and stop ------------------------------------------------------------------------------------------------


async def _lifespan(state: dict[str, Any], receive: Any, send: Any) -> None:
    await receive()
    loop.adopt(asyncio.get_running_loop())
    pool = None
    if not settings.EMBEDDED:
        from core.postgresql.pool import Pool

        db.pool = pool = Pool(settings.DB_POOL_SIZE, settings.DB_MAX_WAIT_S)
        await pool.open()
    if problem := await probes.reason_to_refuse_start():
        if pool is not None:
            pool.close()
        await send({"type": "lifespan.startup.failed", "message": problem})
        return
    metrics.start()
    unknown_charges.settler.start_thread()  # settles what ended processes have left
    log.info(
        "started: pid=%d profile=%s redis=%s source_a=%s source_b=%s",
        os.getpid(),
        "embedded" if settings.EMBEDDED else "production",
        "yes" if settings.REDIS_URL else "no",
        settings.SOURCE_A,
        settings.SOURCE_B,
    )
    checked = await loop.run_in_thread(redis_check.CHECK.result)
    if checked and not checked.healthy:
        log.warning("Redis: %s", checked.detail)
    gc.collect()
    gc.freeze()  # imported objects stay: collecting them again takes many times as long as a search
    gc.set_threshold(*GC_THRESHOLDS)
    state["overload_response"] = overload_response
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await loop.run_in_thread(background.close_all)
    for stop in hooks.ON_STOP:
        await loop.run_in_thread(import_string(stop))
    if pool is not None:
        pool.close()
    await send({"type": "lifespan.shutdown.complete"})
