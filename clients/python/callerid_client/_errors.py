"""What a search raises. No message or attribute has the token or the number."""


class CallerIdError(Exception):
    """Base class of the errors below.

    `detail`: one sentence, the service's own where it answered. `status`: of the response, None without one.
    `request_id`: by which the operator finds the request, or None. `retry_after`: seconds after which to try again, of
    RateLimited and Overloaded only; 1 where the response does not say.
    """

    def __init__(
        self, detail: str, status: int | None = None, request_id: str | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(detail, status, request_id, retry_after)
        self.detail = detail
        self.status = status
        self.request_id = request_id
        self.retry_after = retry_after

    def __str__(self) -> str:
        status = f"{self.status} " if self.status else ""
        return f"{status}{self.detail}" + (f" (request {self.request_id})" if self.request_id else "")


class InvalidRequest(CallerIdError):
    """400 or another 4xx: the number, the idempotency key or the base URL is wrong. Not retried."""


class InvalidToken(CallerIdError):
    """The service's 401: the token is wrong, expired or revoked. Not retried."""


class NoCredits(CallerIdError):
    """The service's 403: the token has no credits left. Not retried."""


class RateLimited(CallerIdError):
    """429: too many requests with this token within a minute. Retried after `retry_after` if the time allows."""


class Overloaded(CallerIdError):
    """503: too many searches at once. Retried after `retry_after` if the time allows."""


class ServiceFailed(CallerIdError):
    """500 or another 5xx: both sources failed, or the service or its proxy did. Retried."""


class Unreachable(CallerIdError):
    """No response: the connection failed, or the time limit was reached. Retried."""


class InvalidAnswer(CallerIdError):
    """A 200 whose body is not a search response, which is retried; a 401 or 403 of a proxy or firewall, not the
    service; or any other status, such as a redirect."""
