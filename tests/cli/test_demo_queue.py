# SPDX-License-Identifier: MIT
"""The second half of ``redrive demo``."""


def test_demo_shows_a_lost_consumer_a_dead_letter_and_its_return(ok):
    shown = ok("demo", "--fast")
    for said in (
        "delivery 2: a lamp to Elm Street, completed",
        "attempt 4 at a table to nowhere",
        "dead letter: a table to nowhere (MaxDelayedRetries)",
        "1 resubmitted; delivery 1",
    ):
        assert said in shown
