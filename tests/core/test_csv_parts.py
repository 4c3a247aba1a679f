"""CSV is written in parts, row by row: other threads run meanwhile."""

import csv
import io
import threading
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from core import csv_cells

CELLS = st.text(max_size=20) | st.integers()


@given(st.lists(st.lists(CELLS, min_size=1, max_size=5), max_size=20), st.sampled_from(",;\t"))
def test_parts_are_the_output_of_the_csv_module(rows: list[list[object]], delimiter: str) -> None:
    whole = io.StringIO()
    csv.writer(whole, delimiter=delimiter).writerows(rows)
    with mock.patch.object(csv_cells, "PART", 30):
        parts = list(csv_cells.in_parts(rows, delimiter=delimiter))
    assert "".join(parts) == csv_cells.BYTE_ORDER_MARK + whole.getvalue()
    assert all(len(part) >= 30 for part in parts[:-1])


def test_other_threads_run_while_rows_are_written() -> None:
    rows, turns, end = [["12125550100", "Eve", "Springfield"]] * 300_000, [0], threading.Event()

    def count() -> None:
        while not end.is_set():
            turns[0] += 1

    other = threading.Thread(target=count)
    other.start()
    before = turns[0]
    size = sum(map(len, csv_cells.in_parts(rows)))
    during = turns[0] - before
    end.set()
    other.join()
    assert size > 300_000
    assert during > 10_000  # a single call for all rows leaves it none
