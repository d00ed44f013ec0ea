//! What clients and connections may rely on beyond the dialogue scripts: pages, limits, the write
//! queue, transactions, subtree deletes, passwords, the schema, indexes, sessions.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod access;
mod accounts;
mod acis_in_time;
mod aliases;
mod assignments;
mod authentication;
mod binds_under_policy;
mod canceling;
mod chains;
mod change_members;
mod changelog;
mod changelog_cookies;
mod constraints;
mod counting;
mod dereference;
mod durable;
mod etag;
mod explain;
mod followed;
mod following;
mod forwarding;
mod fuzzed_sessions;
mod group_limits;
mod group_policies;
mod guesses;
mod identities;
mod indexes_online;
mod join;
mod joined;
mod large_entries;
mod large_groups;
mod leaks;
mod limits;
mod lost_rules;
mod memberships;
mod naming_contexts;
mod octet_strings;
mod paging;
mod parking;
mod password_cache;
mod password_changes;
mod passwords;
mod policies;
mod powers;
mod read_entry;
mod read_levels;
mod readers;
mod record_level;
mod reference_lists;
mod references;
mod referrals;
mod rules_within;
mod schema_modes;
mod schema_online;
mod search_work;
mod session_monitor;
mod sessions;
mod sign_ins;
mod sign_ins_of_a_cluster;
mod sorting;
mod stopping;
mod streams;
mod streams_behind;
mod subtree_delete;
#[path = "../support/mod.rs"]
mod support;
mod switched_off;
mod through_a_follower;
mod transactions;
mod unindexed;
mod uniqueness;
mod values_apart;
mod verify;
mod virtual_attributes;
mod virtual_trees;
mod write_turns;
mod writes;

use support::{Client, SUFFIX, Served};

/// Adds `count` devices below the suffix, `cn=device 0` and on; the description is as given.
fn add_devices(served: &Served, count: usize, description: &str) {
    let mut root = served.root();
    for number in 0..count {
        let name = format!("cn=device {number},{SUFFIX}");
        add_device(&mut root, &name, description);
    }
}

fn add_device(root: &mut Client, name: &str, description: &str) {
    let answer =
        root.try_add(name, &[("objectClass", &["device"]), ("description", &[description])]);
    assert_eq!(answer.code(), ldap::result::ResultCode::Success, "{name}: {}", answer.diagnostic);
}
