# SPDX-License-Identifier: MIT
"""The bar of an operation."""

import pytest

from redrive.cli.output import progress
from redrive.recovery import Progress


@pytest.mark.parametrize(
    "figures",
    [
        Progress(),
        Progress(total=3, remaining=3),
        Progress(total=1_000_000, forwarded=999_998, succeeded=999_990, waiting=8, failed=1, skipped=1),
        Progress(total=5, forwarded=2, failed_again=1, succeeded=1, failed=1, skipped=1, cancelled=1),
        Progress(total=4, forwarded=4),
    ],
)
@pytest.mark.parametrize("width", [10, 40, 61])
def test_a_bar_has_a_sign_for_everything_and_is_as_wide_as_it_should(figures, width):
    bar = progress.operation_bar(figures, width).plain
    assert len(bar) == width
    for name, sign, _ in progress.SEGMENTS:
        if name != "done" and getattr(figures, name):
            assert sign in bar
