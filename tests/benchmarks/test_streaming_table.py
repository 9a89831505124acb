import streaming_table

ABOUT = {"gpu": "a card", "processor": "a chip", "cores": 4, "torch": "2.13"}
RECORD = {
    "data": "photos",
    "backbone": "resnet18",
    "size": 64,
    "batch": 256,
    "workers": 4,
    "machine": ABOUT,
    "commit": "abc",
    "rows": [
        {"name": "decoding", "images_per_second": 400.0},
        {"name": "cache in memory", "images_per_second": None},
        {"name": "on the device", "images_per_second": 1000.0},
    ],
}


def test_each_way_stands_beside_the_fastest():
    text = "\n".join(streaming_table.parts([RECORD, RECORD]))
    assert "| resnet18, 64, 256 | 400 (40 %) | – | – | 1,000 (100 %) |" in text
    assert text.count("photos, 4 processes that read, a card and 4 cores, torch 2.13, commit `abc`.") == 1


def test_records_of_two_commits_say_which_is_whose():
    later = RECORD | {"backbone": "resnet50", "commit": "def"}
    lines = [line for line in streaming_table.parts([RECORD, later]) if "commit" in line]
    assert [line.partition(": ")[0] for line in lines] == ["- resnet18, 64, 256", "- resnet50, 64, 256"]
