"""``tailcloud export``: write a trained model as a file for other programs, and its model card."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailcloud.cli.console import out as console
from tailcloud.cli.console import print_note
from tailcloud.cli.options import Plugin

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder.")],
    to: Annotated[str, typer.Option(help="onnx, pt2, safetensors, or card for the model card alone.")],
    out: Annotated[
        Path | None, typer.Option(help="The file to write; by default in the run folder.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    root: Annotated[
        str | None, typer.Option(help="The folder with the data files, for the check.", show_default=False)
    ] = None,
    _plugin: Plugin = None,
) -> None:
    """Write the model of a run as a file for other programs, and a model card in the run folder.

    Example:

        tailcloud export runs/digits-lt-gcl-seed0 --to onnx

    The file takes uint8 images [batch, height, width, channels] at the size of the model and gives calibrated
    probabilities; it includes normalisation and class names. It is compared with the original on test images of the
    run (random images if its data cannot be opened), and written only if the probabilities agree.
    """
    from tailcloud.reporting.card import CARD, model_card, write_card
    from tailcloud.serving.export import check_target, export_run, format_of

    if to == "card":
        console.print(f"card: {write_card(run, out, force=force)}", markup=False)
        return
    # before the data are opened, which may take a while
    check_target(run, out or run / format_of(to).file, force=force)
    with_card = (run / "result.json").is_file() and not (run / CARD).exists()
    if with_card:
        model_card(run)  # refuses a damaged result before anything is written
    images, description = _test_images(run, root)
    exported = export_run(run, to, out, images, force=force)
    height, width, channels = exported.shape
    console.print(
        f"checked in {exported.checker} on {exported.images} {description}: the largest difference of a probability is "
        f"{exported.difference:.1e}\n"
        f"model: {exported.file} ({exported.bytes / 1000:,.0f} kB; uint8 [batch, {height}, {width}, {channels}] in, "
        f"{exported.classes:,} probabilities out)",
        markup=False,
    )
    if with_card:
        console.print(f"card: {write_card(run)}", markup=False)
    elif (run / CARD).exists():
        print_note(f"{run / CARD} exists already and was not changed; --to card --force replaces it.")


def _test_images(run: Path, root: str | None) -> "tuple[NDArray[np.uint8] | None, str]":
    """Test images of the run and a description; None if its data cannot be opened or have changed."""
    from tailcloud.data import open_dataset
    from tailcloud.data.readers.open_path import named_root
    from tailcloud.errors import TailcloudError
    from tailcloud.runs.folder import RunFolder
    from tailcloud.serving.evaluate import check_fits
    from tailcloud.serving.export import sample_split
    from tailcloud.serving.load import load

    model = load(run)
    try:
        recipe = RunFolder(run).recipe()
        dataset = open_dataset(recipe.data.spec, named_root(root, recipe.root), recipe.data.read_options)
        check_fits(run, model, dataset)
        images = sample_split(dataset.test)
    except (TailcloudError, OSError) as error:
        print_note(f"The test images of the run cannot be used for the check: {error}")
        return None, "random images"
    return images, f"test images of {dataset.spec}"
