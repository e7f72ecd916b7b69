# SPDX-License-Identifier: MIT
"""The file of the server's settings: every mistake has its line and its remedy."""

import pytest

from redrive.errors import ServerFileError
from redrive.server import ServerSettings, read_server_settings
from redrive.server.settings import parse_server_settings


def test_a_file_without_settings_is_the_defaults():
    assert parse_server_settings("") == ServerSettings()
    assert parse_server_settings("[tool.other]\nlisten = 1\n") == ServerSettings()


def test_settings_are_read_from_their_table(tmp_path):
    (tmp_path / "redrive.toml").write_text('[server]\nlisten = "127.0.0.1:0"\nhosts = ["redrive.local"]\n')
    found = read_server_settings(tmp_path / "redrive.toml")
    assert found == ServerSettings(listen="127.0.0.1:0", hosts=("redrive.local",))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("server = 1", "line 1: must be a table"),
        ("[server\n", "line 1: this is not TOML"),
        ("[server]\n\nlisten = 1", "line 3: listen=1: must be a text"),
        ("[server]\nhosts = 'a'", "line 2: hosts='a': must be a list"),
        ("[server]\nmax_body_bytes = 0", "line 2: max_body_bytes=0: must be a whole number"),
        ("[server]\nlistne = ''", "line 2: the server has no setting 'listne'.*Did you mean 'listen'"),
    ],
)
def test_a_mistake_is_named_with_its_line(text, problem):
    with pytest.raises(ServerFileError, match=problem):
        parse_server_settings(text)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ServerFileError, match=r"none\.toml, line 1: it cannot be read"):
        read_server_settings(tmp_path / "none.toml")
