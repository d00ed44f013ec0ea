//! Files of entries that an import did not take: LDIF again, the reason in a comment before each.
//!
//! Invariant: what is corrected in such a file can be imported from it.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A file of entries that were refused or left out.
#[derive(Debug)]
pub(crate) struct Rejects {
    path: PathBuf,
    out: BufWriter<File>,
    /// What went wrong first; nothing is written after it.
    failed: Option<io::Error>,
}

impl Rejects {
    /// Makes the file; one that is there is overwritten.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let file = File::create(path).map_err(|error| Failure::path("write", path, &error))?;
        Ok(Self { path: path.to_path_buf(), out: BufWriter::new(file), failed: None })
    }

    /// Adds an entry: where it came from, why it was not taken, and its text if it has one.
    pub(crate) fn write(&mut self, place: (&str, u64), reason: &str, ldif: Option<&[u8]>) {
        if self.failed.is_none()
            && let Err(error) = write_record(&mut self.out, place, reason, ldif)
        {
            self.failed = Some(error);
        }
    }

    /// Whether it could be written so far.
    pub(crate) const fn is_whole(&self) -> bool {
        self.failed.is_none()
    }

    /// Ends the file.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let flushed = self.out.flush();
        let failed = self.failed.map_or(flushed, Err);
        failed.map_err(|error| Failure::path("write", &self.path, &error))
    }
}

fn write_record(
    out: &mut impl Write,
    (source, line): (&str, u64),
    reason: &str,
    ldif: Option<&[u8]>,
) -> io::Result<()> {
    // A comment is one line.
    let comment = format!("{source}:{line}: {reason}").replace(char::is_control, " ");
    writeln!(out, "# {comment}")?;
    let ldif = ldif.unwrap_or_default();
    let text = ldif.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(ldif);
    let line_ends = text.iter().rev().take_while(|octet| matches!(octet, b'\r' | b'\n')).count();
    out.write_all(text.get(..text.len() - line_ends).unwrap_or_default())?;
    out.write_all(if text.is_empty() { b"\n" } else { b"\n\n" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_stands_below_its_reason() {
        let mut out = Vec::new();
        write_record(
            &mut out,
            ("a\nb", 7),
            "is\rwrong",
            Some(b"\xEF\xBB\xBFdn: x\r\nsn: x\r\n\r\n"),
        )
        .unwrap();
        write_record(&mut out, ("b", 8), "is too long", None).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "# a b:7: is wrong\ndn: x\r\nsn: x\n\n# b:8: is too long\n\n");
    }
}
