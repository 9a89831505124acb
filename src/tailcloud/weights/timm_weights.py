"""Published weights of any timm model, as timm's ``pretrained_cfg`` describes them."""

from tailcloud.backbones.timm_models import TIMM_PREFIX, check_timm
from tailcloud.errors import UsageError
from tailcloud.weights.catalogue import CATALOGUE, NOT_MEASURED, CatalogueEntry, HubFile


def timm_entry(name: str) -> CatalogueEntry:
    """The weights of ``timm:NAME.TAG``, or those that timm prefers for ``timm:NAME``.

    Raises:
        UsageError: timm is not installed, does not know them, or publishes no file of tensors on the hub.
    """
    check_timm(name)
    import timm

    config = timm.get_pretrained_cfg(name.removeprefix(TIMM_PREFIX))
    if config is None or not config.hf_hub_id or config.custom_load:
        raise UsageError(
            f"timm publishes no weights of {name} as a file of tensors on the hub; set model.weights to a file or to "
            "none"
        )
    full = f"{TIMM_PREFIX}{config.architecture}.{config.tag}"
    return CATALOGUE.get(full) or CatalogueEntry(
        name=full,
        tag=config.tag,
        architecture=config.architecture,
        source=HubFile(config.hf_hub_id, config.hf_hub_filename or "model.safetensors"),
        mean=tuple(map(float, config.mean)),
        std=tuple(map(float, config.std)),
        pixels=int(config.input_size[-1]),
        test_pixels=int(config.test_input_size[-1]) if config.test_input_size else None,
        interpolation=str(config.interpolation),
        crop=float(config.crop_pct),
        licence=config.license,
        trained_on=None,
        note=NOT_MEASURED,
    )
