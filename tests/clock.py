"""The time in tests of what gets a clock."""


class Clock:
    """In place of time.monotonic. It stands still until a test advances it."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now
