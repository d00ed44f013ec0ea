//! Whether a data file is whole, asked before it is mapped: who reads a map behind the end of its
//! file is ended by the system without a word, and LMDB trusts what its meta pages say.
//!
//! LMDB does not write pages that a commit took and gave up again, so the file of a healthy
//! environment may end before the last page its meta page counts. Each such page is in the list of
//! free pages. So the file is whole when every page behind its end is in that list, and this is
//! what is compared; the list is read only where the file is shorter than the meta page says.
//!
//! Invariant: reads only, and never through a map. What is asked of a file that another process
//! writes is asked again while the answer changes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::base::format::DATA_FILE;
use crate::error::StoreError;

#[cfg(test)]
mod tests;

/// Refuses an environment whose data file is missing, lacks pages that are in use, or has meta
/// pages that cannot be right. `path` is its directory, or the file by itself.
pub(crate) fn check(path: &Path) -> Result<(), StoreError> {
    check_by(look, path)
}

/// Refuses what [`check`] refuses, and an environment of whose trees any page is damaged: LMDB
/// takes them on trust, and may go round in circles in a page of zeros.
pub(crate) fn check_pages(path: &Path) -> Result<(), StoreError> {
    check_by(look_at_all, path)
}

fn check_by(look: fn(&File) -> Result<(), Fault>, path: &Path) -> Result<(), StoreError> {
    let path = data_file(path);
    let file = open(&path)?;
    let mut before = None;
    for _ in 0..TRIES_MAX {
        match look(&file) {
            Ok(()) => return Ok(()),
            Err(Fault::Io(source)) => return Err(StoreError::io(&path, source)),
            // A process that writes may have changed what was just read.
            Err(Fault::Damage(reason)) => {
                let now = (newest(&file).ok(), reason);
                if before.as_ref() == Some(&now) {
                    break;
                }
                before = Some(now);
            }
        }
    }
    let reason = before.map_or_else(String::new, |(_, reason)| reason);
    Err(StoreError::DataFile { path, reason })
}

/// Makes durable what the system still holds back of the data file in `directory`: what a process
/// that is gone has put into the memory of the system is on the disk before anything builds on it.
pub(crate) fn sync(directory: &Path) -> Result<(), StoreError> {
    let path = data_file(directory);
    open(&path)?.sync_data().map_err(|source| StoreError::io(&path, source))
}

fn data_file(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(DATA_FILE) } else { path.to_owned() }
}

fn open(path: &Path) -> Result<File, StoreError> {
    File::open(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => {
            StoreError::DataFile { path: path.to_owned(), reason: "it is missing".to_owned() }
        }
        _ => StoreError::io(path, source),
    })
}

/// Why a file is refused.
#[derive(Debug)]
enum Fault {
    Io(io::Error),
    Damage(String),
}

impl Fault {
    fn damage<T>(reason: impl Into<String>) -> Result<T, Self> {
        Err(Self::Damage(reason.into()))
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Damage("it ends within a page".to_owned()),
            _ => Self::Io(error),
        }
    }
}

/// What one of the two meta pages says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Meta {
    page_bytes: u64,
    free: Tree,
    main: Tree,
    last_page: u64,
    commit: u64,
}

/// A tree of pages, as LMDB keeps it in a meta page and, for a table, in the tree of tables.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Tree {
    depth: u16,
    /// None when it is empty.
    root: Option<u64>,
}

fn look(file: &File) -> Result<(), Fault> {
    let meta = newest(file)?;
    // Asked after the meta page was read: the file of a process that writes only grows.
    let bytes = file.metadata()?.len();
    let pages = Pages { file, meta, count: bytes / meta.page_bytes };
    let behind = (meta.last_page + 1).saturating_sub(pages.count);
    if behind > 0 {
        let free = pages.free_behind_end()?;
        if free != behind {
            let needed = (meta.last_page + 1).saturating_mul(meta.page_bytes);
            return Fault::damage(format!(
                "its end is missing: it has {bytes} bytes of {needed}, and {} pages that are in \
                 use were behind that",
                behind.saturating_sub(free)
            ));
        }
    }
    // The roots of the tables: with those of the two trees all that LMDB takes on trust.
    pages.walk(meta.main, &mut |node| match Tree::of_table(node.value) {
        Some(table) if node.flags & NODE_TABLE != 0 => pages.root(table),
        _ => Fault::damage("the list of its tables is damaged"),
    })
}

fn look_at_all(file: &File) -> Result<(), Fault> {
    look(file)?;
    let meta = newest(file)?;
    let pages = Pages { file, meta, count: file.metadata()?.len() / meta.page_bytes };
    pages.walk(meta.main, &mut |node| match Tree::of_table(node.value) {
        Some(table) if table.depth <= DEPTH_MAX => pages.walk(table, &mut |_| Ok(())),
        _ => Fault::damage("the list of its tables is damaged"),
    })
}

/// The newer one of the two meta pages, both of which must be possible.
fn newest(file: &File) -> Result<Meta, Fault> {
    if file.metadata()?.len() == 0 {
        return Fault::damage("it is empty");
    }
    let first = Meta::read(file, 0)?;
    let second = Meta::read(file, first.page_bytes)?;
    // LMDB writes them by turns.
    let in_turn = first.commit.is_multiple_of(2) && (second.commit % 2 == 1 || second.commit == 0);
    if first.page_bytes != second.page_bytes || !in_turn {
        return Fault::damage("its meta pages contradict each other");
    }
    Ok(if first.commit < second.commit { second } else { first })
}

impl Meta {
    fn read(file: &File, at: u64) -> Result<Self, Fault> {
        let mut bytes = [0; PAGE_HEADER_BYTES + META_BYTES];
        file.read_exact_at(&mut bytes, at).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                Fault::Damage("it ends before its second page".to_owned())
            }
            _ => Fault::Io(error),
        })?;
        let decoded = Self::decode(&bytes).filter(Self::is_possible);
        decoded.ok_or_else(|| Fault::Damage(format!("its meta page at byte {at} is damaged")))
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let header = PageHeader::decode(bytes)?;
        let body = bytes.get(PAGE_HEADER_BYTES..)?;
        let is_meta = header.flags & PAGE_META != 0 && u32_at(body, 0)? == MAGIC;
        if !is_meta || u32_at(body, 4)? != VERSION {
            return None;
        }
        Some(Self {
            page_bytes: u64::from(u32_at(body, META_TREES_AT)?),
            free: Tree::decode(body.get(META_TREES_AT..)?)?,
            main: Tree::decode(body.get(META_TREES_AT + TREE_BYTES..)?)?,
            last_page: u64_at(body, META_TREES_AT + 2 * TREE_BYTES)?,
            commit: u64_at(body, META_TREES_AT + 2 * TREE_BYTES + 8)?,
        })
    }

    /// Whether the numbers can be those of an environment.
    fn is_possible(&self) -> bool {
        let is_inside = |tree: Tree| {
            tree.root.is_none_or(|root| (META_PAGES..=self.last_page).contains(&root))
                && tree.root.is_some() == (tree.depth > 0)
                && tree.depth <= DEPTH_MAX
        };
        let is_page = self.page_bytes.is_power_of_two()
            && (PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&self.page_bytes);
        is_page
            && (META_PAGES - 1..LAST_PAGE_MAX).contains(&self.last_page)
            && is_inside(self.free)
            && is_inside(self.main)
    }
}

impl Tree {
    fn decode(bytes: &[u8]) -> Option<Self> {
        let root = u64_at(bytes, 40)?;
        Some(Self { depth: u16_at(bytes, 6)?, root: (root != NO_PAGE).then_some(root) })
    }

    fn of_table(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Here(bytes) if bytes.len() == TREE_BYTES => Self::decode(bytes),
            Value::Here(_) | Value::Elsewhere { .. } => None,
        }
    }
}

/// What stands before the rest of each page.
struct PageHeader {
    number: u64,
    flags: u16,
    /// Where the free space of the page begins.
    lower: u16,
}

impl PageHeader {
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (number, flags) = (u64_at(bytes, 0)?, u16_at(bytes, 10)?);
        Some(Self { number, flags, lower: u16_at(bytes, 12)? })
    }
}

/// A row of a leaf.
struct Node<'p> {
    flags: u16,
    value: Value<'p>,
}

/// Where the value of a row is.
#[derive(Clone, Copy)]
enum Value<'p> {
    Here(&'p [u8]),
    /// In pages of its own, from this one on.
    Elsewhere {
        page: u64,
        bytes: u64,
    },
}

/// The pages of a file, as of one commit.
struct Pages<'f> {
    file: &'f File,
    meta: Meta,
    /// How many whole pages the file has.
    count: u64,
}

type OnNode<'n> = &'n mut dyn FnMut(Node<'_>) -> Result<(), Fault>;

impl Pages<'_> {
    /// How many of the pages behind the end of the file are in the list of free pages.
    fn free_behind_end(&self) -> Result<u64, Fault> {
        let behind = self.count..=self.meta.last_page;
        let mut count = 0;
        self.walk(self.meta.free, &mut |node| {
            self.each_free(node.value, &mut |page| count += u64::from(behind.contains(&page)))
        })?;
        Ok(count)
    }

    /// Reads a list of page numbers: how many there are, and they.
    fn each_free(&self, value: Value<'_>, each: &mut dyn FnMut(u64)) -> Result<(), Fault> {
        let numbers = |bytes: &[u8], each: &mut dyn FnMut(u64)| {
            bytes.as_chunks().0.iter().for_each(|number| each(u64::from_ne_bytes(*number)));
        };
        let damaged = || Fault::Damage("its list of free pages is damaged".to_owned());
        match value {
            Value::Here(bytes) => {
                let (length, rest) = bytes.split_first_chunk().ok_or_else(damaged)?;
                let length = usize::try_from(u64::from_ne_bytes(*length)).ok();
                let length = length.and_then(|length| length.checked_mul(8)).ok_or_else(damaged)?;
                numbers(rest.get(..length).ok_or_else(damaged)?, each);
            }
            Value::Elsewhere { page, bytes } => {
                let begin = self.at(page)? + PAGE_HEADER_BYTES as u64;
                let mut length = [0; 8];
                self.file.read_exact_at(&mut length, begin)?;
                let length = u64::from_ne_bytes(length).checked_mul(8).ok_or_else(damaged)?;
                if length.checked_add(8).is_none_or(|length| length > bytes) {
                    return Err(damaged());
                }
                let (mut at, end) = (begin + 8, begin + 8 + length);
                let mut buffer = vec![0; LIST_BYTES];
                while at < end {
                    let step = (end - at).min(LIST_BYTES as u64);
                    let part = buffer.get_mut(..step as usize).unwrap_or_default();
                    self.file.read_exact_at(part, at)?;
                    numbers(part, each);
                    at += step;
                }
            }
        }
        Ok(())
    }

    /// The root of a tree is a page of a tree.
    fn root(&self, tree: Tree) -> Result<(), Fault> {
        match tree.root {
            None => Ok(()),
            Some(root) => self.page(root).map(drop),
        }
    }

    /// Calls `each` with every row of a tree.
    fn walk(&self, tree: Tree, each: OnNode<'_>) -> Result<(), Fault> {
        match tree.root {
            None => Ok(()),
            Some(root) => self.walk_page(root, tree.depth, each),
        }
    }

    fn walk_page(&self, number: u64, depth: u16, each: OnNode<'_>) -> Result<(), Fault> {
        let damaged = || damaged_page(number);
        let page = self.page(number)?;
        let header = PageHeader::decode(&page).ok_or_else(damaged)?;
        let is_leaf = header.flags & PAGE_LEAF != 0;
        if is_leaf != (depth == 1) {
            return Err(damaged());
        }
        let places = page.get(PAGE_HEADER_BYTES..usize::from(header.lower)).ok_or_else(damaged)?;
        for place in places.as_chunks().0 {
            let node = page.get(usize::from(u16::from_ne_bytes(*place))..).ok_or_else(damaged)?;
            let (low, high) = (u32_at(node, 0), u16_at(node, 4));
            let (Some(low), Some(high)) = (low, high) else { return Err(damaged()) };
            if is_leaf {
                each(leaf_node(node, low, high).ok_or_else(damaged)?)?;
            } else {
                self.walk_page(u64::from(low) | u64::from(high) << 32, depth - 1, each)?;
            }
        }
        Ok(())
    }

    /// A page of a tree.
    fn page(&self, number: u64) -> Result<Vec<u8>, Fault> {
        let at = self.at(number)?;
        let mut page = vec![0; self.meta.page_bytes as usize];
        self.file.read_exact_at(&mut page, at)?;
        match PageHeader::decode(&page) {
            Some(header)
                if header.number == number && header.flags & (PAGE_BRANCH | PAGE_LEAF) != 0 =>
            {
                Ok(page)
            }
            _ => Err(damaged_page(number)),
        }
    }

    /// Where a page is, which must be in the file.
    fn at(&self, number: u64) -> Result<u64, Fault> {
        if number >= self.count {
            return Fault::damage(format!(
                "its end is missing: it has {} pages, and page {number} is in use",
                self.count
            ));
        }
        Ok(number * self.meta.page_bytes)
    }
}

fn leaf_node(node: &[u8], bytes: u32, flags: u16) -> Option<Node<'_>> {
    let value = node.get(NODE_HEADER_BYTES + usize::from(u16_at(node, 6)?)..)?;
    let value = if flags & NODE_ELSEWHERE != 0 {
        Value::Elsewhere { page: u64_at(value, 0)?, bytes: u64::from(bytes) }
    } else {
        Value::Here(value.get(..bytes as usize)?)
    };
    Some(Node { flags, value })
}

fn damaged_page(number: u64) -> Fault {
    Fault::Damage(format!("its page {number} is damaged"))
}

// LMDB's numbers have the order of octets of the machine.

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|octets| u16::from_ne_bytes(*octets))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|octets| u32::from_ne_bytes(*octets))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|octets| u64::from_ne_bytes(*octets))
}

/// What is asked of a file that is being written is asked no more often.
const TRIES_MAX: usize = 100;

// The layout of LMDB's files (`mdb.c`: `MDB_page`, `MDB_node`, `MDB_db`, `MDB_meta`).
const MAGIC: u32 = 0xBEEF_C0DE;
const VERSION: u32 = 1;
const PAGE_HEADER_BYTES: usize = 16;
const NODE_HEADER_BYTES: usize = 8;
const TREE_BYTES: usize = 48;
const META_BYTES: usize = 136;
/// Where the two trees are in a meta page, behind its header.
const META_TREES_AT: usize = 24;
const META_PAGES: u64 = 2;
const PAGE_BRANCH: u16 = 1;
const PAGE_LEAF: u16 = 2;
const PAGE_META: u16 = 8;
/// The value of the row is in pages of its own.
const NODE_ELSEWHERE: u16 = 1;
/// The value of the row is a table.
const NODE_TABLE: u16 = 2;
const NO_PAGE: u64 = u64::MAX;
const PAGE_BYTES_MIN: u64 = 512;
const PAGE_BYTES_MAX: u64 = 1 << 16;
/// LMDB's cursors go no deeper.
const DEPTH_MAX: u16 = 32;
/// Page numbers have 48 bits.
const LAST_PAGE_MAX: u64 = 1 << 47;
/// So much of a list of free pages is read at a time.
const LIST_BYTES: usize = 64 << 10;
