"""Every bad input of docs/errors.md gets the sentence that stands there, and none gets a traceback."""

import pytest

from helpers import bad_inputs

DOCUMENTED = bad_inputs.PAGE.read_text().splitlines()


@pytest.mark.parametrize("case", bad_inputs.CASES, ids=lambda case: case.what)
def test_bad_input_gets_its_sentence(case):
    code, said = bad_inputs.sentence(case)
    assert code in {1, 2}
    assert "Traceback" not in said
    assert "should not have happened" not in said
    assert bad_inputs.row(case, code, said) in DOCUMENTED


def test_the_page_has_no_row_without_a_case():
    rows = [line for line in DOCUMENTED if line.startswith("| ") and not line.startswith("| what is wrong")]
    assert len(rows) == len(bad_inputs.CASES) >= 30
