//! Metrics of the sinks: what is sent elsewhere, and what keeps it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::metrics::scrape::Scrape;
use crate::metrics::table::{Kind, MONITOR_ONLY, Metric, Samples};
use crate::sinks::{SinkFigures, SinkState};

/// The rows.
pub(super) const ROWS: &[Metric] = &[
    Metric::new(
        "roster_sink_state",
        "cn=sinks",
        "roster-sink-state",
        "What a sink does: running, waiting (it tries again after a while), stopped (until it is \
         set up anew), standby (another server of the cluster has it at work).",
        |scrape, out| {
            for (name, figures) in scrape.sinks() {
                out.labelled(&[&name, figures.state().0.word()], 1);
            }
        },
    )
    .of_kind(Kind::Info)
    .by_entry(&["sink", "state"]),
    Metric::new(
        MONITOR_ONLY,
        "cn=sinks",
        "roster-sink-kind",
        "What a sink sends to.",
        |scrape, out| {
            for (name, figures) in scrape.sinks() {
                out.labelled(&[&name, figures.kind], 1);
            }
        },
    )
    .of_kind(Kind::Info)
    .by_entry(&["sink", "kind"]),
    Metric::new(
        MONITOR_ONLY,
        "cn=sinks",
        "roster-sink-error",
        "What keeps a sink, if anything does.",
        |scrape, out| {
            for (name, figures) in scrape.sinks() {
                let (_, why) = figures.state();
                if !why.is_empty() {
                    out.labelled(&[&name, &why], 1);
                }
            }
        },
    )
    .of_kind(Kind::Info)
    .by_entry(&["sink", "error"]),
    Metric::new(
        "roster_sink_lag_changes",
        "cn=sinks",
        "roster-sink-lag-changes",
        "Changes of the directory behind the one up to which a sink was told, its own or not.",
        |scrape, out| {
            let last = scrape.directory().changes().last().0;
            for (name, figures) in at_work(scrape) {
                let position = figures.position.load(Ordering::Relaxed);
                out.labelled(&[&name], last.saturating_sub(position));
            }
        },
    )
    .by_entry(&["sink"]),
    Metric::new(
        "roster_sink_lag_seconds",
        "cn=sinks",
        "roster-sink-lag-us",
        "Time since the oldest change was made that a sink is being told; 0 if there is none.",
        |scrape, out| {
            let now = scrape.now();
            for (name, figures) in at_work(scrape) {
                out.labelled(&[&name], figures.lag_us(now));
            }
        },
    )
    .by_entry(&["sink"]),
    Metric::new(
        "roster_sink_sent_total",
        "cn=sinks",
        "roster-sink-sent",
        "Messages that the target of a sink has confirmed.",
        |scrape, out| count(scrape, out, |figures| &figures.sent),
    )
    .by_entry(&["sink"]),
    Metric::new(
        "roster_sink_failed_total",
        "cn=sinks",
        "roster-sink-failed",
        "Attempts to send that failed.",
        |scrape, out| count(scrape, out, |figures| &figures.failed),
    )
    .by_entry(&["sink"]),
    Metric::new(
        "roster_sink_dead_letters_total",
        "cn=sinks",
        "roster-sink-dead-letters",
        "Messages that the target of a sink refused for good, and that were left out.",
        |scrape, out| count(scrape, out, |figures| &figures.dead),
    )
    .by_entry(&["sink"]),
    Metric::new(
        "roster_sink_missing_changes_total",
        "cn=sinks",
        "roster-sink-missing-changes",
        "Changes that were not kept any more when a sink was to be told of them.",
        |scrape, out| count(scrape, out, |figures| &figures.missing),
    )
    .by_entry(&["sink"]),
    Metric::new(
        MONITOR_ONLY,
        "cn=sinks",
        "roster-sink-position",
        "Number of the change up to which a sink was told.",
        |scrape, out| {
            for (name, figures) in at_work(scrape) {
                out.labelled(&[&name], figures.position.load(Ordering::Relaxed));
            }
        },
    )
    .by_entry(&["sink"]),
];

/// The sinks that this server has at work.
fn at_work(scrape: &Scrape<'_>) -> Vec<(String, std::sync::Arc<SinkFigures>)> {
    let mut all = scrape.sinks();
    all.retain(|(_, figures)| figures.state().0 != SinkState::Standby);
    all
}

fn count(scrape: &Scrape<'_>, out: &mut Samples, number: fn(&SinkFigures) -> &AtomicU64) {
    for (name, figures) in scrape.sinks() {
        out.labelled(&[&name], number(&figures).load(Ordering::Relaxed));
    }
}
