//! `cn=cluster,cn=monitor`: this server as a member of a cluster, and an entry for each member. Who
//! runs the cluster tells; without one there are no entries.
//!
//! `cn=replication,cn=monitor` has the same of each member under the names that administrators and
//! scripts of OpenDJ know.

use ldap::message::Scope;
use schema::{DnKey, Entry};

use crate::config::monitor_sources::{
    ClusterCopyState, ClusterMemberState, ClusterState, ClusterVerified,
};
use crate::read::virtual_tree::branch::BranchSource;
use crate::read::virtual_tree::names::{CLUSTER_MONITOR_DN, REPLICATION_MONITOR_DN};
use crate::request::refusal::Refusal;

/// Whether a worker should not make the entries: other members are asked for theirs.
pub(crate) fn is_slow(source: &BranchSource<'_>) -> bool {
    source.directory.monitors.cluster.get().is_some() && wants_members(source)
}

/// Makes the entries, if this server is a member of a cluster.
pub(crate) fn entries(source: &BranchSource<'_>) -> Result<Vec<Entry>, Refusal> {
    let Some(teller) = source.directory.monitors.cluster.get() else { return Ok(Vec::new()) };
    let Some(state) = (teller.own)() else { return Ok(Vec::new()) };
    let mut made = vec![own(source, state)];
    if wants_members(source) {
        made.extend((teller.members)().into_iter().map(|state| member(source, state)));
    }
    Ok(made)
}

/// Whether a worker should not make the entries under OpenDJ's names.
pub(crate) fn is_slow_replication(source: &BranchSource<'_>) -> bool {
    source.directory.monitors.cluster.get().is_some()
}

/// Makes the entries under OpenDJ's names.
pub(crate) fn replication(source: &BranchSource<'_>) -> Result<Vec<Entry>, Refusal> {
    let Some(teller) = source.directory.monitors.cluster.get() else { return Ok(Vec::new()) };
    let mut made = vec![source.entry(REPLICATION_MONITOR_DN, &["top", "extensibleObject"]).done()];
    made.extend((teller.members)().into_iter().map(|state| replica(source, &state)));
    Ok(made)
}

fn replica(source: &BranchSource<'_>, state: &ClusterMemberState) -> Entry {
    let known = |number: Option<u64>| number.map(|number| number.to_string());
    source
        .entry(
            &format!("cn={},{REPLICATION_MONITOR_DN}", state.member),
            &["top", "extensibleObject"],
        )
        .value("ds-mon-server-id", &state.member.to_string())
        .value("ds-mon-status", replica_status(state))
        .values("missing-changes", known(state.lag))
        .values("ds-mon-current-delay", known(state.lag_us.map(|us| us.div_ceil(1_000))))
        .done()
}

/// What OpenDJ would say of it.
fn replica_status(state: &ClusterMemberState) -> &'static str {
    match () {
        () if state.diverged_lsn.is_some() => "Bad generation id",
        () if state.copy.is_some() => "Full update",
        () if state.applied_lsn.is_none() => "Not connected",
        () if state.has_failed || state.lag.is_some_and(|lag| lag > DEGRADED_LAG) => "Degraded",
        () => "Normal",
    }
}

/// OpenDJ calls one degraded that lacks more changes, by default.
const DEGRADED_LAG: u64 = 5_000;

/// Whether more is asked for than what this server knows itself.
fn wants_members(source: &BranchSource<'_>) -> bool {
    let is_own =
        DnKey::from_text(source.schema, CLUSTER_MONITOR_DN).is_ok_and(|key| key == *source.base);
    !(is_own && source.scope == Scope::Base)
}

fn own(source: &BranchSource<'_>, state: ClusterState) -> Entry {
    let sent = |it: &ClusterCopyState| format!("{} {} {}", it.member, it.bytes, it.of_bytes);
    let sent: Vec<String> = state.sends.iter().map(sent).collect();
    let received = |of: fn(&ClusterCopyState) -> u64| state.receives.as_ref().map(of);
    let verified = |of: fn(&ClusterVerified) -> Option<u64>| {
        state.verified.as_ref().and_then(of).map(|number| number.to_string())
    };
    let unconfirmed = state.unconfirmed.iter().map(|(id, entries)| format!("{id} {entries}"));
    source
        .entry(CLUSTER_MONITOR_DN, &["top", "extensibleObject"])
        .value("roster-cluster-member", &state.member.to_string())
        .value("roster-cluster-role", state.role)
        .values("roster-cluster-leader", state.leader.map(|id| id.to_string()))
        .value("roster-cluster-term", &state.term.to_string())
        .value("roster-cluster-applied-lsn", &state.applied_lsn.to_string())
        .value("roster-cluster-committed-index", &state.committed_index.to_string())
        .value("roster-cluster-last-index", &state.last_index.to_string())
        .values("roster-cluster-unconfirmed", unconfirmed)
        .values("roster-cluster-quorum-us", state.quorum_age_us.map(|us| us.to_string()))
        .value("roster-cluster-caught-up", if state.has_caught_up { "1" } else { "0" })
        .value("roster-cluster-voids", &state.voids.to_string())
        .values("roster-cluster-alike-lsn", state.alike_lsn.map(|lsn| lsn.to_string()))
        .value("roster-cluster-data-differ", if state.difference.is_some() { "1" } else { "0" })
        .values("roster-cluster-difference", state.difference)
        .value("roster-cluster-unfit", if state.unfit.is_some() { "1" } else { "0" })
        .values("roster-cluster-unfit-reason", state.unfit)
        .value("roster-cluster-versions-differ", if state.versions.is_empty() { "0" } else { "1" })
        .values("roster-cluster-versions", state.versions)
        .value("roster-cluster-lists-differ", if state.listings.is_empty() { "0" } else { "1" })
        .values("roster-cluster-lists", state.listings)
        .values("roster-cluster-copy-from", received(|it| it.member).map(|it| it.to_string()))
        .values("roster-cluster-copy-bytes", received(|it| it.bytes).map(|it| it.to_string()))
        .values("roster-cluster-copy-of-bytes", received(|it| it.of_bytes).map(|it| it.to_string()))
        .values("roster-cluster-copy-sent-bytes", sent)
        .values("roster-cluster-copy-hindered", state.copy_hindrances)
        .values("roster-cluster-verify-running", verified(|it| Some(u64::from(it.is_running))))
        .values("roster-cluster-verify-entries", verified(|it| Some(it.entries)))
        .values("roster-cluster-verify-differing", verified(|it| Some(it.differing)))
        .values("roster-cluster-verify-not-compared", verified(|it| Some(it.not_compared)))
        .values("roster-cluster-verify-age-us", verified(|it| it.age_us))
        .value("roster-cluster-failed", if state.error.is_some() { "1" } else { "0" })
        .values("roster-cluster-error", state.error)
        .done()
}

fn member(source: &BranchSource<'_>, state: ClusterMemberState) -> Entry {
    let known = |number: Option<u64>| number.map(|number| number.to_string());
    let present = |text: String| (!text.is_empty()).then_some(text);
    source
        .entry(&format!("cn={},{CLUSTER_MONITOR_DN}", state.member), &["top", "extensibleObject"])
        .value("roster-cluster-member", &state.member.to_string())
        .value("roster-cluster-role", state.role)
        .value("roster-cluster-voter", if state.is_voter { "1" } else { "0" })
        .values("roster-cluster-term", known(state.term))
        .values("roster-cluster-applied-lsn", known(state.applied_lsn))
        .values("roster-cluster-committed-index", known(state.committed_index))
        .values("roster-cluster-last-index", known(state.last_index))
        .values("roster-cluster-lag", known(state.lag))
        .values("roster-cluster-diverged-lsn", known(state.diverged_lsn))
        .values("roster-cluster-copy-bytes", known(state.copy.map(|(bytes, _)| bytes)))
        .values("roster-cluster-copy-of-bytes", known(state.copy.map(|(_, of)| of)))
        .values("roster-cluster-lag-us", known(state.lag_us))
        .values("roster-cluster-heard-us", known(state.heard_age_us))
        .values("roster-cluster-release", state.release)
        .values("roster-cluster-record-level", known(state.record_level.map(u64::from)))
        .values("roster-cluster-disk-free-bytes", known(state.disk_free_bytes))
        .values(
            "roster-cluster-certificate-days",
            state.certificate_days.map(|days| days.to_string()),
        )
        .value("roster-cluster-failed", if state.has_failed { "1" } else { "0" })
        .values("roster-cluster-address", present(state.address))
        .values("roster-cluster-url", present(state.url))
        .done()
}
