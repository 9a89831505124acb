"""Your own images, opened by their path or given as a list of files.

- ``open_path``: decides what a path is, and opens it.
- ``image_folder``: a folder of class folders, as a file list.
- ``csv_list``: a CSV, TSV or text list, as a file list.
- ``large_list``: text lists of millions of images.
- ``file_list``: the record that folders and lists become.
- ``split_assignment``: class and split of each image.
- ``image_size``: the size at which images are read.
- ``labelled_images``: every labelled image of a path, for evaluation.
- ``build_dataset``: image files become a data set, in memory or left in their files.
- ``npz``: images and labels in an ``.npz`` file.
"""
