//! Reading ahead: brings the data file into memory before searches ask for it.
//!
//! A file that fits is read from its beginning to its end, which is as fast as the disk is. Then
//! one thread reads its tables, in the order in which searches need them: so the system maps the
//! pages that it has, and no search has to wait for that (some 10 µs at the first touch of each).
//! Of a larger file the tables alone are read, by several threads: to a disk that is asked for one
//! page after the other, one reader is not much.
//!
//! Invariants: nothing is changed and nobody waits for it; no more than the budget is read. What
//! it reads is kept by the system, which gives it up for whoever needs the memory more.

use std::fs::File;
use std::io::Read;
use std::ops::{Bound, ControlFlow};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::base::format::DATA_FILE;
use crate::base::lmdb::{Environment, Table, Tables};
use crate::base::meta::Counters;
use crate::error::StoreError;
use crate::index::LEVEL_LISTS;
use crate::store::Store;

/// What was read ahead.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Preloaded {
    /// So much, in bytes.
    pub bytes: u64,
    /// Of so much, in bytes.
    pub of_bytes: u64,
}

/// What hears how far it is, in bytes, and of how many; it may end it.
pub type PreloadProgress<'p> = &'p mut (dyn FnMut(u64, u64) -> ControlFlow<()> + Send);

impl Store {
    /// The length of the data file, in bytes.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn file_bytes(&self) -> Result<u64, StoreError> {
        self.base_environment().file_bytes()
    }

    /// Reads the data file into memory and maps it, or of a file that is larger than `budget_bytes`
    /// what searches need most: names, then indexes, then entries.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn preload(
        &self,
        budget_bytes: u64,
        progress: PreloadProgress<'_>,
    ) -> Result<Preloaded, StoreError> {
        let environment = self.base_environment();
        let of_bytes = environment.file_bytes()?;
        if of_bytes <= budget_bytes {
            let bytes = read_file(&environment, of_bytes, progress)?;
            let mut told = |_, _| progress(bytes, of_bytes);
            if bytes >= of_bytes {
                read_tables(&environment, u64::MAX, 1, &mut told)?;
            }
            return Ok(Preloaded { bytes, of_bytes });
        }
        let bytes = read_tables(&environment, budget_bytes, THREADS, progress)?;
        Ok(Preloaded { bytes, of_bytes })
    }
}

fn read_file(
    environment: &Environment,
    of_bytes: u64,
    progress: PreloadProgress<'_>,
) -> Result<u64, StoreError> {
    let path = environment.path().join(DATA_FILE);
    let failed = |source| StoreError::io(&path, source);
    let mut file = File::open(&path).map_err(failed)?;
    let mut buffer = vec![0; READ_BYTES];
    let mut bytes = 0;
    while progress(bytes, of_bytes).is_continue() {
        match file.read(&mut buffer).map_err(failed)? {
            0 => break,
            read => bytes += read as u64,
        }
    }
    Ok(bytes)
}

/// A part of a table: the keys from the first to before the second.
struct Part {
    table: Table,
    from: Vec<u8>,
    to: Option<Vec<u8>>,
}

impl Part {
    fn whole(table: Table) -> Self {
        Self { table, from: Vec::new(), to: None }
    }
}

/// The tables in pieces, those that searches need most first.
fn parts(environment: &Environment) -> Result<(Vec<Part>, u64), StoreError> {
    let tables = environment.tables;
    let txn = environment.read()?;
    let mut parts = vec![Part::whole(tables.names), Part::whole(tables.children)];
    let indexes = crate::base::meta::indexes(tables.meta, &txn)?;
    let mut ids: Vec<u16> = indexes.iter().map(|(row, _)| row.id).collect();
    ids.push(LEVEL_LISTS);
    for id in ids {
        let to = id.checked_add(1).filter(|_| id != LEVEL_LISTS);
        parts.push(Part {
            table: tables.postings,
            from: id.to_be_bytes().to_vec(),
            to: to.map(|to| to.to_be_bytes().to_vec()),
        });
    }
    let next = Counters::read(tables.meta, &txn)?.next_entry_id;
    let step = (next / ENTRY_PARTS).max(1);
    for start in (0..next).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
        let to = start.saturating_add(step).to_be_bytes().to_vec();
        let from = start.to_be_bytes().to_vec();
        parts.push(Part { table: tables.entries, from, to: Some(to) });
    }
    let mut bytes = 0;
    for table in tables.all() {
        let stat = Tables::stat(table, &txn)?;
        let pages = stat.branch_pages + stat.leaf_pages + stat.overflow_pages;
        bytes += pages as u64 * u64::from(stat.page_size);
    }
    Ok((parts, bytes))
}

fn read_tables(
    environment: &Environment,
    budget_bytes: u64,
    threads: usize,
    progress: PreloadProgress<'_>,
) -> Result<u64, StoreError> {
    let (parts, bytes) = parts(environment)?;
    let of_bytes = bytes.min(budget_bytes);
    let (next, done, is_over) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let failure = Mutex::new(None);
    let progress = Mutex::new(progress);
    let tell = |bytes: u64| {
        let done = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        // Whoever comes while another tells it goes on.
        let is_ended = progress
            .try_lock()
            .is_ok_and(|mut progress| progress(done.min(of_bytes), of_bytes).is_break());
        if done >= of_bytes || is_ended {
            is_over.store(true, Ordering::Relaxed);
        }
        !is_over.load(Ordering::Relaxed)
    };
    let work = || {
        while !is_over.load(Ordering::Relaxed)
            && let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed))
        {
            if let Err(error) = read_part(environment, part, VIEW_BYTES, &tell) {
                is_over.store(true, Ordering::Relaxed);
                if let Ok(mut failure) = failure.lock() {
                    *failure = Some(error);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        (0..threads).for_each(|_| {
            scope.spawn(work);
        });
    });
    match failure.into_inner() {
        Ok(Some(error)) => Err(error),
        Ok(None) | Err(_) => Ok(done.into_inner().min(of_bytes)),
    }
}

/// Reads rows until `tell` has heard enough, `view_bytes` in one view of the store.
fn read_part(
    environment: &Environment,
    part: &Part,
    view_bytes: u64,
    tell: &dyn Fn(u64) -> bool,
) -> Result<(), StoreError> {
    let to = part.to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let mut read = None;
    loop {
        let from = match &read {
            Some(last) => Bound::Excluded(Vec::as_slice(last)),
            None if part.from.is_empty() => Bound::Unbounded,
            None => Bound::Included(&*part.from),
        };
        // As long as one is read, no page that writers leave is used again.
        let txn = environment.read()?;
        let mut in_view = 0;
        let mut bytes = 0;
        let mut last = None;
        for row in part.table.range(&txn, &(from, to))? {
            let (key, value) = row?;
            // A long row is on pages of its own, which nothing but its octets touches.
            let touched = value.iter().step_by(PAGE_BYTES).fold(0, |sum: u8, one| sum ^ one);
            std::hint::black_box(touched);
            bytes += (key.len() + value.len() + ROW_BYTES) as u64;
            if bytes < TELL_BYTES {
                continue;
            }
            if !tell(bytes) {
                return Ok(());
            }
            in_view += bytes;
            bytes = 0;
            if in_view >= view_bytes {
                last = Some(key.to_vec());
                break;
            }
        }
        tell(bytes);
        if last.is_none() {
            return Ok(());
        }
        read = last;
    }
}

/// So much is read at a time, in bytes.
const READ_BYTES: usize = 1 << 20;
/// Progress is told every so many bytes.
const TELL_BYTES: u64 = 1 << 20;
/// So much is read in one view of the store, in bytes.
const VIEW_BYTES: u64 = 64 * TELL_BYTES;
/// What LMDB adds to a row, in bytes.
const ROW_BYTES: usize = 10;
/// The smallest page of any system, in bytes.
const PAGE_BYTES: usize = 4096;
/// Entries are read in about so many parts.
const ENTRY_PARTS: u64 = 64;
/// So many threads wait for the disk at a time.
const THREADS: usize = 16;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use schema::Schema;

    use super::*;
    use crate::base::lmdb::StoreOptions;
    use crate::testing::{create, entry};

    /// A closed store of `count` people.
    fn filled(directory: &std::path::Path, count: u64) {
        let store = create(directory);
        let mut loader = store.bulk_load(&crate::bulk::LoadOptions::default()).unwrap();
        let top = entry("dc=example,dc=com\nobjectClass: domain\ndc: example");
        loader.load(&top, 1).unwrap();
        for number in 0..count {
            let name = format!("cn=Person {number},dc=example,dc=com");
            let person = entry(&format!(
                "{name}\nobjectClass: person\ncn: Person {number}\nsn: {number}\n\
                 description: {}",
                "x".repeat(600)
            ));
            loader.load(&person, number + 2).unwrap();
        }
        loader.commit().unwrap();
    }

    /// How much of the data file the process has looked at, in bytes.
    fn mapped_bytes(directory: &std::path::Path) -> u64 {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let path = directory.join(DATA_FILE).display().to_string();
        let mut lines = smaps.lines().skip_while(|line| !line.ends_with(&path));
        let line = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
    }

    fn open(directory: &std::path::Path) -> Arc<Store> {
        let options = StoreOptions::default();
        Arc::new(Store::open(directory, &options, Schema::builtin()).unwrap())
    }

    #[test]
    fn opening_looks_at_a_few_pages_however_large_the_directory_is() {
        let dir = tempfile::tempdir().unwrap();
        let sizes = [10, 6_000].map(|count| {
            let data = dir.path().join(count.to_string());
            filled(&data, count);
            let store = open(&data);
            let mut reader = store.reader();
            assert_eq!(reader.view().unwrap().entry_count().unwrap(), count + 1);
            (mapped_bytes(&data), std::fs::metadata(data.join(DATA_FILE)).unwrap().len())
        });
        let [(_, _), (looked_at, file)] = sizes;
        assert!(file > 4 << 20, "{sizes:?}");
        // The system maps some pages around each that is looked at.
        assert!(looked_at < 1 << 20, "{sizes:?}");
    }

    #[test]
    fn a_part_is_read_once_in_however_many_views() {
        let dir = tempfile::tempdir().unwrap();
        filled(dir.path(), 6_000);
        let store = open(dir.path());
        let environment = store.base_environment();
        let part = Part::whole(environment.tables.entries);
        let read = |view_bytes| {
            let (told, times) = (AtomicU64::new(0), AtomicU64::new(0));
            let tell = |bytes| {
                told.fetch_add(bytes, Ordering::Relaxed);
                times.fetch_add(1, Ordering::Relaxed);
                true
            };
            read_part(&environment, &part, view_bytes, &tell).unwrap();
            (told.into_inner(), times.into_inner())
        };
        let (whole, once) = read(u64::MAX);
        assert!(whole > 3 * TELL_BYTES, "{whole}");
        let (in_views, times) = read(1);
        assert_eq!(in_views, whole);
        assert!(times > once, "{times} {once}");
    }

    #[test]
    fn the_whole_file_is_read_or_what_the_budget_allows() {
        let dir = tempfile::tempdir().unwrap();
        filled(dir.path(), 3_000);
        let store = open(dir.path());
        let file = store.statistics().unwrap().file_bytes;
        let mut calls = 0;
        let read = store.preload(u64::MAX, &mut |done, of| {
            calls += 1;
            assert!(done <= of);
            ControlFlow::Continue(())
        });
        assert_eq!(read.unwrap(), Preloaded { bytes: file, of_bytes: file });
        assert!(calls > 2);
        // All that it has is mapped: nobody waits for that later.
        assert!(mapped_bytes(dir.path()) > file / 10 * 9, "{} of {file}", mapped_bytes(dir.path()));
        drop(store);
        let store = open(dir.path());
        let stopped = store.preload(u64::MAX, &mut |_, _| ControlFlow::Break(()));
        assert_eq!(stopped.unwrap().bytes, 0);
        let before = mapped_bytes(dir.path());
        let budget = file - 1;
        let read = store.preload(budget, &mut |_, _| ControlFlow::Continue(())).unwrap();
        assert!(read.bytes > file / 2 && read.bytes <= budget, "{read:?}");
        assert!(mapped_bytes(dir.path()) > before + file / 2);
        let some = store.preload(2 << 20, &mut |_, _| ControlFlow::Continue(())).unwrap();
        assert_eq!(some, Preloaded { bytes: 2 << 20, of_bytes: file });
    }
}
