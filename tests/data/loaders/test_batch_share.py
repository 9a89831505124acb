"""Pieces of batches: together they are the batch."""

from hypothesis import given
from hypothesis import strategies as st

from tailcloud.data.loaders.batch_share import Share


@given(st.integers(0, 100), st.integers(0, 100), st.integers(1, 5), st.integers(1, 5))
def test_every_row_is_in_one_piece(start: int, rows: int, processes: int, each: int) -> None:
    shares = [Share(first=each * rank, count=each, of=each * processes) for rank in range(processes)]
    pieces = [piece for share in shares for piece in share.pieces(start, start + rows)]
    assert [row for a, b in pieces for row in range(a, b)] == list(range(start, start + rows))
    sizes = [b - a for a, b in pieces]
    assert max(sizes) - min(sizes) <= 1


def test_alone_a_process_has_all_of_it() -> None:
    assert Share().pieces(64, 128) == [(64, 128)]
