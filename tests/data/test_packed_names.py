"""Packed names against a list of strings."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tailcloud.data.packed_names import Names

TEXTS = st.lists(st.text(st.characters(codec="utf-8"), max_size=8), max_size=20)


@given(TEXTS)
def test_names_are_the_list_they_were_made_from(texts: list[str]) -> None:
    names = Names.of(texts)
    assert len(names) == len(texts)
    assert list(names) == texts


@given(TEXTS.filter(bool), st.data())
def test_taking_some(texts: list[str], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(texts) - 1)))
    taken = Names.of(texts).take(np.array(chosen, np.int64))
    assert list(taken) == [texts[position] for position in chosen]


def test_a_name_that_is_no_text_survives() -> None:
    raw = b"caf\xe9.jpg"
    assert Names.of([raw.decode("utf-8", "surrogateescape")]).raw(0) == raw


def test_digest_knows_where_a_name_ends() -> None:
    assert Names.of(["ab", "c"]).digest() != Names.of(["a", "bc"]).digest()
    assert Names.of(["ab", "c"]).digest() == Names.of(["ab", "c"]).digest()
