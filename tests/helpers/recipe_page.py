"""The page of all fields of a recipe, docs/recipe.md, from the schema and its docstrings.

``python tests/helpers/recipe_page.py`` writes it anew; a test compares it.
"""

import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from tailcloud.data.augment import AUGMENTATIONS, Augment
from tailcloud.data.read_options import ReadOptions
from tailcloud.heads import HEADS
from tailcloud.recipe.schema import Data, Distill, Engine, Logging, Model, PartSpec, Recipe, Selection, Stage
from tailcloud.recipe.validate import PARTS, options_schema

PAGE = Path(__file__).parents[2] / "docs" / "recipe.md"
HEAD = """# Every field of a recipe

A recipe is a TOML file, and everything that decides a run is in it. These are all its fields. Each can be changed on
the command line (`--set TABLE.FIELD=VALUE`), in Python (`settings={"stage1.lr": 0.05}`), or in a file of your own:

```console
$ tailcloud train digits-lt/gcl --set stage1.epochs=30 --set stage2.sampler=cben
$ tailcloud recipes copy digits-lt/gcl mine.toml
```

A default is what a field has if neither the recipe nor its method sets it; most recipes set the network, the
augmentation, epochs and loss. `tailcloud recipes show digits-lt/gcl --resolved` prints a recipe with every field, and
`recipe.toml` in a run folder is one. A misspelt field, or a value that is out of range, is refused before anything is
loaded. In a file, text is in quotation marks; after `--set` it needs none. "Unset" is a field that is left out,
"needed" one that a method or a recipe has to set. The page is written by `python tests/helpers/recipe_page.py`.
"""
SECTION = """
## {title}

{text}

| field | default | meaning | values |
|---|---|---|---|
"""
SEE: dict[type[BaseModel], str] = {
    Data: "More: [how data are named, split and read](data.md), [streamed](streaming.md), and where "
    "[features](choosing.md#features-are-computed-once) are.",
    Model: "More: [backbones](backbones.md), [pretrained weights](weights.md), [adapters](adapters.md), "
    "[experts](methods.md#experts-on-a-shared-trunk).",
    Augment: "`[augment]` is for all training images; `[view_augment]`, if it is there, for the further views that "
    "[contrasts](methods.md#methods-that-contrast-views) compare. What is active is applied in the order of the table, "
    "before mixup and CutMix.",
    Stage: "`[stage1]` trains features and head, `[stage2]` usually re-balances the head, and a `[stage3]` can be laid "
    "behind any method; it trains nothing unless it has epochs. Losses, samplers and the like are [parts](#parts): a "
    "name, or a table of a name and options. `stage1.loss.scale = 20.0` changes an option; a part with a new name "
    "starts with its own defaults. [What each method sets](methods.md).",
    Distill: "`--teacher RUN` is short for it. [More](methods.md#distillation-a-run-that-learns-from-others).",
    Selection: "More: [which epochs are evaluated](report.md#which-epochs-are-evaluated), "
    "[which stage is kept](choosing.md#which-stage-is-kept).",
    Engine: "More: [executors](performance.md#executors), [fused kernels](performance.md#fused-kernels), "
    "[several GPUs](distributed.md).",
    Logging: "More: [what the report has](report.md), [gradients](figures.md).",
}
KINDS = {
    "loss": ("Losses", "What a stage minimises."),
    "sampler": ("Samplers", "[Their weights](methods.md#samplers) decide how often an image of each class is drawn."),
    "objective": ("Objectives", "What is computed on a batch; most methods have `classify`."),
    "head_transform": ("Head transforms", "What is done to the head before the first step of a stage."),
    "optimizer": ("Optimisers", "[What they do](backbones.md#optimisers)."),
}
SAMPLER = "[a sampler](#samplers)"
ONE = {"integer": "a whole number", "number": "a number", "string": "text", "boolean": "`true`, `false`"}
SEVERAL = {"number": "numbers"}
SIGNS = {"minimum": "≥", "ge": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}


def is_ours(part: Callable[..., object]) -> bool:
    """Whether a part is of the package, and not of a plugin."""
    return part.__module__.startswith("tailcloud.")


NAMED: dict[tuple[type[BaseModel], str], str] = {  # values that the schema does not say
    (Recipe, "method"): "[a method](methods.md)",
    (Data, "spec"): "a name or a path",
    (Data, "group"): '`"exif"`, `"duplicates"`, a column, a regular expression',
    (Data, "cache"): '`"none"`, `"ram"`, a folder',
    (Data, "feature_cache"): '`"auto"`, `"none"`, a folder',
    (Model, "backbone"): "[a backbone](backbones.md)",
    (Model, "head"): ", ".join(f'`"{name}"`' for name, head in HEADS.items() if is_ours(head)),
    (Model, "weights"): '`"none"`, `"pretrained"`, [a tag](weights.md#the-list), a file',
    (Model, "weights_sha256"): "8 to 64 hexadecimal digits",
    (Stage, "sampler"): SAMPLER,
    (Stage, "second_sampler"): SAMPLER,
    (Stage, "cutmix_sampler"): SAMPLER,
    (Stage, "loss"): "[a loss](#losses)",
    (Stage, "objective"): "[an objective](#objectives)",
    (Stage, "train"): '`"all"`, `"head"`, `"adapters"`, parts joined by `+`',
    (Stage, "head_transform"): "[a head transform](#head-transforms)",
    (Stage, "optimizer"): "[an optimiser](#optimisers)",
    (Distill, "teachers"): "a list of folders",
    (Distill, "sha256"): "a list of 64 hexadecimal digits each",
    (Selection, "every"): '`"auto"`, a whole number ≥ 1',
}


def page() -> str:
    """The whole page."""
    return HEAD + "".join([*sections(), *parts()])


def sections() -> Iterator[str]:
    """The fields outside of tables, then each table; several tables of the same fields have one section."""
    tables: dict[type[BaseModel], list[str]] = {}
    plain = []
    for name, field in Recipe.model_fields.items():
        if table := table_of(field.annotation):
            tables.setdefault(table, []).append(name)
        else:
            plain.append(name)
    yield SECTION.format(title="At the top", text="Before the first table.") + rows(Recipe, plain)
    for table, names in tables.items():
        title = ", ".join(f"`[{name}]`" for name in names)
        yield SECTION.format(title=title, text=f"{first_paragraph(table)} {SEE[table]}") + rows(
            table, table.model_fields
        )


def table_of(annotation: Any) -> type[BaseModel] | None:
    """The table in the annotation of a field, which may allow None; None if the field is no table."""
    kinds = (annotation, *getattr(annotation, "__args__", ()))
    return next((kind for kind in kinds if inspect.isclass(kind) and issubclass(kind, BaseModel)), None)


def rows(table: type[BaseModel], names: Iterable[str]) -> str:
    """A row for each field: its default, meaning and values."""
    said, schema = meanings(table), table.model_json_schema()["properties"]
    return "".join(
        f"| `{name}` | {default(table, name)} | {said[name]} | {NAMED.get((table, name)) or allowed(schema[name])} |\n"
        for name in names
    )


def meanings(table: type[BaseModel]) -> dict[str, str]:
    """The meaning of each field, from the docstrings of the classes that say how it is used."""
    classes: Iterable[type] = {Data: [Data, ReadOptions], Augment: AUGMENTATIONS}.get(table, [table])
    return {name: as_sentence(text) for kind in classes for name, text in documented(kind).items()}


def documented(kind: type) -> dict[str, str]:
    """The entries under "Attributes" or "Args" in the docstring of a class."""
    _, *listed = re.split(r"^(?:Attributes|Args):\n", inspect.getdoc(kind) or "", maxsplit=1, flags=re.MULTILINE)
    return dict(re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", "".join(listed), re.MULTILINE))


def first_paragraph(kind: type) -> str:
    """The first paragraph of the docstring of a class."""
    return markdown((inspect.getdoc(kind) or "").partition("\n\n")[0])


def as_sentence(text: str) -> str:
    """The text of an entry in a cell: a capital letter first, unless it begins with a symbol, and no full stop."""
    first = text[:1].upper() if text[:1].isascii() else text[:1]
    return markdown(first + text[1:].removesuffix("."))


def markdown(text: str) -> str:
    """Text of a docstring as Markdown in one line."""
    return " ".join(text.replace("``", "`").replace("|", "\\|").split())


def default(table: type[BaseModel], name: str) -> str:
    """The default of a field, in TOML."""
    value = table.model_fields[name].default
    if value is PydanticUndefined:
        return "needed"
    return "unset" if value is None else f"`{json.dumps(value.name if isinstance(value, PartSpec) else value)}`"


def allowed(schema: Mapping[str, Any]) -> str:
    """What a JSON schema allows, in words."""
    if "anyOf" in schema:  # a value or nothing, or a whole number or any number
        options = [option for option in schema["anyOf"] if option.get("type") != "null"]
        return allowed({key: value for key, value in schema.items() if key != "anyOf"} | options[-1])
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema.get("enum", [schema.get("const")]))
    kind = schema["type"]
    if kind in {"array", "object"}:
        inner = schema["items" if kind == "array" else "additionalProperties"]
        count = "a table of" if kind == "object" else schema.get("maxItems", "a list of")
        return f"{count} {SEVERAL[inner['type']]}{limits(inner)}"
    return ONE[kind] + limits(schema)


def limits(schema: Mapping[str, Any]) -> str:
    """The limits of a number."""
    if {"minimum", "maximum"} <= schema.keys():
        return f" from {schema['minimum']:,} to {schema['maximum']:,}"
    found = ", ".join(f"{sign} {schema[key]:,}" for key, sign in SIGNS.items() if key in schema)
    return found and f" {found}"


def parts() -> Iterator[str]:
    """The parts with a name, and their options."""
    yield "\n## Parts\n\nWhat they compute, and which methods have them, is on [the page of the methods](methods.md). "
    yield "A [plugin](extending.md) adds others.\n"
    for field, (title, text) in KINDS.items():
        yield f"\n### {title}\n\n{text}\n\n| name | options and their defaults |\n|---|---|\n"
        yield from (f"| `{name}` | {options(part)} |\n" for name, part in PARTS[field].items() if is_ours(part))


def options(part: Callable[..., object]) -> str:
    """The options of a part, with their defaults."""
    fields = options_schema(part).model_fields.items()
    return ", ".join(f"`{name} = {json.dumps(field.default)}`" for name, field in fields) or "none"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
