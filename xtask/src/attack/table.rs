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
                "directory",
                "import::tests",
                "data_with_access_rules_of_their_own_leave_the_directory_closed",
            ),
            ("directory", "import::tests", "an_aci_that_means_something_else_here_is_warned_of"),
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
        says: "Neither what a length claims nor what a client does not read takes \
               memory beyond limits",
        tests: &[
            ("server", "tests::limits", "what_a_length_claims_is_not_allocated"),
            (
                "server",
                "tests::slow_readers",
                "a_client_that_takes_nothing_is_not_read_on_beyond_its_output",
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
        ],
    },
    Promise {
        against: SignedIn,
        says: "A value or an entry that the ACIs hide is told by no operation, \
               control, count, order or time limit",
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
            ("directory", "leaks", "what_may_not_be_known_cannot_be_told_from_what_is_not_there"),
        ],
    },
    Promise {
        against: SignedIn,
        says: "What is secret is read by nobody without an ACI that names it, also \
               when the schema says so later",
        tests: &[
            ("directory", "readers", "a_public_directory_keeps_its_secrets_too"),
            ("directory", "readers", "a_definition_makes_a_type_secret_at_once"),
            ("aci", "tests", "only_root_sees_passwords"),
        ],
    },
    Promise {
        against: SignedIn,
        says: "A password that was reset signs nobody in, under whatever option or \
               name it was kept",
        tests: &[
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
        ],
    },
    Promise {
        against: Delegated,
        says: "Who may write entries takes over no account: not by a rename, a name, a \
               transaction or what signs in",
        tests: &[
            ("directory", "", "every_dialogue_goes_as_written"),
            ("directory", "identities", "nobody_becomes_another_by_giving_the_other_the_own_name"),
            ("directory", "identities", "a_transaction_has_no_power_that_was_taken_meanwhile"),
            ("directory", "identities", "another_spelling_of_the_name_takes_nothing"),
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
        ],
    },
];
