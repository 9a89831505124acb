"""Small image files for tests."""

import numpy as np
from PIL import ExifTags, Image


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


def photograph(path, taken=None, *, camera=("Canon", "EOS 5D", ""), seed=0, size=(40, 30)):
    """Write a JPEG of coarse noise; ``taken`` (a datetime) and make, model and serial number go into its EXIF block."""
    path.parent.mkdir(parents=True, exist_ok=True)
    coarse = Image.fromarray(np.random.RandomState(seed).randint(0, 256, (6, 6, 3), dtype=np.uint8))
    exif = Image.Exif()
    if taken is not None:
        make, model, serial = camera
        exif[ExifTags.Base.Make], exif[ExifTags.Base.Model] = make, model
        photo = exif.get_ifd(ExifTags.IFD.Exif)
        photo[ExifTags.Base.DateTimeOriginal] = f"{taken:%Y:%m:%d %H:%M:%S}"
        photo[ExifTags.Base.SubsecTimeOriginal] = f"{taken:%f}"
        photo[ExifTags.Base.BodySerialNumber] = serial
    coarse.resize(size, Image.Resampling.BICUBIC).save(path, exif=exif)
    return path
