"""Where a run that was not named goes if there is a run already."""

import pytest

from helpers.runs import small_recipe
from tailcloud.launch.run_plan import TrainRequest, free_folders
from tailcloud.runs.folder import RunFolder


def started(path, *, finished):
    folder = RunFolder(path)
    folder.create(small_recipe())
    for file in (folder.result_file, folder.weights_file, folder.model_file) if finished else ():
        file.touch()
    return folder


@pytest.mark.parametrize("runs", [[False], [True], [True, False], [False, True]])
def test_a_last_run_that_is_not_finished_can_be_continued_instead(tmp_path, caplog, runs):
    names = ["photos-gcl-seed0", "photos-gcl-seed0-2", "photos-gcl-seed0-3"]
    folders = [started(tmp_path / name, finished=each) for name, each in zip(names, runs, strict=False)]
    (found,) = free_folders(folders[:1], None, [small_recipe()], TrainRequest())
    assert found.path == tmp_path / names[len(runs)]
    continued = f'; "tailcloud train --resume --out {folders[-1].path}" continues the last one'
    assert (continued in caplog.text) is not runs[-1]
    assert ("--resume" in caplog.text) is not runs[-1]
