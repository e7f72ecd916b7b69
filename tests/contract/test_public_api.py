# SPDX-License-Identifier: MIT
"""The public API is a reviewed list: a change to public_api.txt is a change to the API."""

import difflib

import pytest

from tests.contract import surface


def test_the_listing_is_what_the_code_exports():
    reviewed = surface.LISTING.read_text() if surface.LISTING.exists() else ""
    changes = difflib.unified_diff(
        reviewed.splitlines(), surface.listing().splitlines(), "reviewed", "the code", lineterm="", n=0
    )
    if changed := "\n".join(changes):
        pytest.fail(f"the public API changed; if that is meant, run `make api` and review the diff\n{changed}")


@pytest.mark.parametrize("module", surface.public_modules(), ids=lambda module: module.__name__)
def test_exports_are_sorted_unique_and_there(module):
    assert list(module.__all__) == sorted(set(module.__all__))
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_no_name_at_the_root_hides_a_module():
    """``redrive.retry`` must stay the package, so the root cannot export the function ``retry``."""
    modules = {module.__name__.removeprefix("redrive.") for module in surface.public_modules()}
    assert modules.isdisjoint(item.name for item in surface.exported() if item.module == "redrive")
