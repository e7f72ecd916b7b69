# SPDX-License-Identifier: MIT
"""Reading exceptions."""

from redrive.worker.exception import source_of, trace_of


def raised():
    try:
        try:
            {}["missing"]
        except KeyError as error:
            raise ValueError("outer") from error
    except ValueError as error:
        return error


def test_the_source_is_where_it_was_raised():
    assert source_of(raised()).startswith(f"{__name__}.raised:")


def test_an_exception_that_was_never_raised_has_no_source():
    assert source_of(ValueError()) == ""
    assert trace_of(ValueError("x")) == "ValueError: x\n"


def test_the_trace_keeps_the_causes():
    trace = trace_of(raised())
    assert "KeyError: 'missing'" in trace
    assert "direct cause" in trace
    assert trace.endswith("ValueError: outer\n")


def test_a_trace_of_our_own_frames_only_is_kept_whole():
    from redrive.broker.decode import decoder
    from redrive.errors import InvalidPayload

    try:
        decoder(int)(None)
    except AttributeError as error:
        inside = error.with_traceback(error.__traceback__.tb_next)
    assert "redrive/broker/decode.py" in trace_of(inside)
    assert issubclass(InvalidPayload, ValueError)
