import json

import jpeg_decoding
import numpy as np


def test_a_record_has_a_rate_for_every_size(tmp_path, capsys):
    jpeg_decoding.main(["--images", "2", "--budget", "0", "--out", str(tmp_path / "record.json")])
    record = json.loads((tmp_path / "record.json").read_text())
    assert [row["data"] for row in record["rows"]] == ["imagenet-lt", "inat2018", "places-lt"]
    assert all(row["images_per_second"] > 0 for row in record["rows"])
    assert "imagenet-lt: " in capsys.readouterr().out


def test_amplitudes_fall_as_one_over_the_frequency():
    field = jpeg_decoding.clouds((256, 192), np.random.default_rng(0))
    power = np.abs(np.fft.fft2(field)) ** 2
    low, high = power[:, 4:8].mean(), power[:, 32:64].mean()  # columns around the frequencies 6 and 48
    assert 0.5 < np.log(low / high) / np.log(8) < 1.6  # 1/f² summed over the other direction is about 1/f
    assert np.isclose(field.std(), 1)
    assert abs(field.mean()) < 1e-9
