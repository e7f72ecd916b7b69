# SPDX-License-Identifier: MIT
"""The 70 behaviours that ten years of bulk retries elsewhere have taught, and where each of them is proven here.

A test that proves one says so in the first line of its docstring, as ``Behaviour 17: …``. This table says which does
for each number; what does not apply yet is in ``REASONS``. ``test_every_behaviour_is_proven_or_has_a_reason`` checks
that no number is forgotten, and that no test in the table has gone.

======  ==========================================================================================================
1       test_one_event_that_fails_at_two_consumers_is_two_records
2       test_the_same_failure_twice_is_one_attempt
3       test_an_older_attempt_that_comes_late_only_counts
4       test_two_attempts_in_one_page_are_one_record
5       test_processes_that_read_at_once_lose_no_attempt
6       test_a_message_without_a_queue_is_set_aside_and_the_rest_is_read
7       test_what_was_set_aside_can_be_read_again_while_everything_runs
8       test_a_store_that_is_full_stops_reading_and_it_goes_on_by_itself
9       test_a_copy_of_a_copy_that_fails_is_recoverable_in_whatever_order_it_is_heard
10      test_everything_else_about_a_message_comes_back_as_it_was
11      test_similar_failures_share_a_group
12      test_a_message_that_fails_otherwise_leaves_its_old_groups
13      test_odd_texts_in_headers_stop_nothing
14      test_a_group_counts_what_is_unresolved_and_is_gone_at_zero
15      see REASONS
16      test_more_groups_than_fit_on_a_page_can_be_reached
17      test_two_operations_that_race_send_each_message_once
18      test_what_was_sent_and_not_heard_of_is_not_sent_again_unasked
19      test_whatever_ends_it_lets_go_of_the_message
20      test_ids_that_are_unknown_or_none_at_all_are_named_and_stop_nothing
21      test_the_same_id_twice_counts_once
22      test_two_thousand_and_one_messages_are_three_batches
23      test_what_was_archived_after_marking_is_not_sent
24      test_a_batch_that_is_refused_once_is_staged_one_by_one
25      test_one_message_that_is_always_refused_is_ejected
26      test_a_process_that_dies_while_it_stages_loses_and_doubles_nothing
27      test_a_staged_copy_says_nothing_of_its_failure
28      test_a_body_comes_back_as_it_was
29      test_only_copies_of_the_recorded_staging_are_forwarded
30      test_a_process_that_dies_while_it_forwards_loses_and_doubles_nothing
31      test_the_same_copy_twice_does_not_end_the_batch_early
32      test_a_foreign_message_in_the_staging_queue_is_set_aside
33      test_a_destination_that_is_gone_costs_only_its_own_messages
34      test_a_message_whose_content_is_gone_is_not_sent
35      test_a_pointer_to_a_batch_that_has_vanished_is_cleared
36      test_a_slow_destination_holds_up_only_itself
37      test_stopping_in_the_middle_of_a_batch_goes_on_later
38      test_a_request_survives_a_kill_right_after_its_answer
39      test_progress_goes_forward_only_to_the_end
40      test_after_a_restart_the_figures_are_what_they_were
41      test_progress_goes_forward_only_to_the_end
42      test_every_message_of_an_operation_can_be_listed_by_what_became_of_it
43      test_nothing_is_sent_after_cancel_has_returned
44      test_a_pause_survives_a_restart
45      test_no_second_ever_sees_more_than_the_rate
46      test_canaries_that_do_well_let_the_rest_follow
47      test_a_dry_run_counts_what_the_real_run_finds
48      test_what_fails_after_the_request_is_not_part_of_it
49      test_the_same_key_gives_the_same_operation
50      test_two_kinds_of_operation_on_the_same_messages_are_refused
51      test_completion_is_recorded_once_with_everything_about_it
52      test_every_kind_of_operation_can_be_acknowledged
53      test_history_is_in_order_by_pages_and_goes_with_the_sweep
54      test_an_operation_on_nothing_is_over_at_once
55      test_failing_again_goes_to_its_own_record
56      test_what_failed_again_is_not_swept
57      test_word_of_success_resolves_and_more_of_it_does_no_harm
58      test_what_is_never_heard_of_shows_its_age_and_can_be_resolved_by_rule
59      test_a_bulk_change_by_filter_touches_exactly_what_the_filter_shows
60      test_a_redirected_message_that_fails_there_updates_its_own_record
61      test_duplicate_and_chained_redirects_are_refused_with_the_reason
62      test_of_two_editors_one_wins_and_the_other_is_told_who
63      test_plain_edit_plain_edit
64      test_headers_that_say_who_a_message_is_are_locked
65      test_a_crash_in_the_middle_of_an_edit_loses_and_doubles_nothing
66      test_archiving_many_goes_on_after_a_kill_at_the_right_batch
67      test_restore_gives_back_exactly_what_was_archived
68      test_the_sweep_takes_only_what_is_settled_and_old
69      test_every_change_says_who_what_when_why_and_with_what_result
70      see REASONS
======  ==========================================================================================================
"""

import ast
import re
from pathlib import Path

REASONS = {
    15: "how a traceback is classified needs no store; it is proven in test_fingerprint.py",
    70: "there is no server yet, so there are no roles and no routes",
}
"""Why a behaviour has no test that says its number."""

HERE = Path(__file__).parent


def test_every_behaviour_is_proven_or_has_a_reason():
    table = dict(re.findall(r"^(\d+) +(.+)$", __doc__, re.MULTILINE))
    assert sorted(map(int, table)) == list(range(1, 71))
    proven = numbers_by_test()
    for number, name in sorted((int(number), name) for number, name in table.items()):
        if number in REASONS:
            assert name == "see REASONS", number
        else:
            assert number in proven.get(name, set()), f"{name} does not say that it proves behaviour {number}"


def numbers_by_test():
    """Return the numbers that each test's docstring names."""
    found = {}
    for file in HERE.glob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                told = re.match(r"(?:[\w.]+, )?Behaviour ([\d, ]+)", ast.get_docstring(node) or "")
                numbers = set(map(int, re.findall(r"\d+", told[1]))) if told else set()
                found.setdefault(node.name, set()).update(numbers)
    return found
