//! Files of entries that an import did not take: LDIF again, the reason in a comment before each.
//!
//! Invariants: what is corrected in such a file can be imported from it, and the new one may have
//! its name; only its owner may read it, for there are passwords in it.

use std::io::{self, BufWriter, IntoInnerError, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::whole_file::WholeFile;

/// A file of entries that were refused or left out.
#[derive(Debug)]
pub(crate) struct Rejects {
    path: PathBuf,
    out: BufWriter<WholeFile>,
    /// What went wrong first; nothing is written after it.
    failed: Option<io::Error>,
}

impl Rejects {
    /// Begins the file; one that is there stays until the end.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let file = WholeFile::create_private(path)
            .map_err(|error| Failure::path("write", path, &error))?;
        Ok(Self { path: path.to_path_buf(), out: BufWriter::new(file), failed: None })
    }

    /// Adds an entry: where it came from, why it was not taken, and its text if it has one.
    pub(crate) fn write(&mut self, source: &str, line: u64, reason: &str, ldif: Option<&[u8]>) {
        if self.failed.is_none()
            && let Err(error) = write_record(&mut self.out, source, line, reason, ldif)
        {
            self.failed = Some(error);
        }
    }

    /// Whether it could be written so far.
    pub(crate) const fn is_whole(&self) -> bool {
        self.failed.is_none()
    }

    /// Ends the file, which is there only if it is `kept`.
    pub(crate) fn finish(self, kept: bool) -> Result<(), Failure> {
        let Self { path, out, failed } = self;
        let ended = match failed {
            Some(error) => Err(error),
            None if !kept => Ok(()),
            None => {
                out.into_inner().map_err(IntoInnerError::into_error).and_then(WholeFile::finish)
            }
        };
        ended.map_err(|error| Failure::path("write", &path, &error))
    }
}

pub(crate) fn write_record(
    out: &mut impl Write,
    source: &str,
    line: u64,
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
        write_record(&mut out, "a\nb", 7, "is\rwrong", Some(b"\xEF\xBB\xBFdn: x\r\nsn: x\r\n\r\n"))
            .unwrap();
        write_record(&mut out, "b", 8, "is too long", None).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "# a b:7: is wrong\ndn: x\r\nsn: x\n\n# b:8: is too long\n\n");
    }
}
