"""Batches that are counted in bytes."""

from contrib.file_lookups.batches import by_size


def test_batch_has_no_more_items_or_bytes_than_allowed() -> None:
    items = ["a", "bb", "c", "dddd", "eeeee", "f", "g", "h", "i"]
    batches = list(by_size(items, len, max_items=3, max_size=4))
    assert batches == [["a", "bb", "c"], ["dddd"], ["eeeee"], ["f", "g", "h"], ["i"]]
    assert list(by_size([], len, max_items=3, max_size=4)) == []
