//! The cluster that the server is a member of, as far as this server knows. Without one there are
//! no values.

use directory::ClusterState;

use super::super::scrape::Scrape;
use super::super::table::{Kind, Metric, Samples};

pub(super) const ROWS: &[Metric] = &[
    Metric::new(
        "roster_cluster_role",
        "cn=cluster",
        "roster-cluster-role",
        "What this member is: leader, follower, learner, failed, removed, or none while nobody \
         leads.",
        |scrape, out| {
            if let Some(state) = scrape.cluster() {
                out.labelled(&[state.role], 1);
            }
        },
    )
    .of_kind(Kind::Info)
    .by(&["role"]),
    Metric::new(
        "roster_cluster_member",
        "cn=cluster",
        "roster-cluster-member",
        "The number of this member.",
        |scrape, out| of_cluster(scrape, out, |state| Some(state.member)),
    ),
    Metric::new(
        "roster_cluster_leader",
        "cn=cluster",
        "roster-cluster-leader",
        "The number of the member that leads, as far as this one knows.",
        |scrape, out| of_cluster(scrape, out, |state| state.leader),
    ),
    Metric::new(
        "roster_cluster_term",
        "cn=cluster",
        "roster-cluster-term",
        "The term that this member is in. Each election begins another one.",
        |scrape, out| of_cluster(scrape, out, |state| Some(state.term)),
    ),
    Metric::new(
        "roster_cluster_applied_lsn",
        "cn=cluster",
        "roster-cluster-applied-lsn",
        "The number of the last change that is visible here.",
        |scrape, out| of_cluster(scrape, out, |state| Some(state.applied_lsn)),
    ),
    Metric::new(
        "roster_cluster_committed_index",
        "cn=cluster",
        "roster-cluster-committed-index",
        "The index of the last entry of the log that is known here to be committed.",
        |scrape, out| of_cluster(scrape, out, |state| Some(state.committed_index)),
    ),
    Metric::new(
        "roster_cluster_last_index",
        "cn=cluster",
        "roster-cluster-last-index",
        "The index of the last entry of the log here.",
        |scrape, out| of_cluster(scrape, out, |state| Some(state.last_index)),
    ),
    Metric::new(
        "roster_cluster_unconfirmed_entries",
        "cn=cluster",
        "roster-cluster-unconfirmed",
        "Entries of the log that another member has not confirmed; only the leader knows.",
        |scrape, out| {
            for (member, entries) in scrape.cluster().iter().flat_map(|state| &state.unconfirmed) {
                out.labelled(&[&member.to_string()], *entries);
            }
        },
    )
    .by(&["member"]),
    Metric::new(
        "roster_cluster_quorum_age_seconds",
        "cn=cluster",
        "roster-cluster-quorum-us",
        "How long ago a majority answered; only the leader knows.",
        |scrape, out| of_cluster(scrape, out, |state| state.quorum_age_us),
    ),
    Metric::new(
        "roster_cluster_caught_up",
        "cn=cluster",
        "roster-cluster-caught-up",
        "1 if this member has had all that was acknowledged, at some moment since its start.",
        |scrape, out| of_cluster(scrape, out, |state| Some(u64::from(state.has_caught_up))),
    ),
    Metric::new(
        "roster_cluster_voids_total",
        "cn=cluster",
        "roster-cluster-voids",
        "Changes without effect, because they were decided before the lead was lost.",
        |scrape, out| of_cluster(scrape, out, |state| Some(state.voids)),
    ),
    Metric::new(
        "roster_cluster_alike_lsn",
        "cn=cluster",
        "roster-cluster-alike-lsn",
        "The last change after which this member was found to have the same data as others.",
        |scrape, out| of_cluster(scrape, out, |state| state.alike_lsn),
    ),
    Metric::new(
        "roster_cluster_data_differ",
        "cn=cluster",
        "roster-cluster-data-differ",
        "1 if members were found to have different data.",
        |scrape, out| of_cluster(scrape, out, |state| Some(u64::from(state.difference.is_some()))),
    ),
    Metric::new(
        "roster_cluster_versions_differ",
        "cn=cluster",
        "roster-cluster-versions-differ",
        "1 if others speak other versions than this member of what members say to each other.",
        |scrape, out| of_cluster(scrape, out, |state| Some(u64::from(!state.versions.is_empty()))),
    ),
    Metric::new(
        "roster_cluster_lists_differ",
        "cn=cluster",
        "roster-cluster-lists-differ",
        "1 if others list other members than this one does.",
        |scrape, out| of_cluster(scrape, out, |state| Some(u64::from(!state.listings.is_empty()))),
    ),
    Metric::new(
        "roster_cluster_unfit",
        "cn=cluster",
        "roster-cluster-unfit",
        "1 if something speaks against this member's leading: its disk, its overlay or its clock.",
        |scrape, out| of_cluster(scrape, out, |state| Some(u64::from(state.unfit.is_some()))),
    ),
    Metric::new(
        "roster_cluster_copy_received_bytes",
        "cn=cluster",
        "roster-cluster-copy-bytes",
        "Octets that are there of the copy of the data that this member is sent.",
        |scrape, out| of_cluster(scrape, out, |state| Some(state.receives?.bytes)),
    ),
    Metric::new(
        "roster_cluster_copy_bytes",
        "cn=cluster",
        "roster-cluster-copy-of-bytes",
        "How long the copy of the data is that this member is sent.",
        |scrape, out| of_cluster(scrape, out, |state| Some(state.receives?.of_bytes)),
    ),
    Metric::new(
        "roster_cluster_copy_sent_bytes",
        "cn=cluster",
        "roster-cluster-copy-sent-bytes",
        "Octets that another member has of the copy of the data that this one sends it.",
        |scrape, out| {
            for copy in scrape.cluster().iter().flat_map(|state| &state.sends) {
                out.labelled(&[&copy.member.to_string()], copy.bytes);
            }
        },
    )
    .by(&["member"]),
    Metric::new(
        "roster_cluster_verify_running",
        "cn=cluster",
        "roster-cluster-verify-running",
        "1 if a comparison of the data that was begun here is under way.",
        |scrape, out| of_cluster(scrape, out, |state| Some(u64::from(state.verified?.is_running))),
    ),
    Metric::new(
        "roster_cluster_verify_entries",
        "cn=cluster",
        "roster-cluster-verify-entries",
        "Entries that the last comparison of the data which was begun here has compared.",
        |scrape, out| of_cluster(scrape, out, |state| Some(state.verified?.entries)),
    ),
    Metric::new(
        "roster_cluster_verify_differing",
        "cn=cluster",
        "roster-cluster-verify-differing",
        "Entries, settings and numbers of attributes that it found to differ.",
        |scrape, out| of_cluster(scrape, out, |state| Some(state.verified?.differing)),
    ),
    Metric::new(
        "roster_cluster_verify_not_compared",
        "cn=cluster",
        "roster-cluster-verify-not-compared",
        "Members that it did not compare, or not to the end.",
        |scrape, out| of_cluster(scrape, out, |state| Some(state.verified?.not_compared)),
    ),
    Metric::new(
        "roster_cluster_verify_age_seconds",
        "cn=cluster",
        "roster-cluster-verify-age-us",
        "How long ago it was done; missing if it is not, or was ended before its end.",
        |scrape, out| of_cluster(scrape, out, |state| state.verified?.age_us),
    ),
    Metric::new(
        "roster_cluster_failed",
        "cn=cluster",
        "roster-cluster-failed",
        "1 if the log has failed: this member takes no part until it is restarted.",
        |scrape, out| of_cluster(scrape, out, |state| Some(u64::from(state.error.is_some()))),
    ),
];

fn of_cluster(scrape: &Scrape<'_>, out: &mut Samples, of: impl Fn(&ClusterState) -> Option<u64>) {
    out.known(scrape.cluster().and_then(of));
}
