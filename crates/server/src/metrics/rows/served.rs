//! What clients asked for, and what waits.

use ldap::result::ResultCode;

use super::super::meter::{CODES, HANDSHAKES, LISTENERS, OperationSum, operation_names};
use super::super::scrape::Scrape;
use super::super::table::{Kind, Metric, Samples};

pub(super) const ROWS: &[Metric] = &[
    Metric::new(
        "roster_operations_total",
        "cn=operations",
        "roster-operation-results",
        "Completed operations, by the result code of the response; `abandoned`: no response was \
         sent; `none`: such operations have no response.",
        operations,
    )
    .by_entry(&["op", "result"])
    .total("roster-operation-count"),
    Metric::new(
        "roster_operation_duration_seconds",
        "cn=operations",
        "roster-operation",
        "Time from the last byte of a request to its response, for operations that were answered.",
        |scrape, out| {
            for (name, operation) in answered(scrape) {
                out.times(&[name], &operation.times);
            }
        },
    )
    .of_kind(Kind::Histogram)
    .by_entry(&["op"]),
    Metric::new(
        "roster_bind_failures_total",
        "cn=operations",
        "roster-bind-failures",
        "Failed binds, by the result code.",
        bind_failures,
    )
    .by(&["result"])
    .total("roster-bind-failure-count"),
    Metric::new(
        "roster_received_bytes_total",
        "cn=operations",
        "roster-received-bytes",
        "Bytes of requests, without TLS.",
        |scrape, out| out.one(scrape.sum().received_bytes),
    ),
    Metric::new(
        "roster_sent_bytes_total",
        "cn=operations",
        "roster-sent-bytes",
        "Bytes of responses, without TLS.",
        |scrape, out| out.one(scrape.sum().sent_bytes),
    ),
    Metric::new(
        "roster_search_entries_total",
        "cn=operations",
        "roster-search-entries",
        "Entries that searches returned.",
        |scrape, out| out.one(scrape.sum().entries),
    ),
    Metric::new(
        "roster_search_references_total",
        "cn=operations",
        "roster-search-references",
        "References that searches returned.",
        |scrape, out| out.one(scrape.sum().references),
    ),
    Metric::new(
        "roster_unindexed_searches_total",
        "cn=operations",
        "roster-unindexed-searches",
        "Unindexed searches that were carried out.",
        |scrape, out| out.one(scrape.directory().search_counts().unindexed),
    ),
    Metric::new(
        "roster_unindexed_searches_refused_total",
        "cn=operations",
        "roster-unindexed-searches-refused",
        "Unindexed searches that were refused.",
        |scrape, out| out.one(scrape.directory().search_counts().unindexed_refused),
    ),
    Metric::new(
        "roster_schema_violations_total",
        "cn=operations",
        "roster-schema-violations",
        "Changes that broke a rule of the schema and were accepted (`roster-schema-mode` in \
         `cn=Schema,cn=config`), by the rule.",
        |scrape, out| {
            for (rule, count) in scrape.directory().broken_rules() {
                out.labelled(&[rule], count);
            }
        },
    )
    .by(&["rule"])
    .total("roster-schema-violation-count"),
    Metric::new(
        "roster_panics_total",
        "cn=operations",
        "roster-panics",
        "Requests that ended with a bug in the server; their connections were closed.",
        |scrape, out| out.one(scrape.shared.counters.panics.value()),
    ),
    Metric::new(
        "roster_connections",
        "cn=connections",
        "roster-connections-open",
        "Open connections.",
        |scrape, out| {
            for (name, one) in LISTENERS.iter().zip(&scrape.sum().listeners) {
                out.labelled(&[name], one.accepted.saturating_sub(one.closed));
            }
        },
    )
    .by_entry(&["listener"]),
    Metric::new(
        "roster_connections_total",
        "cn=connections",
        "roster-connections-accepted",
        "Accepted connections.",
        |scrape, out| {
            for (name, one) in LISTENERS.iter().zip(&scrape.sum().listeners) {
                out.labelled(&[name], one.accepted);
            }
        },
    )
    .by_entry(&["listener"]),
    Metric::new(
        "roster_connections_refused_total",
        "cn=connections",
        "roster-connections-refused",
        "Refused connections: too many are open, or a proxy did not send the client's address.",
        |scrape, out| {
            for (name, one) in LISTENERS.iter().zip(&scrape.sum().listeners) {
                out.labelled(&[name], one.refused);
            }
        },
    )
    .by_entry(&["listener"]),
    Metric::new(
        "roster_connections_limit",
        "cn=connections",
        "roster-connections-limit",
        "Maximum of open connections (`limits.connections_max`).",
        |scrape, out| out.one(scrape.shared.limits().connections_max as u64),
    ),
    Metric::new(
        "roster_connections_replaced_total",
        "cn=connections",
        "roster-connections-replaced",
        "Connections without authentication that were replaced by another.",
        |scrape, out| out.one(scrape.shared.connection_slots.replaced.value()),
    ),
    Metric::new(
        "roster_undelivered_bytes",
        "cn=connections",
        "roster-undelivered-bytes",
        "Bytes held for clients: responses that they have not read, requests that are waiting or \
         incomplete, and updates of open transactions.",
        |scrape, out| {
            let directory = scrape.directory();
            let waiting = directory.write_queue_bytes() + directory.transaction_bytes();
            out.one((scrape.shared.budget.held().0 + waiting) as u64);
        },
    ),
    Metric::new(
        "roster_undelivered_anonymous_bytes",
        "cn=connections",
        "roster-undelivered-anonymous-bytes",
        "Part of it that is held for clients that have not authenticated.",
        |scrape, out| out.one(scrape.shared.budget.held().1 as u64),
    ),
    Metric::new(
        "roster_undelivered_closed_total",
        "cn=connections",
        "roster-undelivered-closed",
        "Connections that were closed because too much was held; each had read nothing for \
         longest.",
        |scrape, out| out.one(scrape.shared.budget.ended.value()),
    ),
    Metric::new(
        "roster_tls_handshakes_total",
        "cn=connections",
        "roster-tls-handshakes",
        "TLS handshakes, by the negotiated version, or `failed`.",
        |scrape, out| {
            for (name, count) in HANDSHAKES.iter().zip(&scrape.sum().handshakes) {
                out.labelled(&[name], *count);
            }
        },
    )
    .by(&["version"])
    .total("roster-tls-handshake-count"),
    Metric::new(
        "roster_queue_length",
        "cn=work",
        "roster-queue-length",
        "Requests that wait for the writer, for a scan thread, for a hash thread, or, in a \
         cluster, as reads for fresh data; `stream`: searches that go on with what changes.",
        |scrape, out| queues(scrape, out, |(length, _)| length),
    )
    .by_entry(&["queue"]),
    Metric::new(
        "roster_queue_limit",
        "cn=work",
        "roster-queue-limit",
        "Requests that may wait; the next one gets `busy`.",
        |scrape, out| queues(scrape, out, |(_, limit)| limit),
    )
    .by_entry(&["queue"]),
    Metric::new(
        "roster_searches_parked_total",
        "cn=work",
        "roster-searches-parked",
        "Times that a search gave up its thread because its client did not read.",
        |scrape, out| out.one(scrape.shared.counters.parked.value()),
    ),
    Metric::new(
        "roster_searches_yielded_total",
        "cn=work",
        "roster-searches-yielded",
        "Times that a long search gave up its thread because others waited, or to renew its \
         rights.",
        |scrape, out| out.one(scrape.shared.counters.yielded.value()),
    ),
    Metric::new(
        "roster_password_hash_jobs_total",
        "cn=work",
        "roster-password-hash-jobs",
        "Requests whose slow password hashes were computed on hash threads.",
        |scrape, out| out.one(scrape.shared.counters.hashes.value()),
    ),
    Metric::new(
        "roster_password_hash_seconds_total",
        "cn=work",
        "roster-password-hash-us",
        "Time that these threads spent on hashing.",
        |scrape, out| out.one(scrape.shared.counters.hash_us.value()),
    ),
    Metric::new(
        "roster_password_cache_hits_total",
        "cn=work",
        "roster-password-cache-hits",
        "Binds whose password was in the cache: no slow hash was computed.",
        |scrape, out| out.one(scrape.directory().password_cache_counts().hits),
    ),
    Metric::new(
        "roster_password_cache_misses_total",
        "cn=work",
        "roster-password-cache-misses",
        "Binds with a slow hash whose password was not in the cache or was wrong.",
        |scrape, out| out.one(scrape.directory().password_cache_counts().misses),
    ),
    Metric::new(
        "roster_password_cache_passwords",
        "cn=work",
        "roster-password-cache-passwords",
        "Verified passwords in the cache, as keyed digests.",
        |scrape, out| out.one(scrape.directory().password_cache_counts().held),
    ),
];

fn operations(scrape: &Scrape<'_>, out: &mut Samples) {
    for (name, operation) in operation_names().zip(&scrape.sum().operations) {
        for (result, count) in results(operation) {
            // Of what can be rare there is a line when there is one; success is always there, so
            // that the first one is a change.
            if count > 0 || (result == "success" && has_answer(name)) {
                out.labelled(&[name, result], count);
            }
        }
        if operation.abandoned > 0 {
            out.labelled(&[name, "abandoned"], operation.abandoned);
        }
        if operation.unanswered > 0 || !has_answer(name) {
            out.labelled(&[name, "none"], operation.unanswered);
        }
    }
}

/// Result codes by their names, each with how often it was the answer.
fn results(operation: &OperationSum) -> impl Iterator<Item = (&'static str, u64)> {
    let named = ResultCode::ALL.iter().filter_map(|code| {
        let index = usize::try_from(code.code()).ok()?;
        let count = if index < CODES - 1 { operation.results.get(index).copied() } else { None };
        Some((code.name(), count?))
    });
    let known: u64 = named.clone().map(|(_, count)| count).sum();
    let others = operation.results.iter().sum::<u64>() - known;
    named.chain([("other-code", others)])
}

/// The operations that have answers.
fn answered<'s>(scrape: &'s Scrape<'_>) -> impl Iterator<Item = (&'static str, &'s OperationSum)> {
    let all = operation_names().zip(&scrape.sum().operations);
    all.filter(|(name, operation)| has_answer(name) || operation.times.count() > 0)
}

fn has_answer(name: &str) -> bool {
    !matches!(name, "unbind" | "abandon" | "other")
}

fn bind_failures(scrape: &Scrape<'_>, out: &mut Samples) {
    let binds = operation_names().zip(&scrape.sum().operations);
    let Some((_, bind)) = binds.into_iter().find(|(name, _)| *name == "bind") else { return };
    for (result, count) in results(bind) {
        let is_failure = !matches!(result, "success" | "saslBindInProgress" | "referral");
        if is_failure && (count > 0 || result == "invalidCredentials") {
            out.labelled(&[result], count);
        }
    }
}

fn queues(scrape: &Scrape<'_>, out: &mut Samples, pick: fn((usize, usize)) -> usize) {
    let (shared, directory) = (&scrape.shared, scrape.directory());
    for (name, depth) in [
        ("write", Some(directory.write_queue_depth())),
        ("scan", Some(shared.scan_pool.depth())),
        ("hash", Some(shared.hash_pool.depth())),
        ("read", directory.waiting_reads()),
        ("stream", Some(directory.streams())),
    ] {
        if let Some(depth) = depth {
            out.labelled(&[name], pick(depth) as u64);
        }
    }
}
