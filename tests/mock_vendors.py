"""Two mock vendors on loopback, and what binds them: the presets in tests/presets, and their keys."""

from pathlib import Path

from tests import upstream
from tests.upstream import Upstream

PRESETS = Path(__file__).with_name("presets")
KEYS = {"MOCK_A_KEY": "a-key-of-ours-7f3b", "MOCK_B_KEY": "b-key-of-ours-92cd"}


class Vendors:
    """`a` answers slot A (mock_a), `b` slot B (mock_b), correctly until a test changes it."""

    def __init__(self) -> None:
        self.a = Upstream(upstream.says(upstream.GOOD_A)).start()
        self.b = Upstream(upstream.says(upstream.GOOD_B)).start()

    def __getitem__(self, slot: str) -> Upstream:
        return self.a if slot == "a" else self.b
