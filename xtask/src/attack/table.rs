//! What roster promises, against whom, and what attacks it: one table.

use super::Against::{Delegated, DiskHolder, SignedIn, Strangers};
use super::Promise;

pub(super) const PROMISES: &[Promise] = &[
    Promise {
        against: Strangers,
        says: "No octet of an answer reaches another connection, whatever the peers do",
        tests: &[
            (
                "server",
                "tests::isolation::in_process",
                "answers_stay_with_their_connection_whatever_the_peers_do",
            ),
            ("server", "tests::isolation::sockets", "answers_reach_only_who_asked_for_them"),
            (
                "directory",
                "leaks::interleaved",
                "interleaved_sessions_are_answered_as_each_would_be_alone",
            ),
        ],
    },
    Promise {
        against: Strangers,
        says: "Who is not signed in reads the root DSE and the schema, and nothing else",
        tests: &[
            (
                "directory",
                "readers",
                "strangers_read_the_root_dse_and_the_schema_the_signed_in_what_is_not_secret",
            ),
            ("aci", "tests", "strangers_read_the_root_dse_and_the_schema_and_no_more"),
        ],
    },
    Promise {
        against: Strangers,
        says: "No negation in an ACI lets in who is not signed in",
        tests: &[(
            "aci",
            "decide::tests::strangers",
            "no_negation_opens_anything_to_who_is_not_signed_in",
        )],
    },
    Promise {
        against: Strangers,
        says: "An import opens nothing that was closed where the data come from",
        tests: &[
            (
                "offline",
                "import::tests",
                "data_with_access_rules_of_their_own_leave_the_directory_closed",
            ),
            ("offline", "import::tests", "an_aci_that_means_something_else_here_is_warned_of"),
        ],
    },
    Promise {
        against: Strangers,
        says: "Strangers have no password hashed, and make one guess with one request",
        tests: &[
            (
                "directory",
                "identities",
                "strangers_have_nothing_hashed_and_a_request_makes_one_guess",
            ),
            (
                "server",
                "tests::addresses",
                "after_binds_that_failed_the_next_ones_wait_and_nothing_else_does",
            ),
        ],
    },
    Promise {
        against: Strangers,
        says: "A policy's `pwdMaxFailure` bounds what can be guessed, whether or not \
               anybody waits for the answers, and however many guesses are made side by \
               side; right passwords that were not looked at lock nobody out",
        tests: &[
            ("directory", "guesses", "a_guess_counts_although_nobody_waits_for_its_hash"),
            ("directory", "guesses", "of_guesses_side_by_side_none_is_right_beyond_the_limit"),
            ("directory", "guesses", "a_guess_that_is_answered_counts_once"),
            ("directory", "guesses", "a_delay_after_failures_begins_with_the_guess"),
            ("directory", "guesses", "a_guess_that_is_long_under_way_ends_no_delay"),
            ("directory", "guesses", "guesses_that_end_within_a_delay_are_failures_each"),
            ("directory", "guesses", "guesses_under_way_for_longer_than_a_lock_lasts_still_count"),
            ("directory", "guesses", "right_binds_beside_a_guess_under_way_fill_nothing"),
            (
                "directory",
                "binds_under_policy",
                "binds_that_no_rule_counts_take_no_room_beside_those_that_one_would",
            ),
            ("directory", "guesses", "right_passwords_that_nobody_waits_for_lock_nobody_out"),
            ("directory", "guesses", "right_binds_side_by_side_are_all_let_in"),
            ("directory", "guesses", "a_right_password_that_is_refused_is_as_late_as_a_wrong_one"),
            (
                "directory",
                "guesses",
                "a_wrong_password_is_refused_no_sooner_than_one_that_is_stored_like_new_ones",
            ),
            (
                "directory",
                "guesses",
                "a_right_password_in_a_cheaper_form_that_is_refused_is_as_late_as_a_wrong_one",
            ),
            (
                "directory",
                "binds_under_policy",
                "of_many_guesses_at_once_no_more_count_than_the_policy_allows",
            ),
            ("server", "tests::passwords", "who_hangs_up_has_guessed_at_the_account_too"),
        ],
    },
    Promise {
        against: Strangers,
        says: "So does `limits.bind_failures_max` for an address, changes of a password \
               included, and for an account behind a gateway whatever it is called",
        tests: &[
            (
                "server",
                "tests::addresses",
                "of_guesses_side_by_side_no_more_are_answered_than_one_after_the_other",
            ),
            ("server", "addresses::tests", "no_more_are_under_way_than_may_fail"),
            (
                "server",
                "addresses::tests",
                "beyond_the_limit_one_is_under_way_and_its_failure_counts_for_those_in_line",
            ),
            (
                "server",
                "tests::addresses",
                "right_binds_side_by_side_wait_for_each_other_and_for_nothing_else",
            ),
            (
                "server",
                "tests::addresses",
                "an_account_is_one_behind_a_gateway_whatever_it_is_called",
            ),
            ("server", "tests::addresses", "a_wrong_old_password_is_a_bind_that_failed"),
            ("server", "addresses::tests", "names_that_are_made_up_have_nobody_forgotten"),
            (
                "server",
                "tests::addresses",
                "who_hangs_up_before_the_answer_has_guessed_all_the_same",
            ),
            (
                "server",
                "limits::client_addresses::tests",
                "what_waits_for_those_under_way_is_bounded_too",
            ),
            (
                "server",
                "tests::addresses",
                "names_that_scram_makes_up_behind_a_gateway_delay_nobody_else",
            ),
        ],
    },
    Promise {
        against: Strangers,
        says: "A bind that waits for its address waits at most four of the longest \
               delays, and what clients do that are gone delays nobody for long",
        tests: &[
            (
                "server",
                "limits::client_addresses::tests",
                "no_bind_waits_longer_than_four_of_the_longest_delays",
            ),
            ("server", "tests::hang_ups", "what_waits_in_line_for_clients_that_are_gone_leaves_it"),
            ("server", "tests::hang_ups", "right_passwords_that_nobody_waits_for_delay_nobody"),
            (
                "server",
                "connection::bind_throttle::tests",
                "who_is_called_and_cannot_go_lets_the_next_one_go",
            ),
        ],
    },
    Promise {
        against: Strangers,
        says: "Neither what a length claims nor what clients do not take uses more \
               memory than the limits say, by connection, by address, of strangers and \
               of all",
        tests: &[
            ("server", "tests::limits", "what_a_length_claims_is_not_allocated"),
            (
                "server",
                "tests::slow_readers",
                "a_client_that_takes_nothing_is_not_read_on_beyond_its_output",
            ),
            (
                "server",
                "tests::budgets",
                "strangers_that_ask_for_much_and_take_nothing_share_a_budget",
            ),
            ("server", "tests::budgets", "so_do_many_strangers_that_ask_for_little_each"),
            ("server", "tests::budgets", "searches_of_one_connection_share_what_may_wait_for_it"),
            ("server", "tests::budgets", "a_request_that_does_not_arrive_in_full_counts"),
            (
                "server",
                "tests::budgets",
                "who_has_signed_in_and_takes_nothing_is_ended_when_all_is_used_up",
            ),
            (
                "directory",
                "read_entry",
                "what_an_update_reads_is_limited_and_beyond_it_nothing_is_changed",
            ),
            (
                "directory",
                "read_entry",
                "what_the_updates_of_a_transaction_read_is_limited_together",
            ),
            ("directory", "read_entry", "what_is_to_be_read_counts_while_its_update_waits"),
        ],
    },
    Promise {
        against: Strangers,
        says: "Who does not read holds no thread, and strangers never stop the searches \
               of those who have signed in",
        tests: &[
            ("server", "tests::stalled", "clients_that_do_not_read_hold_no_thread"),
            (
                "server",
                "tests::stalled",
                "strangers_do_not_take_the_thread_of_those_who_have_signed_in",
            ),
            (
                "server",
                "tests::stalled",
                "connections_that_end_while_their_searches_are_parked_leave_nothing",
            ),
            ("server", "tests::stalled", "connections_that_end_leave_nothing_in_the_queue"),
            ("server", "fair_queue::tests", "those_who_ask_take_turns"),
            ("server", "tests::stalled", "a_long_search_gives_its_thread_to_others"),
            ("server", "fair_queue::tests", "strangers_are_one_half_however_many_they_are"),
            (
                "server",
                "fair_queue::tests",
                "nobody_fills_it_alone_and_places_are_kept_for_the_signed_in",
            ),
        ],
    },
    Promise {
        against: Strangers,
        says: "A request of a stranger delays its neighbours by about a millisecond, \
               and costs no more work than the limit of who asks",
        tests: &[
            ("directory", "search_work", "what_is_asserted_costs_no_more_than_a_search"),
            ("directory", "search_work", "picking_values_is_work"),
            ("directory", "large_groups", "many_modifications_of_a_large_attribute_are_few_passes"),
            (
                "server",
                "tests::time_slices",
                "large_requests_of_one_connection_do_not_delay_its_neighbours",
            ),
            (
                "server",
                "stranger_turns::tests",
                "strangers_wait_when_their_share_is_used_up_and_until_the_next_round",
            ),
            (
                "directory",
                "search_work",
                "a_costly_filter_is_not_worked_off_where_requests_are_read",
            ),
            ("directory", "search_work", "the_work_of_a_search_is_limited_by_who_asks"),
            ("directory", "search_work", "the_time_is_looked_at_while_one_entry_is_tested"),
        ],
    },
    Promise {
        against: Strangers,
        says: "Sorting and in-chain terms (1.2.840.113556.1.4.1941) are bounded in \
               work, memory and threads as every search is, and nobody has all threads \
               of the scan pool at once where there are several",
        tests: &[
            ("directory", "search_work", "sorting_is_work"),
            ("directory", "search_work", "the_time_is_looked_at_while_keys_are_taken"),
            ("directory", "sorting", "what_is_sorted_in_memory_is_bounded"),
            ("directory", "chains", "a_filter_has_a_limited_number_of_chains"),
            (
                "directory",
                "chains",
                "a_chain_that_no_index_helps_is_refused_where_a_search_would_be",
            ),
            ("directory", "chains", "the_chains_of_a_filter_share_their_entries"),
            ("directory", "chains", "the_chains_of_a_filter_share_their_octets"),
            ("directory", "chains", "what_a_chain_looks_at_is_work_of_the_search"),
            ("directory", "chains", "a_chain_holds_its_thread_for_a_moment_only"),
            ("server", "fair_queue::tests", "nobody_has_all_threads_at_once"),
            ("server", "tests::stalled", "one_who_asks_for_much_leaves_a_thread_to_others"),
            ("server", "fair_queue::tests", "what_was_held_back_finds_a_thread_when_a_turn_ends"),
            (
                "server",
                "memory::tests",
                "what_a_long_job_used_is_given_back_when_its_thread_is_idle",
            ),
        ],
    },
    Promise {
        against: Strangers,
        says: "Strangers cannot take the places of the local administrator, nor keep \
               one by saying nothing",
        tests: &[
            (
                "server",
                "tests::limits",
                "who_takes_all_places_does_not_keep_the_local_administrator_out",
            ),
            ("server", "tests::limits", "a_stranger_who_asks_nothing_gives_the_place_back"),
            (
                "server",
                "tests::strangers",
                "strangers_that_take_all_places_do_not_keep_the_administrator_out",
            ),
            ("server", "tests::strangers", "where_all_places_are_taken_a_stranger_gives_up_his"),
            (
                "server",
                "tests::strangers",
                "a_connection_in_its_handshake_gives_up_its_place_as_well",
            ),
            ("server", "places::tests", "of_addresses_with_one_each_the_first_that_is_silent_goes"),
        ],
    },
    Promise {
        against: SignedIn,
        says: "Nothing that a client keeps for the server (cookies of pages, contexts \
               of list views, names of transactions) tells by its octets or its length \
               how many entries, changes, connections or transactions there are, or a \
               value",
        tests: &[
            ("directory", "paging", "a_cookie_does_not_tell_how_many_entries_there_are_in_between"),
            (
                "directory",
                "sorting",
                "cookies_and_contexts_tell_neither_keys_nor_places_nor_changes",
            ),
            (
                "directory",
                "request::cookie::tests",
                "cookies_of_one_kind_are_equally_long_and_never_equal",
            ),
            (
                "directory",
                "request::cookie::tests",
                "the_octets_of_a_cookie_tell_nothing_of_its_content",
            ),
            ("directory", "transactions", "the_name_of_a_transaction_tells_nothing"),
        ],
    },
    Promise {
        against: SignedIn,
        says: "A cookie is of use only for the search and the identity that it was \
               given for, and in the process that gave it",
        tests: &[
            (
                "directory",
                "request::cookie::tests",
                "a_cookie_opens_as_what_it_was_sealed_as_and_for_what_it_was_bound_to",
            ),
            ("directory", "paging", "an_altered_cookie_is_refused"),
            ("directory", "paging", "a_cookie_of_another_search_is_refused"),
            ("directory", "paging", "a_cookie_of_another_asker_is_refused"),
            ("directory", "paging", "a_cookie_of_an_earlier_process_is_refused"),
            ("directory", "sorting", "cookies_and_contexts_are_of_one_list_and_asker"),
            ("directory", "request::cookie::tests", "no_octets_open"),
        ],
    },
    Promise {
        against: SignedIn,
        says: "What of an ACI nobody can answer (an attribute or rule that the schema \
               lacks, a value that is not of the syntax or no name, a group whose \
               members cannot be found out) allows nothing and lifts no deny",
        tests: &[
            (
                "aci",
                "decide::tests::cases",
                "a_deny_that_cannot_be_answered_denies_and_an_allow_allows_nothing",
            ),
            (
                "directory",
                "access",
                "a_group_whose_members_cannot_be_found_out_lifts_no_deny_and_gives_nothing",
            ),
        ],
    },
    Promise {
        against: SignedIn,
        says: "A value or an entry that the ACIs hide is told by no operation, control, \
               count, order or time limit",
        tests: &[
            (
                "directory",
                "leaks::random",
                "every_way_to_see_an_entry_tells_what_the_plain_evaluator_allows",
            ),
            (
                "directory",
                "leaks::whole_entries",
                "a_deny_without_attributes_hides_an_entry_in_every_way",
            ),
            (
                "directory",
                "leaks::whole_entries",
                "a_count_at_the_most_tells_of_no_hidden_entry_elsewhere",
            ),
            (
                "directory",
                "leaks::whole_entries",
                "a_search_of_a_part_opens_nothing_to_a_search_of_the_whole",
            ),
            ("directory", "leaks", "searches_tell_what_the_naive_evaluator_allows"),
            ("directory", "leaks::controls", "no_control_returns_what_may_not_be_read"),
            (
                "directory",
                "leaks::controls",
                "limits_tell_nothing_of_values_that_may_not_be_searched",
            ),
            ("directory", "leaks::limits", "limits_are_the_same_whatever_is_hidden"),
            (
                "directory",
                "leaks::limits",
                "a_refusal_counts_nothing_by_values_that_may_not_be_searched",
            ),
            ("directory", "chains", "hidden_entries_do_not_count_for_a_chain"),
            (
                "directory",
                "leaks::whole_entries",
                "what_a_deny_without_attributes_hides_leads_nowhere",
            ),
            ("directory", "leaks", "what_may_not_be_known_cannot_be_told_from_what_is_not_there"),
        ],
    },
    Promise {
        against: SignedIn,
        says: "What is secret is given by none of the default ACIs, also when the \
               schema says so later; an ACI of one's own has to give it",
        tests: &[
            ("directory", "readers", "a_public_directory_keeps_its_secrets_too"),
            ("directory", "readers", "a_definition_makes_a_type_secret_at_once"),
            ("aci", "tests", "only_root_sees_passwords"),
        ],
    },
    Promise {
        against: SignedIn,
        says: "A password that was reset signs nobody in, under whatever option or name \
               it was kept",
        tests: &[
            ("directory", "password_cache", "a_changed_password_ends_the_old_one_at_once"),
            (
                "directory",
                "password_cache",
                "an_entry_has_nothing_of_another_that_had_its_name_or_its_value",
            ),
            (
                "directory",
                "password_changes",
                "what_an_import_brought_under_an_option_signs_nobody_in_and_goes_with_the_password",
            ),
            (
                "directory",
                "password_changes",
                "guesses_of_the_old_password_in_a_modify_count_as_failures",
            ),
            ("directory", "password_changes", "the_history_is_no_way_to_guess"),
            ("directory", "password_changes", "whether_a_password_was_used_is_told_last"),
            ("directory", "password_changes", "a_hash_is_no_proof_of_the_old_password"),
            (
                "directory",
                "password_changes",
                "the_own_password_is_held_to_the_rules_by_who_sets_those_of_others",
            ),
            ("directory", "sign_ins", "keys_that_were_replaced_during_an_exchange_prove_nothing"),
            (
                "directory",
                "binds_under_policy",
                "a_password_that_was_reset_gives_way_to_another_one",
            ),
        ],
    },
    Promise {
        against: SignedIn,
        says: "Power ends with its reason: privilege, account, entry or name",
        tests: &[
            ("server", "tests::rechecks", "a_privilege_that_is_taken_is_gone_from_its_sessions"),
            ("server", "tests::rechecks", "what_is_under_way_with_a_privilege_that_is_taken_ends"),
            ("server", "tests::rechecks", "a_session_ends_with_its_entry_and_with_its_account"),
            (
                "server",
                "tests::rechecks",
                "a_session_goes_with_its_entry_to_another_name_and_takes_over_none",
            ),
            (
                "directory",
                "identities",
                "a_session_that_acts_as_another_ends_with_whoever_proved_it",
            ),
            ("directory", "sign_ins", "a_privilege_that_was_taken_during_an_exchange_is_gone"),
            ("directory", "sign_ins", "an_exchange_follows_its_entry_to_another_name"),
            ("directory", "sign_ins", "an_exchange_has_a_time_limit"),
            (
                "directory",
                "parking",
                "a_search_for_somebody_else_ends_with_their_power_and_with_the_power_to_act_so",
            ),
        ],
    },
    Promise {
        against: SignedIn,
        says: "ACIs hold as long as what they guard is there, also in the moment of its \
               rename or delete, and for a search that goes on after a pause",
        tests: &[
            (
                "directory",
                "acis_in_time",
                "an_entry_with_acis_is_renamed_and_they_go_with_it_at_once",
            ),
            (
                "directory",
                "acis_in_time",
                "a_tree_is_deleted_and_its_acis_guard_it_until_it_is_gone",
            ),
            ("directory", "parking", "what_may_not_be_seen_any_more_is_not_sent"),
            (
                "directory",
                "parking",
                "a_search_that_parks_after_each_entry_answers_as_if_it_had_not",
            ),
        ],
    },
    Promise {
        against: SignedIn,
        says: "Sessions of any requests, in any order and cut anywhere, are answered \
               once and shown no secret",
        tests: &[(
            "directory",
            "fuzzed_sessions",
            "sessions_of_any_requests_are_answered_once_and_shown_no_secret",
        )],
    },
    Promise {
        against: SignedIn,
        says: "Who lacks the privilege sees no sessions of others, and closes none",
        tests: &[
            ("server", "tests::sessions", "who_may_not_neither_sees_sessions_nor_closes_one"),
            ("server", "tests::sessions", "names_that_are_of_no_session_close_nothing"),
        ],
    },
    Promise {
        against: Delegated,
        says: "Who may write entries or reset passwords takes over no account that has \
               privileges, and by nothing but its name any other: not by a transaction, \
               a type of one's own, what signs in, or a policy",
        tests: &[
            ("directory", "", "every_dialogue_goes_as_written"),
            ("directory", "identities", "nobody_becomes_another_by_giving_the_other_the_own_name"),
            ("directory", "identities", "a_transaction_has_no_power_that_was_taken_meanwhile"),
            (
                "directory",
                "rules_within",
                "names_that_are_swapped_in_a_transaction_open_no_subtree",
            ),
            (
                "directory",
                "rules_within",
                "what_is_read_after_a_rename_is_guarded_by_the_acis_that_went_with_it",
            ),
            (
                "directory",
                "rules_within",
                "a_group_that_was_left_in_a_transaction_gives_nothing_in_it",
            ),
            ("directory", "identities", "another_spelling_of_the_name_takes_nothing"),
            (
                "directory",
                "identities",
                "who_writes_names_gives_none_to_an_entry_with_more_privileges",
            ),
            (
                "directory",
                "identities",
                "who_renames_a_superior_moves_no_entry_with_more_privileges",
            ),
            (
                "directory",
                "identities",
                "who_resets_passwords_resets_none_of_an_entry_with_more_privileges",
            ),
            (
                "directory",
                "identities",
                "who_acts_as_an_entry_with_privileges_gives_it_no_other_name",
            ),
            ("directory", "powers", "what_the_server_acts_on_has_no_derived_types"),
            ("directory", "powers", "what_only_the_server_changes_stays_so_by_another_definition"),
            ("directory", "powers", "an_account_is_no_group_whatever_it_holds"),
            ("directory", "powers", "a_rename_lifts_no_aci_that_names_its_target"),
            ("directory", "powers", "a_rename_takes_no_place_that_an_aci_names"),
            (
                "directory",
                "powers",
                "a_new_entry_has_no_role_and_no_limit_that_its_author_could_not_give",
            ),
            (
                "directory",
                "password_policy::subtree::tests",
                "which_entries_are_in_it_says_nothing_of_what_is_secret",
            ),
            ("directory", "powers", "who_changes_the_schema_gives_no_power_by_it"),
            ("directory", "powers", "the_account_of_one_with_more_privileges_stays_as_it_is"),
            ("directory", "powers", "people_do_not_choose_which_policy_governs_them"),
            ("directory", "powers", "an_update_means_what_its_names_meant_when_it_was_read"),
            ("directory", "powers", "a_rename_makes_no_entry_one_of_another_kind"),
            ("directory", "powers", "who_may_join_a_list_does_not_rename_it"),
            ("directory", "powers", "who_writes_member_urls_learns_no_secret"),
            ("directory", "powers", "an_entry_whose_name_became_long_keeps_its_acis_for_itself"),
        ],
    },
    Promise {
        against: Delegated,
        says: "Who resets some passwords learns nothing of accounts that are hidden",
        tests: &[(
            "directory",
            "leaks::controls",
            "who_may_reset_passwords_is_told_of_no_hidden_account",
        )],
    },
    Promise {
        against: DiskHolder,
        says: "What was acknowledged is there after a crash, and damage is a sentence, \
               never a silent loss",
        tests: &[
            ("directory", "durable", "a_power_cut_loses_nothing_that_was_acknowledged"),
            ("directory", "durable", "a_damaged_journal_is_no_silent_start"),
            ("history", "recovery::tests", "no_power_cut_is_taken_for_a_loss"),
            (
                "journal",
                "",
                "after_a_failed_sync_the_medium_is_read_and_not_the_memory_of_the_system",
            ),
            ("journal", "", "a_group_that_was_written_in_part_is_nothing"),
        ],
    },
    Promise {
        against: DiskHolder,
        says: "A cut data file and missing segments of the journal are refused with \
               what is missing, and given up only when asked",
        tests: &[
            ("store", "data_file::tests", "a_cut_file_is_refused_wherever_it_is_cut"),
            ("store", "data_file::tests", "a_page_of_zeros_is_found_by_a_check"),
            ("journal", "", "whichever_segments_at_the_end_are_missing_is_damage"),
            ("journal", "", "each_missing_segment_that_is_needed_is_damage"),
            ("journal", "", "a_cut_segment_is_damage_wherever_it_is_cut"),
            ("roster", "", "a_data_file_that_was_cut_is_refused_with_a_sentence"),
            ("roster", "", "lost_segments_are_told_and_only_given_up_when_asked"),
        ],
    },
];
