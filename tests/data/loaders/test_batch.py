"""Micro-batches: together they are the batch."""

from hypothesis import given
from hypothesis import strategies as st

from tailcloud.data.loaders.batch import BatchShare


@given(st.integers(0, 100), st.integers(0, 100), st.integers(1, 5), st.integers(1, 5))
def test_every_row_is_in_one_micro_batch(start: int, rows: int, processes: int, each: int) -> None:
    shares = [BatchShare(first=each * rank, count=each, of=each * processes) for rank in range(processes)]
    bounds = [each for share in shares for each in share.bounds(start, start + rows)]
    assert [row for a, b in bounds for row in range(a, b)] == list(range(start, start + rows))
    sizes = [b - a for a, b in bounds]
    assert max(sizes) - min(sizes) <= 1


def test_alone_a_process_has_all_of_it() -> None:
    assert BatchShare().bounds(64, 128) == [(64, 128)]
