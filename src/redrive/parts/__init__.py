# SPDX-License-Identifier: MIT
"""What routes and pipelines are declared with: parts, their settings, and the names of their kinds."""

from redrive.parts.folder import check_file, is_in_folders, only_folders
from redrive.parts.function_name import FunctionSetting, load_function, only_functions
from redrive.parts.kinds import PartKinds
from redrive.parts.part import DeclaredPart, Table
from redrive.parts.part_settings import ChoiceSetting, ListSetting, TableSetting, TextSetting, setting
from redrive.parts.secret import SecretSetting, from_environment, hidden_secret, secret_value
from redrive.parts.server_url import ServerUrlSetting, shown_url, without_secrets
from redrive.parts.variable import (
    any_variables,
    check_variable,
    check_variable_names,
    is_in_variables,
    only_variables,
)

__all__ = [
    "ChoiceSetting",
    "DeclaredPart",
    "FunctionSetting",
    "ListSetting",
    "PartKinds",
    "SecretSetting",
    "ServerUrlSetting",
    "Table",
    "TableSetting",
    "TextSetting",
    "any_variables",
    "check_file",
    "check_variable",
    "check_variable_names",
    "from_environment",
    "hidden_secret",
    "is_in_folders",
    "is_in_variables",
    "load_function",
    "only_folders",
    "only_functions",
    "only_variables",
    "secret_value",
    "setting",
    "shown_url",
    "without_secrets",
]
