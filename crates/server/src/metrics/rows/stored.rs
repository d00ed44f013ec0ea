//! What is stored, and on its way there.

use std::collections::BTreeMap;

use history::archive::ArchiveStatus;
use store::{IndexDefinition, IndexState};

use super::super::meter::micros;
use super::super::scrape::Scrape;
use super::super::table::{Metric, Samples};

pub(super) const ROWS: &[Metric] = &[
    Metric::new(
        "roster_entries",
        "cn=store",
        "roster-store-entries",
        "Entries in the directory.",
        |scrape, out| out.one(scrape.directory().store().entry_count()),
    ),
    Metric::new(
        "roster_changes_total",
        "cn=store",
        "roster-store-changes",
        "The number of the last change that clients see, counted from the directory's first.",
        |scrape, out| out.one(scrape.directory().store().published().lsn.0),
    ),
    Metric::new(
        "roster_overlay_layers",
        "cn=store",
        "roster-overlay-layers",
        "Layers of changes in memory that a read searches in addition to the database.",
        |scrape, out| out.one(scrape.overlay().layers as u64),
    ),
    Metric::new(
        "roster_overlay_bytes",
        "cn=store",
        "roster-overlay-bytes",
        "Memory of changes that are not in the database yet.",
        |scrape, out| out.one(scrape.overlay().bytes),
    ),
    Metric::new(
        "roster_overlay_limit_bytes",
        "cn=store",
        "roster-overlay-limit-bytes",
        "Maximum of that memory; at the limit, writes wait (`store.overlay_max_mib`).",
        |scrape, out| out.one(scrape.overlay().bytes_max),
    ),
    Metric::new(
        "roster_overlay_retired_bytes",
        "cn=store",
        "roster-overlay-retired-bytes",
        "Memory of layers that are in the database but still in use by a running search.",
        |scrape, out| out.one(scrape.overlay().retired_bytes),
    ),
    Metric::new(
        "roster_flushes_total",
        "cn=store",
        "roster-flushes",
        "Flushes: each writes changes from memory to the database in one transaction.",
        |scrape, out| out.one(scrape.overlay().flushes),
    ),
    Metric::new(
        "roster_flush_failures_total",
        "cn=store",
        "roster-flush-failures",
        "Failed flushes; each is tried again.",
        |scrape, out| out.one(scrape.overlay().failures),
    ),
    Metric::new(
        "roster_flush_seconds_total",
        "cn=store",
        "roster-flush-us",
        "Time that flushes took.",
        |scrape, out| out.one(micros(scrape.overlay().flushing)),
    ),
    Metric::new(
        "roster_flush_last_seconds",
        "cn=store",
        "roster-flush-last-us",
        "Time that the last flush took.",
        |scrape, out| out.one(scrape.overlay().last_flush_ms.saturating_mul(1000)),
    ),
    Metric::new(
        "roster_flush_behind_changes",
        "cn=store",
        "roster-flush-behind-changes",
        "Changes in the journal and in memory that are not in the database yet.",
        |scrape, out| {
            let store = scrape.directory().store();
            // In this order: the database is never ahead.
            let base = store.base().lsn.0;
            out.one(store.published().lsn.0.saturating_sub(base));
        },
    ),
    Metric::new(
        "roster_flush_behind_seconds",
        "cn=store",
        "roster-flush-behind-us",
        "Age of the oldest of them.",
        |scrape, out| out.one(micros(scrape.overlay().oldest_change)),
    ),
    Metric::new(
        "roster_database_map_bytes",
        "cn=store",
        "roster-database-map-bytes",
        "Address space reserved for the database: neither memory nor disk.",
        |scrape, out| out.known(scrape.base().map(|base| base.map_bytes)),
    ),
    Metric::new(
        "roster_database_used_bytes",
        "cn=store",
        "roster-database-used-bytes",
        "Used pages of the database file.",
        |scrape, out| out.known(scrape.base().map(|base| base.used_bytes)),
    ),
    Metric::new(
        "roster_database_table_bytes",
        "cn=store",
        "roster-database-table-bytes",
        "Pages that belong to tables; the other used ones are free for reuse.",
        |scrape, out| out.known(scrape.base().map(|base| base.table_bytes)),
    ),
    Metric::new(
        "roster_database_file_bytes",
        "cn=store",
        "roster-database-file-bytes",
        "Size of the database file.",
        |scrape, out| out.known(scrape.base().map(|base| base.file_bytes)),
    ),
    Metric::new(
        "roster_database_commits_total",
        "cn=store",
        "roster-database-commits",
        "Transactions of the database since it was created.",
        |scrape, out| out.known(scrape.base().map(|base| base.commits)),
    ),
    Metric::new(
        "roster_database_readers",
        "cn=store",
        "roster-database-readers",
        "Reader slots of the database that were ever used, by this process and others.",
        |scrape, out| out.known(scrape.base().map(|base| base.readers)),
    ),
    Metric::new(
        "roster_database_readers_limit",
        "cn=store",
        "roster-database-readers-limit",
        "Number of reader slots.",
        |scrape, out| out.known(scrape.base().map(|base| base.readers_max)),
    ),
    Metric::new(
        "roster_database_oldest_reader_seconds",
        "cn=store",
        "roster-database-oldest-reader-us",
        "How long a reader of this process has held pages that later transactions released.",
        |scrape, out| out.known(scrape.base().map(|base| micros(base.oldest_reader))),
    ),
    Metric::new(
        "roster_disk_free_bytes",
        "cn=store",
        "roster-disk-free-bytes",
        "Free space on the file system of the data directory.",
        |scrape, out| out.known(scrape.directory().disk_free_bytes()),
    ),
    Metric::new(
        "roster_indexes",
        "cn=store",
        "roster-indexes",
        "Indexes, by their state. `cn=index,cn=monitor` has the size of each.",
        indexes,
    )
    .by(&["state"])
    .total("roster-index-count"),
    Metric::new(
        "roster_index_lookups_total",
        "cn=store",
        "roster-index-lookups",
        "Look-ups in each index, since the start or since it was added: for parts of filters, for \
         sorted searches, and by the server itself. An index that stays at 0 is unused. The \
         filtered indexes of an attribute share one number, and so do all indexes after the first \
         511 (`others`).",
        index_lookups,
    )
    .by(&["index"])
    .total("roster-index-lookup-count"),
    Metric::new(
        "roster_dictionary_attributes",
        "cn=store",
        "roster-dictionary-attributes",
        "Attribute descriptions that entries have or had.",
        |scrape, out| out.one(scrape.directory().store().dictionary().attribute_count() as u64),
    ),
    Metric::new(
        "roster_records_compressed",
        "cn=store",
        "roster-records-compressed",
        "1 if records are compressed with a dictionary made from the entries.",
        |scrape, out| out.one(u64::from(scrape.directory().store().dictionary().compresses())),
    ),
    Metric::new(
        "roster_name_cache_entries",
        "cn=store",
        "roster-name-cache-entries",
        "Names of superiors in the name caches of the threads, as of when each was last idle.",
        |scrape, out| out.one(scrape.directory().store().remembered_names()),
    ),
    Metric::new(
        "roster_name_cache_lookups_total",
        "cn=store",
        "roster-name-cache-lookups",
        "Look-ups of names of superiors: `hit`, in the name cache of the thread; `miss`, read from \
         the tables.",
        |scrape, out| {
            let names = scrape.directory().store().name_uses();
            out.labelled(&["hit"], names.known);
            out.labelled(&["miss"], names.read);
        },
    )
    .by(&["result"])
    .total("roster-name-cache-lookup-count"),
    Metric::new(
        "roster_row_cache_lookups_total",
        "cn=store",
        "roster-row-cache-lookups",
        "Look-ups of database rows that lead to one entry or none, such as names and index values: \
         `hit`, in the row cache of the thread; `miss`, read from the tables and cached until the \
         next flush or until it is evicted.",
        |scrape, out| {
            let rows = scrape.directory().store().row_uses();
            out.labelled(&["hit"], rows.known);
            out.labelled(&["miss"], rows.read);
        },
    )
    .by(&["result"])
    .total("roster-row-cache-lookup-count"),
    Metric::new(
        "roster_access_rules",
        "cn=store",
        "roster-access-rules",
        "ACIs in force.",
        |scrape, out| out.one(scrape.directory().aci_count() as u64),
    ),
    Metric::new(
        "roster_journal_segments",
        "cn=journal",
        "roster-journal-segments",
        "Journal files with changes.",
        |scrape, out| out.one(scrape.journal().segments),
    ),
    Metric::new(
        "roster_journal_bytes",
        "cn=journal",
        "roster-journal-bytes",
        "Size of the journal files, used or reserved.",
        |scrape, out| out.one(scrape.journal().bytes),
    ),
    Metric::new(
        "roster_journal_records_total",
        "cn=journal",
        "roster-journal-records",
        "Changes appended to the journal.",
        |scrape, out| out.one(scrape.journal().appended),
    ),
    Metric::new(
        "roster_journal_groups_total",
        "cn=journal",
        "roster-journal-groups",
        "Groups of changes written together.",
        |scrape, out| out.one(scrape.journal().groups),
    ),
    Metric::new(
        "roster_journal_written_bytes_total",
        "cn=journal",
        "roster-journal-written-bytes",
        "Bytes written to the journal.",
        |scrape, out| out.one(scrape.journal().written_bytes),
    ),
    Metric::new(
        "roster_journal_syncs_total",
        "cn=journal",
        "roster-journal-syncs",
        "Syncs of the journal to the disk.",
        |scrape, out| out.one(scrape.journal().syncs),
    ),
    Metric::new(
        "roster_journal_sync_seconds_total",
        "cn=journal",
        "roster-journal-sync-us",
        "Time that syncs took.",
        |scrape, out| out.one(scrape.journal().sync_us),
    ),
    Metric::new(
        "roster_journal_sync_longest_seconds",
        "cn=journal",
        "roster-journal-sync-longest-us",
        "Time of the longest sync since the start.",
        |scrape, out| out.one(scrape.journal().longest_sync_us),
    ),
    Metric::new(
        "roster_journal_full",
        "cn=journal",
        "roster-journal-full",
        "1 if the last write found no room on the disk. A member of a cluster waits for it.",
        |scrape, out| out.one(u64::from(scrape.journal().is_full)),
    ),
    Metric::new(
        "roster_journal_failed",
        "cn=journal",
        "roster-journal-failed",
        "1 if a write or a sync has failed: nothing is written until the server is restarted.",
        |scrape, out| out.one(u64::from(scrape.journal().is_poisoned.is_some())),
    ),
    Metric::new(
        "roster_archive_files",
        "cn=archive",
        "roster-archive-files",
        "Files of the archive of changes.",
        |scrape, out| archive(scrape, out, |archive| archive.files),
    ),
    Metric::new(
        "roster_archive_bytes",
        "cn=archive",
        "roster-archive-bytes",
        "Size of the files of the archive.",
        |scrape, out| archive(scrape, out, |archive| archive.bytes),
    ),
    Metric::new(
        "roster_archive_record_bytes",
        "cn=archive",
        "roster-archive-record-bytes",
        "Size of the changes in the archive before they were compressed.",
        |scrape, out| archive(scrape, out, |archive| archive.raw_bytes),
    ),
    Metric::new(
        "roster_archive_first_lsn",
        "cn=archive",
        "roster-archive-first-lsn",
        "Number of the first change from which on the archive has all.",
        |scrape, out| archive(scrape, out, |archive| archive.first.0),
    ),
    Metric::new(
        "roster_archive_last_lsn",
        "cn=archive",
        "roster-archive-last-lsn",
        "Number of the last change in the archive. Later ones are in the journal.",
        |scrape, out| archive(scrape, out, |archive| archive.last.0),
    ),
    Metric::new(
        "roster_archive_age_seconds",
        "cn=archive",
        "roster-archive-age-us",
        "Time since the first change in the archive was made.",
        |scrape, out| {
            let now = scrape.now();
            archive(scrape, out, |archive| {
                archive.first_time.map_or(0, |first| now.0.saturating_sub(first.0))
            });
        },
    ),
    Metric::new(
        "roster_archive_missing_records_total",
        "cn=archive",
        "roster-archive-missing-records",
        "Changes that are missing in the archive, because the journal did not have them any more.",
        |scrape, out| archive(scrape, out, |archive| archive.missing),
    ),
    Metric::new(
        "roster_archive_failed",
        "cn=archive",
        "roster-archive-failed",
        "1 while the archive cannot be written.",
        |scrape, out| archive(scrape, out, |archive| u64::from(archive.error.is_some())),
    ),
];

/// A number of the archive, where there is one.
fn archive(scrape: &Scrape<'_>, out: &mut Samples, number: impl Fn(&ArchiveStatus) -> u64) {
    if let Some(archive) = scrape.archive() {
        out.one(number(archive));
    }
}

fn indexes(scrape: &Scrape<'_>, out: &mut Samples) {
    let dictionary = scrape.directory().store().dictionary();
    let count = |wanted: fn(&IndexState) -> bool| {
        dictionary.definitions().filter(|(_, _, state)| wanted(state)).count() as u64
    };
    out.labelled(&["valid"], count(|state| matches!(state, IndexState::Valid)));
    out.labelled(&["building"], count(|state| matches!(state, IndexState::Building { .. })));
    out.labelled(&["dropping"], count(|state| matches!(state, IndexState::Dropping)));
}

/// By the names that reports call indexes, without the filters of filtered ones: those may hold
/// what is in the directory.
fn index_lookups(scrape: &Scrape<'_>, out: &mut Samples) {
    let store = scrape.directory().store();
    let uses = store.index_uses();
    let mut by_name = BTreeMap::new();
    for (id, definition, state) in store.dictionary().definitions() {
        let Some(lookups) = uses.of(id).filter(|_| state == IndexState::Valid) else { continue };
        let plain = IndexDefinition { filter: None, ..definition.clone() };
        let kind = if definition.filter.is_some() { ".filtered" } else { "" };
        *by_name.entry(plain.name() + kind).or_insert(0) += lookups;
    }
    for (name, lookups) in by_name {
        out.labelled(&[&name], lookups);
    }
    let others = uses.of_others();
    if others > 0 {
        out.labelled(&["others"], others);
    }
}
