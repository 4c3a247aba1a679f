"""Fixtures for what leaves the process: two vendors on loopback, bound to a slot each."""

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import upstream
from tests.upstream import Behaviour, Upstream

PRESETS = Path(__file__).parents[2] / "presets"
KEYS = {"MOCK_A_KEY": "a-key-of-ours-7f3b", "MOCK_B_KEY": "b-key-of-ours-92cd"}


class Vendors:
    """`a` answers slot A (mock_a), `b` slot B (mock_b): well, until a test lets them behave otherwise."""

    def __init__(self) -> None:
        self.a = Upstream(upstream.says(upstream.GOOD_A)).start()
        self.b = Upstream(upstream.says(upstream.GOOD_B)).start()

    def __getitem__(self, slot: str) -> Upstream:
        return self.a if slot == "a" else self.b


@pytest.fixture
def vendors(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Vendors]:
    both = Vendors()
    for name, value in {**KEYS, "MOCK_A_BASE_URL": both.a.url, "MOCK_B_BASE_URL": both.b.url}.items():
        monkeypatch.setenv(name, value)
    settings.PRESET_DIR = str(PRESETS)
    settings.SOURCE_A, settings.SOURCE_B = "mock_a", "mock_b"
    yield both
    both.a.stop()
    both.b.stop()


@pytest.fixture
def vendor() -> Iterator[Callable[..., Upstream]]:
    started: list[Upstream] = []

    def start(behave: Behaviour, tls: ssl.SSLContext | None = None) -> Upstream:
        started.append(Upstream(behave, tls).start())
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def short_deadline(settings: Any) -> None:
    settings.SEARCH_DEADLINE_S, settings.CALL_LIFETIME_S = 0.3, 0.8
