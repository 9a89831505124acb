"""Every bad input of docs/errors.md gets the sentence that stands there, and none a traceback; nothing is written."""

import pytest

from helpers import bad_inputs

DOCUMENTED = set(bad_inputs.PAGE.read_text().splitlines())


@pytest.mark.parametrize("case", bad_inputs.CASES, ids=lambda case: case.what)
def test_bad_input_gets_its_sentence(case):
    end = bad_inputs.ending(case)
    assert end.code in {1, 2}
    assert "Traceback" not in end.said
    assert "should not have happened" not in end.said
    assert end.said.count("error: ") + end.said.count("─ Error ─") == 1
    assert end.changed <= set(case.leaves)
    assert bad_inputs.row(case, end) in DOCUMENTED


def test_the_page_has_every_case_once_and_more_than_300():
    rows = [line for line in DOCUMENTED if line.startswith("| ") and not line.startswith("| what is wrong")]
    names = {case.what for case in bad_inputs.CASES}
    assert len(rows) == len(bad_inputs.CASES) == len(names) > 300
