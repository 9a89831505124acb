"""Where a run that was not named goes if there is a run already."""

import pytest

from helpers.runs import small_recipe
from tailcloud.launch.run_plan import TrainRequest, free_folders
from tailcloud.runs.folder import RunFolder


@pytest.mark.parametrize("finished", [False, True])
def test_a_run_that_is_not_finished_can_be_continued_instead(tmp_path, caplog, finished):
    usual = RunFolder(tmp_path / "photos-gcl-seed0")
    usual.create(small_recipe())
    for file in (usual.result_file, usual.weights_file, usual.model_file) if finished else ():
        file.touch()
    (found,) = free_folders([usual], None, [small_recipe()], TrainRequest())
    assert found.path == tmp_path / "photos-gcl-seed0-2"
    continued = f'which "tailcloud train --resume --out {usual.path}" continues'
    assert (continued in caplog.text) is not finished
