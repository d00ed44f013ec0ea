//! What a replica needs beyond the entries: comments at the head of an export.
//!
//! ```text
//! # roster replication state 1
//! # store: 7d1f…            the id of the store that the entries come from
//! # number: 17              of the last change that is in them
//! # hash: 0123456789abcdef  the running hash after it
//! # time: 1700000000000000  when it was decided, in microseconds since 1970
//! # term: 1                 under which the log has it
//! # index: 17               likewise
//! # next: 18                the number that the next entry gets
//! ```
//!
//! And before the `dn` of each entry `# id: ` with its number: change records name entries by it.
//! `docs/how-to/export.md` says what it is good for.

use store::{LogPosition, Mark, Store, View};

/// The comments at the head.
pub(super) fn head(store: &Store, view: &View<'_>) -> Vec<u8> {
    let Mark { lsn, hash, time_us, position: LogPosition { term, index } } = view.mark();
    let store: String = store.id().iter().map(|octet| format!("{octet:02x}")).collect();
    let (number, next) = (lsn.0, view.next_entry_id().0);
    format!(
        "# roster replication state 1\n# store: {store}\n# number: {number}\n\
         # hash: {hash:016x}\n# time: {time_us}\n# term: {term}\n# index: {index}\n\
         # next: {next}\n\n"
    )
    .into_bytes()
}
