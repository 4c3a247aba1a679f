"""Which URLs an operator may name."""

import pytest

from core import addresses


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.org/a?b=c",
        "https://user:password@hooks.example.org:8443/",
        "http://127.0.0.1:8080/",
        "http://[::1]:8080/",
        "http://10.1.2.3/hook",
        "http://localhost/",
    ],
)
def test_url_of_a_receiver_is_accepted(url: str) -> None:
    addresses.require_url(url)


@pytest.mark.parametrize(
    "url",
    ["", "hooks.example.org", "ftp://h/", "https://", "http://hooks.example.org/", "http://8.8.8.8/", "https://h:x/",
     "https://h/#a", "https://h/a b"],
)  # fmt: skip
def test_other_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        addresses.require_url(url)
