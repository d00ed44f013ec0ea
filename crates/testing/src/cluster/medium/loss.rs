//! What a power loss leaves: the side files that `medium.c` wrote are read, and of the writes that
//! no sync covers some are undone, in blocks of 512 octets, as disks write them.
//!
//! Invariant: nothing is changed that a sync covers. A file that was written through a mapping only
//! has no side file and stays as it is.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::chance::Chance;

/// How much of what was not synced is lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Loss {
    /// All.
    All,
    /// All from a moment on; the write of that moment is torn.
    Tail,
    /// Any writes, block by block.
    Some,
}

/// What was lost.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Lost {
    /// Writes that no sync covered.
    pub unsynced: u64,
    /// Blocks of files that are as they were before a write.
    pub blocks: u64,
    /// Creations, renames and removals that did not happen.
    pub names: u64,
}

/// A write that may be undone.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Written {
    number: u64,
    offset: u64,
    extent: u64,
    /// The length of the file before.
    length: u64,
    /// What stood there; behind that the file had ended.
    old: Vec<u8>,
}

/// A sync, of all of a file or of a part.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Synced {
    number: u64,
    offset: u64,
    extent: u64,
}

/// What a side file says.
#[derive(Debug, Default, Eq, PartialEq)]
struct Side {
    written: Vec<Written>,
    synced: Vec<Synced>,
}

/// A change of names that may be undone.
#[derive(Debug, Eq, PartialEq)]
struct Named {
    number: u64,
    path: PathBuf,
    /// What it was called before.
    before: Option<PathBuf>,
    /// The file that had the name before, or that lost it.
    kept: Option<PathBuf>,
}

impl Loss {
    /// One of all, by chance.
    pub(in crate::cluster) fn draw(chance: &mut Chance) -> Self {
        match chance.below(3) {
            0 => Self::All,
            1 => Self::Tail,
            _ => Self::Some,
        }
    }
}

/// Undoes some of what is not synced below `data`, as the side files in `undo` say.
pub(super) fn lose(data: &Path, undo: &Path, loss: Loss, chance: &mut Chance) -> io::Result<Lost> {
    let mut lost = Lost::default();
    let mut files = BTreeMap::new();
    for folder in [undo, data] {
        list(folder, &mut files)?;
    }
    for (inode, path) in &files {
        let Ok(octets) = fs::read(undo.join(inode.to_string())) else { continue };
        let side = Side::parse(&octets);
        let file = OpenOptions::new().write(true).open(path)?;
        lose_writes(&file, &side, loss, chance, &mut lost)?;
    }
    let lines = fs::read(undo.join("names")).unwrap_or_default();
    let names = unsynced_names(&String::from_utf8_lossy(&lines));
    let stays = match loss {
        Loss::All => 0,
        Loss::Tail | Loss::Some => chance.below(names.len() as u64 + 1) as usize,
    };
    for named in names.iter().skip(stays).rev() {
        named.undo();
        lost.names += 1;
    }
    Ok(lost)
}

/// All regular files below a folder, by inode.
fn list(folder: &Path, files: &mut BTreeMap<u64, PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            list(&entry.path(), files)?;
        } else if kind.is_file() {
            files.insert(entry.metadata()?.ino(), entry.path());
        }
    }
    Ok(())
}

fn lose_writes(
    file: &File,
    side: &Side,
    loss: Loss,
    chance: &mut Chance,
    lost: &mut Lost,
) -> io::Result<()> {
    let pending = side.pending();
    let Some(first) = pending.first() else { return Ok(()) };
    lost.unsynced += pending.len() as u64;
    // The writes of each block.
    let mut blocks: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (at, written) in pending.iter().enumerate() {
        for block in written.blocks().filter(|block| !side.covers(written, *block)) {
            blocks.entry(block).or_default().push(at);
        }
    }
    let torn = chance.below(pending.len() as u64) as usize;
    // Of each block the first write that is lost: what comes after it is lost, too.
    let mut from: BTreeMap<u64, usize> = BTreeMap::new();
    for (block, writes) in &blocks {
        let kept = match loss {
            Loss::All => 0,
            Loss::Tail => {
                let at = torn + usize::from(chance.once_in(2));
                writes.partition_point(|write| *write < at)
            }
            Loss::Some => chance.below(writes.len() as u64 + 1) as usize,
        };
        from.extend(writes.get(kept).map(|write| (*block, *write)));
    }
    lost.blocks += from.len() as u64;
    for (at, written) in pending.iter().enumerate().rev() {
        let is_lost = |block: &u64| from.get(block).is_some_and(|first| at >= *first);
        for block in written.blocks().filter(is_lost) {
            written.restore(file, block)?;
        }
    }
    match loss {
        Loss::All => file.set_len(first.length),
        Loss::Tail => pending.get(torn + 1).map_or(Ok(()), |next| file.set_len(next.length)),
        Loss::Some => Ok(()),
    }
}

impl Side {
    /// A record that was not written to its end is of a write that was not begun.
    fn parse(mut octets: &[u8]) -> Self {
        let mut side = Self::default();
        while let Some((header, rest)) = octets.split_first_chunk::<RECORD_BYTES>() {
            let mut numbers = header.chunks(8).map(|chunk| {
                chunk.iter().rev().fold(0u64, |number, octet| number << 8 | u64::from(*octet))
            });
            let mut next = || numbers.next().unwrap_or_default();
            let (kind, number, offset, extent) = (next(), next(), next(), next());
            let (saved, length) = (next(), next());
            let Some((old, rest)) = rest.split_at_checked(saved as usize) else { break };
            octets = rest;
            match kind {
                WRITTEN => {
                    let old = old.to_vec();
                    side.written.push(Written { number, offset, extent, length, old });
                }
                _ => side.synced.push(Synced { number, offset, extent }),
            }
        }
        side
    }

    /// Whether a block of a write is synced.
    fn covers(&self, written: &Written, block: u64) -> bool {
        self.synced.iter().any(|synced| {
            let is_there = synced.extent == 0
                || (synced.offset..synced.offset + synced.extent).contains(&(block * BLOCK_BYTES));
            synced.number >= written.number && is_there
        })
    }

    /// The writes that are not synced, in their order.
    fn pending(&self) -> Vec<&Written> {
        let all = self.synced.iter().filter(|synced| synced.extent == 0);
        let all = all.map(|synced| synced.number).max().unwrap_or_default();
        let is_pending = |written: &&Written| {
            let is_synced =
                written.extent > 0 && written.blocks().all(|block| self.covers(written, block));
            written.number > all && !is_synced
        };
        self.written.iter().filter(is_pending).collect()
    }
}

impl Written {
    fn blocks(&self) -> std::ops::Range<u64> {
        self.offset / BLOCK_BYTES..(self.offset + self.extent).div_ceil(BLOCK_BYTES)
    }

    /// Writes what a block of it was before.
    fn restore(&self, file: &File, block: u64) -> io::Result<()> {
        let from = self.offset.max(block * BLOCK_BYTES);
        let to = (self.offset + self.extent).min((block + 1) * BLOCK_BYTES);
        let mut before = vec![0; (to - from) as usize];
        let old = self.old.get((from - self.offset) as usize..).unwrap_or_default();
        for (octet, old) in before.iter_mut().zip(old) {
            *octet = *old;
        }
        file.write_all_at(&before, from)
    }
}

impl Named {
    /// What cannot be undone has been overtaken: a file that was made and removed.
    fn undo(&self) {
        let _ = match (&self.before, &self.kept) {
            (Some(before), _) => fs::rename(&self.path, before),
            (None, None) => fs::remove_file(&self.path),
            (None, Some(_)) => Ok(()),
        };
        if let Some(kept) = &self.kept {
            let _ = fs::rename(kept, &self.path);
        }
    }
}

/// The changes of names whose directories were not synced, in their order.
fn unsynced_names(text: &str) -> Vec<Named> {
    let mut found: Vec<Named> = Vec::new();
    for line in text.lines() {
        let mut words = line.split('\t');
        let (Some(kind), Some(number), Some(path)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let (number, path) = (number.parse().unwrap_or_default(), PathBuf::from(path));
        let mut other = || words.next().filter(|word| !word.is_empty()).map(PathBuf::from);
        match kind {
            "synced" => found.retain(|named| {
                named.number > number || named.path.parent() != Some(path.as_path())
            }),
            "renamed" => {
                let (before, kept) = (other(), other());
                found.push(Named { number, path, before, kept });
            }
            "removed" => found.push(Named { number, path, before: None, kept: other() }),
            _ => found.push(Named { number, path, before: None, kept: None }),
        }
    }
    found
}

/// What a disk writes whole or not at all.
const BLOCK_BYTES: u64 = 512;
/// Size of a record of a side file.
const RECORD_BYTES: usize = 48;
/// The kind of a record that is a write.
const WRITTEN: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::server::scratch;

    fn record(numbers: [u64; 6], old: &[u8]) -> Vec<u8> {
        let mut octets: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        octets.extend(old);
        octets
    }

    /// Three writes: to the first two blocks, to the second, behind the end.
    fn side() -> Vec<u8> {
        [
            record([WRITTEN, 10, 0, 1024, 1024, 1024], &[1; 1024]),
            record([WRITTEN, 11, 512, 512, 512, 1024], &[2; 512]),
            record([WRITTEN, 12, 1024, 512, 0, 1024], &[]),
        ]
        .concat()
    }

    /// The file afterwards, by the first octets of its blocks.
    fn after(side: &[u8], loss: Loss, seed: u64) -> Vec<u8> {
        let path = scratch(&format!("loss-{seed}-{loss:?}-{}", side.len()));
        fs::write(&path, [[2; 512], [3; 512], [4; 512]].concat()).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let (side, mut lost) = (Side::parse(side), Lost::default());
        lose_writes(&file, &side, loss, &mut Chance::new(seed, 1), &mut lost).unwrap();
        let octets = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        octets.chunks(512).map(|block| block[0]).collect()
    }

    #[test]
    fn all_is_lost_back_to_the_last_sync() {
        let mut octets = side();
        assert_eq!(after(&octets, Loss::All, 1), [1, 1]);
        octets.extend(record([2, 10, 0, 0, 0, 0], &[]));
        assert_eq!(after(&octets, Loss::All, 1), [2, 2]);
        octets.extend(record([2, 12, 0, 0, 0, 0], &[]));
        assert_eq!(after(&octets, Loss::All, 1), [2, 3, 4]);
        // A record that has no end.
        octets.extend(record([WRITTEN, 13, 0, 512, 512, 1536], &[9; 511]));
        assert_eq!(after(&octets, Loss::All, 1), [2, 3, 4]);
    }

    #[test]
    fn a_write_through_keeps_its_pages_alone() {
        let through = record([2, 11, 0, 512, 0, 0], &[]);
        assert_eq!(after(&[side(), through].concat(), Loss::All, 1), [2, 1]);
    }

    #[test]
    fn each_block_is_as_after_one_of_its_writes() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            seen.insert(after(&side(), Loss::Some, seed));
        }
        let blocks: Vec<Vec<u8>> = [1, 2]
            .iter()
            .flat_map(|one| [1, 2, 3].map(|two| (*one, two)))
            .flat_map(|(one, two)| [0, 4].map(|three| vec![one, two, three]))
            .collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), blocks);
    }

    #[test]
    fn with_the_tail_no_write_stays_behind_one_that_is_lost() {
        for seed in 0..200 {
            let blocks = after(&side(), Loss::Tail, seed);
            let has_third = blocks.get(2) == Some(&4);
            assert!(!has_third || blocks[..2] == [2, 3], "{blocks:?}");
            assert!(blocks[1] != 3 || blocks[0] == 2, "{blocks:?}");
        }
    }

    #[test]
    fn names_count_until_their_directory_is_synced() {
        let text = "made\t1\t/d/a\nrenamed\t2\t/d/b\t/d/a\t\nremoved\t3\t/e/c\t/u/kept-3\n";
        let numbers = |text: &str| -> Vec<u64> {
            unsynced_names(text).iter().map(|named| named.number).collect()
        };
        assert_eq!(numbers(text), [1, 2, 3]);
        assert_eq!(numbers(&format!("{text}synced\t1\t/d\n")), [2, 3]);
        assert_eq!(numbers(&format!("{text}synced\t3\t/e\n")), [1, 2]);
        let names = unsynced_names(text);
        assert_eq!((&names[1].before, &names[1].kept), (&Some(PathBuf::from("/d/a")), &None));
        assert_eq!(names[2].kept, Some(PathBuf::from("/u/kept-3")));
    }
}
