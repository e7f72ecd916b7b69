# SPDX-License-Identifier: MIT
"""``redrive demo`` shows what it promises, in 80 columns."""


def test_demo_shows_a_retry_a_redelivery_and_a_recovery(ok):
    shown = ok("demo", "--fast")
    for line in (
        "the caller got 'charged'",
        "circuit breaker 'billing': closed -> open",
        "the second caller: circuit breaker 'billing' is open; come back in 20 s",
        "delivery 2: a lamp to Elm Street, completed",
        "attempt 4: a table to nowhere: no address",
        "dead letter: a table to nowhere (MaxDelayedRetries)",
        "  875 x ConnectionError",
        "  125 x LookupError",
        "stopped: 10 of the first 10 failed again; the other 990 were not sent",
        "1000/1000 confirmed by the worker",
        "completed: 1,000 of 1,000 succeeded, 0 unresolved failures left",
    ):
        assert line in shown
    wrapped = [
        line for line in shown.splitlines() if line and not line.startswith((" ", "╭", "│", "╰", "Layer", "Next"))
    ]
    assert wrapped == [], "a line is longer than 80 columns"
