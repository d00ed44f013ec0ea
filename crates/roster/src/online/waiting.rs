//! What came too early and is taken up again at the end, such as entries whose superiors are not
//! there yet.
//!
//! Invariant: it takes bounded memory; the rest is in a file that nobody else can open.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

/// Octet strings that wait, in the order they came.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// The last of them.
    memory: Vec<u8>,
    memory_max_bytes: usize,
    /// Those before.
    file: Option<File>,
    count: u64,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { memory: Vec::new(), memory_max_bytes: MEMORY_MAX_BYTES, file: None, count: 0 }
    }
}

impl Waiting {
    /// How many there are.
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    /// Puts one behind the others.
    pub(crate) fn push(&mut self, octets: &[u8]) -> io::Result<()> {
        self.memory.extend_from_slice(&(octets.len() as u64).to_le_bytes());
        self.memory.extend_from_slice(octets);
        self.count += 1;
        if self.memory.len() > self.memory_max_bytes {
            let file = match &mut self.file {
                Some(file) => file,
                None => self.file.insert(unnamed_file()?),
            };
            file.write_all(&self.memory)?;
            self.memory.clear();
        }
        Ok(())
    }

    /// Those that waited, in order.
    pub(crate) fn take(&mut self) -> io::Result<Taken> {
        let Self { memory, file, count, .. } = std::mem::take(self);
        let source: Box<dyn Read> = match file {
            Some(mut file) => {
                file.seek(SeekFrom::Start(0))?;
                Box::new(BufReader::new(file).chain(io::Cursor::new(memory)))
            }
            None => Box::new(io::Cursor::new(memory)),
        };
        Ok(Taken { source, left: count })
    }
}

/// Reads what waited.
pub(crate) struct Taken {
    source: Box<dyn Read>,
    left: u64,
}

impl Taken {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 8];
        self.source.read_exact(&mut length)?;
        let length = u64::from_le_bytes(length);
        let mut octets = Vec::new();
        self.source.by_ref().take(length).read_to_end(&mut octets)?;
        if octets.len() as u64 != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(octets)
    }
}

impl Iterator for Taken {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<io::Result<Vec<u8>>> {
        self.left = self.left.checked_sub(1)?;
        Some(self.read())
    }
}

/// A file that goes with the process: it has no name any more, and nobody else may read it, for
/// there are passwords in it.
fn unnamed_file() -> io::Result<File> {
    let name = format!("roster-waiting-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let file =
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

/// Octets that wait in memory.
const MEMORY_MAX_BYTES: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_comes_back_in_order_from_memory_and_file() {
        for memory_max_bytes in [1 << 20, 30] {
            let mut waiting = Waiting { memory_max_bytes, ..Waiting::default() };
            (0..9_u8).for_each(|number| waiting.push(&vec![number; usize::from(number)]).unwrap());
            assert_eq!(waiting.count(), 9);
            assert_eq!(waiting.file.is_some(), memory_max_bytes == 30);
            let all: Vec<Vec<u8>> = waiting.take().unwrap().map(Result::unwrap).collect();
            assert_eq!(all.len(), 9);
            assert_eq!((all[0].len(), &all[3][..]), (0, &[3; 3][..]));
            assert_eq!((waiting.count(), waiting.take().unwrap().count()), (0, 0));
        }
    }
}
