"""Small image files for tests."""

import numpy as np
from PIL import Image


def draw(path, colour=(200, 30, 30), size=(8, 8)):
    """Write an image of one color (a number: grey); its folder is created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = size if isinstance(colour, int) else (*size, 3)
    Image.fromarray(np.full(shape, colour, np.uint8)).save(path)
    return path


def draw_classes(root, counts, **options):
    """``root/NAME/0.png`` … for every name and count; every image has its own pixels."""
    for name, count in counts.items():
        for number in range(count):
            draw(root / name / f"{number}.png", colour=(len(name), number, 0), **options)
    return root
