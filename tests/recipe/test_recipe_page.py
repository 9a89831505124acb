"""docs/recipe.md has every field of a recipe, as the schema has it, and no other."""

import pytest

from helpers.recipe_page import PAGE, documented, meanings, page, table_of
from tailcloud.data.augment import AUGMENTATIONS
from tailcloud.recipe import Recipe

TABLES = {table for field in Recipe.model_fields.values() if (table := table_of(field.annotation))}


def test_the_page_is_what_the_schema_says():
    assert page() == PAGE.read_text(encoding="utf-8"), 'run "python tests/helpers/recipe_page.py"'


@pytest.mark.parametrize("table", sorted(TABLES, key=lambda table: table.__name__))
def test_every_field_is_explained_and_nothing_else_is(table):
    assert set(meanings(table)) == set(table.model_fields)


@pytest.mark.parametrize("kind", AUGMENTATIONS)
def test_an_augmentation_explains_its_own_fields(kind):
    assert set(documented(kind)) == set(kind.model_fields)


@pytest.mark.parametrize(
    "row",
    [
        "| `batch` | `64` | Images per step, over all processes of a run | a whole number from 1 to 1,000,000 |",
        '| `every` | `"auto"` | Epochs from one evaluation to the next; ',
        "| `crop_area` | unset | Random resized crops: ",
        "| `loss` | needed | What is minimised on the outputs | [a loss](#losses) |",
        "| `adamw` | `beta1 = 0.9`, `beta2 = 0.999`, `epsilon = 1e-08` |",
    ],
)
def test_a_row_has_default_meaning_and_limits(row):
    assert row in page()
