//! The rows of reference lists, read in the order of their keys: for whoever wants all of them.

use std::ops::ControlFlow;

use heed::{AnyTls, RoTxn};

use crate::base::lmdb::{POSTINGS, Table};
use crate::error::StoreError;
use crate::index::posting::{Chunk, Head, Width};
use crate::read::view::key_parts;
use crate::rows::key::{PostingKey, display};

/// One reference in a list: the entry and the attribute that the list is of, and an entry in it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ListedRow {
    pub(crate) attribute: u32,
    pub(crate) of: u64,
    pub(crate) id: u64,
}

/// Calls `each` with every reference in the lists with the number `index`, until it breaks; returns
/// how many rows were read.
///
/// # Errors
/// When LMDB fails, or a row is none that a writer makes.
pub(crate) fn each_listed(
    postings: Table,
    txn: &RoTxn<'_, AnyTls>,
    index: u16,
    mut each: impl FnMut(ListedRow) -> ControlFlow<()>,
) -> Result<u64, StoreError> {
    let (mut open, mut rows): (Option<(u32, u64, Width)>, u64) = (None, 0);
    for row in postings.prefix_iter(txn, &index.to_be_bytes())? {
        let (row_key, row) = row?;
        rows += 1;
        let damaged = || StoreError::corrupt(POSTINGS, display(row_key), "is not well formed");
        let key = PostingKey::parse(row_key).ok_or_else(damaged)?;
        let (attribute, of) = key_parts(&key.value).ok_or_else(damaged)?;
        let mut flow = ControlFlow::Continue(());
        let mut put = |id| {
            if flow.is_continue() {
                flow = each(ListedRow { attribute, of, id });
            }
        };
        match key.chunk {
            None => match Head::read(row).filter(Head::is_well_formed).ok_or_else(damaged)? {
                Head::Inline(ids) => ids.for_each(&mut put),
                Head::Chunked(_, width) => open = Some((attribute, of, width)),
            },
            Some(number) => {
                let width = open.filter(|(one, id, _)| (*one, *id) == (attribute, of));
                let (_, _, width) = width.ok_or_else(damaged)?;
                let chunk = Chunk::read(row).filter(|chunk| chunk.is_well_formed(width));
                chunk.ok_or_else(damaged)?.for_each(|place| put(width.id_at(number, place)));
            }
        }
        if flow.is_break() {
            break;
        }
    }
    Ok(rows)
}
