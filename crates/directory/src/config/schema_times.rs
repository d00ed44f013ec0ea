//! Since when the schema is as it is (RFC 4512 §4.2), for clients that keep a copy of it.
//!
//! Invariant: another schema has a later time, whatever made it another: a change online, a schema
//! file, or another release. A start with the same schema leaves the time as it is.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use environment::Timestamp;
use schema::{DefinitionKind, Schema};
use sha2::{Digest as _, Sha256};

/// When the schema of a data directory was made and when it became what it is; kept in a file.
#[derive(Clone, Debug)]
pub(crate) struct SchemaTimes {
    file: PathBuf,
    created_s: u64,
    modified_s: u64,
    /// Of all definitions, in hexadecimal digits.
    digest: String,
}

impl SchemaTimes {
    /// Those of `data`, where the schema is this one now.
    pub(crate) fn open(data: &Path, schema: &Schema, now: Timestamp) -> Self {
        let file = data.join(FILE);
        let kept = fs::read_to_string(&file).ok();
        let kept = kept.and_then(|text| parse(&text, file.clone()));
        let first = Self { file, created_s: now.seconds(), modified_s: 0, digest: String::new() };
        kept.unwrap_or(first).after(schema, now)
    }

    /// Those of the schema that came after this one. What cannot be written is another time at the
    /// next start: clients then read the same schema once more.
    pub(crate) fn after(&self, schema: &Schema, now: Timestamp) -> Self {
        let digest = digest(schema);
        if digest == self.digest {
            return self.clone();
        }
        // Twice in a second, or by a clock that went back, it is later, too.
        let modified_s = now.seconds().max(self.modified_s.saturating_add(1));
        let times = Self { modified_s, digest, ..self.clone() };
        if let Err(error) = times.write() {
            let file = times.file.display();
            tracing::warn!(%error, %file, "the time of the schema is not kept");
        }
        times
    }

    /// `createTimestamp`.
    pub(crate) fn created(&self) -> String {
        generalized(self.created_s)
    }

    /// `modifyTimestamp`.
    pub(crate) fn modified(&self) -> String {
        generalized(self.modified_s)
    }

    /// Not synced: a file that a power cut has damaged is no file.
    fn write(&self) -> io::Result<()> {
        let new = self.file.with_extension("new");
        fs::write(&new, format!("{} {} {}\n", self.created_s, self.modified_s, self.digest))?;
        fs::rename(new, &self.file)
    }
}

fn parse(text: &str, file: PathBuf) -> Option<SchemaTimes> {
    let mut words = text.split_ascii_whitespace();
    let mut time = || words.next()?.parse().ok().filter(|time| *time < YEAR_10000_S);
    let (created_s, modified_s) = (time()?, time()?);
    let digest = words.next()?.to_owned();
    Some(SchemaTimes { file, created_s, modified_s, digest })
}

fn generalized(seconds: u64) -> String {
    Timestamp(seconds.saturating_mul(1_000_000)).generalized_time()
}

/// In the order of the lines: what was added online comes in another one after a start.
fn digest(schema: &Schema) -> String {
    let mut digest = Sha256::new();
    for kind in DefinitionKind::ALL {
        let mut lines = schema.definitions(kind).collect::<Vec<_>>();
        lines.sort_unstable();
        for line in lines {
            digest.update(kind.attribute());
            digest.update(line);
            digest.update(b"\n");
        }
    }
    digest.finalize().iter().fold(String::new(), |mut text, octet| {
        // Writing to a string does not fail.
        let _ = write!(text, "{octet:02x}");
        text
    })
}

/// The file in the data directory: seconds since 1970 of both times, and the digest.
const FILE: &str = "schema-times";
const YEAR_10000_S: u64 = 253_402_300_800;
