"""Checkpoints: the newest whole one wins, and damage is told from a disk that cannot be read."""

import pytest
import torch
from safetensors.torch import save_file

from tailcloud.errors import TailcloudError
from tailcloud.runs import checkpoint
from tailcloud.runs.checkpoint import Checkpoint, load_checkpoint, load_latest_checkpoint, save_checkpoint


def made(epoch):
    tensors = {
        "model.head.weight": torch.full((3, 4), float(epoch)),
        "model.steps": torch.tensor(epoch),
        "momentum.head.weight": torch.randn(3, 4, generator=torch.Generator().manual_seed(epoch)),
        "modelling": torch.zeros(1),
    }
    return Checkpoint(tensors, {"stage": "stage1", "epoch": epoch, "text": "größer"})


def fill(folder, *epochs, stage="stage1"):
    for epoch in epochs:
        save_checkpoint(folder, stage, epoch, made(epoch))
    return sorted(folder.iterdir())[-1]


def test_a_checkpoint_comes_back_bit_for_bit(tmp_path):
    found = load_checkpoint(fill(tmp_path, 7))
    assert found.state == made(7).state
    assert found.tensors.keys() == made(7).tensors.keys()
    assert all(torch.equal(found.tensors[name], value) for name, value in made(7).tensors.items())


def test_a_group_is_named_without_its_prefix():
    groups = {name: made(1).group(name) for name in ("model", "momentum", "best")}
    assert {name: set(group) for name, group in groups.items()} == {
        "model": {"head.weight", "steps"},
        "momentum": {"head.weight"},
        "best": set(),
    }
    assert (groups["model"]["head.weight"] == 1).all()


def test_only_the_last_two_of_each_stage_are_kept(tmp_path):
    fill(tmp_path, 1, 2, 9, 10, 11)
    fill(tmp_path, 1, 2, 3, stage="stage2")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "stage1-0000010.safetensors",
        "stage1-0000011.safetensors",
        "stage2-0000002.safetensors",
        "stage2-0000003.safetensors",
    ]


def test_the_newest_is_that_of_the_last_stage(tmp_path):
    fill(tmp_path, 1, stage="stage2")
    fill(tmp_path, 200, stage="stage1")
    found, remarks = load_latest_checkpoint(tmp_path)
    assert found.state["epoch"] == 1
    assert remarks == []


def test_no_folder_is_no_checkpoint(tmp_path):
    assert load_latest_checkpoint(tmp_path / "nowhere") == (None, [])


def cut(path):
    path.write_bytes(path.read_bytes()[:-5])


def cut_in_the_header(path):
    path.write_bytes(path.read_bytes()[:20])


def empty(path):
    path.write_bytes(b"")


def alter_a_tensor(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def alter_the_state(path):
    path.write_bytes(path.read_bytes().replace(b'\\"epoch\\": 2', b'\\"epoch\\": 3'))


def swap_two_names(path):
    content = path.read_bytes()
    path.write_bytes(content.replace(b"model.head.weight", b"model.dead.weight"))


def foreign(path):
    save_file({"weight": torch.zeros(2)}, path)


def foreign_with_metadata(path):
    save_file({"weight": torch.zeros(2, dtype=torch.bfloat16)}, path, {"format": "pt"})


def not_even_tensors(path):
    path.write_text("a shopping list that is a little longer than a header")


DAMAGES = [cut, cut_in_the_header, empty, alter_a_tensor, alter_the_state, swap_two_names]
FOREIGN = [foreign, foreign_with_metadata, not_even_tensors]


@pytest.mark.parametrize("damage", [*DAMAGES, *FOREIGN], ids=lambda damage: damage.__name__)
def test_a_damaged_or_foreign_file_is_passed_over_with_a_remark(tmp_path, damage):
    newest = fill(tmp_path, 1, 2)
    whole = newest.read_bytes()
    damage(newest)
    assert newest.read_bytes() != whole
    found, remarks = load_latest_checkpoint(tmp_path)
    assert found.state["epoch"] == 1
    assert len(remarks) == 1
    assert str(newest) in remarks[0]


def test_nothing_but_damaged_files_is_refused(tmp_path):
    cut(fill(tmp_path, 1))
    alter_a_tensor(fill(tmp_path, 2))
    with pytest.raises(TailcloudError, match=r"checkpoint.* in "):
        load_latest_checkpoint(tmp_path)


def test_a_file_that_cannot_be_read_is_a_sentence_and_not_damage(tmp_path, monkeypatch):
    newest = fill(tmp_path, 1, 2)

    def refuse(path, **_):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(checkpoint, "safe_open", refuse)
    with pytest.raises(TailcloudError, match="Permission denied") as caught:
        load_latest_checkpoint(tmp_path)
    assert str(newest) in str(caught.value)
    assert "damaged" not in str(caught.value)


def test_a_checkpoint_of_another_format_is_refused_and_not_passed_over(tmp_path, monkeypatch):
    fill(tmp_path, 1)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "FORMAT", 2)
        fill(tmp_path, 2)
    with pytest.raises(TailcloudError, match="has format 2"):
        load_latest_checkpoint(tmp_path)
