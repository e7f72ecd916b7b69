# SPDX-License-Identifier: MIT
"""Files that a process may use: those in its folders, wherever links lead."""

import pytest

from redrive.errors import InvalidSetting
from redrive.parts import check_file, is_in_folders, only_folders


def test_without_a_limit_every_file_may_be_used():
    check_file("path", "/etc/passwd")


def test_within_a_limit_only_files_in_the_folders_may_be_used(tmp_path):
    inside, outside = tmp_path / "in", tmp_path / "in-other"
    for each in (inside, outside):
        each.mkdir()
    (inside / "link").symlink_to(outside)
    with only_folders([str(inside)]):
        check_file("path", inside / "sub" / "a.jsonl")
        for path in (outside / "a", inside / ".." / "a", inside / "link" / "a", "/etc/passwd", "a", "a\0b"):
            with pytest.raises(InvalidSetting, match="add its folder to folders"):
                check_file("path", path)
        with only_folders([]), pytest.raises(InvalidSetting):
            check_file("path", inside / "a")
        check_file("path", inside / "a")


def test_a_loop_of_links_is_in_no_folder(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert not is_in_folders(tmp_path / "a" / "x", ["/nowhere"])
