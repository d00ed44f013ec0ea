//! What the server here did not take: counted by reason, and kept in a file as LDIF that can be
//! imported when it is corrected.
//!
//! Invariant: what is kept in memory of refusals does not grow with their number.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::output;
use crate::rejects::write_record;

/// Refusals.
#[derive(Debug, Default)]
pub(super) struct Refused {
    pub(super) count: u64,
    reasons: BTreeMap<String, u64>,
    file: Option<(PathBuf, File)>,
}

impl Refused {
    /// With a file, to which is added what others left there.
    pub(super) fn new(path: Option<&Path>) -> Result<Self, Failure> {
        let open = |path: &Path| {
            let mut options = OpenOptions::new();
            let file = options.append(true).create(true).mode(0o600).open(path);
            let file = file.map_err(|error| Failure::path("write", path, &error))?;
            Ok::<_, Failure>((path.to_path_buf(), file))
        };
        Ok(Self { file: path.map(open).transpose()?, ..Self::default() })
    }

    /// Notes a refusal; the first few are told at once.
    pub(super) fn note(&mut self, dn: &str, reason: &str, ldif: Option<&[u8]>) {
        self.count += 1;
        if self.count <= TOLD_MAX {
            output::note(format_args!(
                "roster: warning: refused: {}: {}",
                output::within_line(dn),
                output::within_line(reason)
            ));
        }
        if self.count == TOLD_MAX && self.file.is_none() {
            let text = "further refusals are counted; --reject-file FILE keeps them";
            output::note(format_args!("roster: note: {text}"));
        }
        let is_known = self.reasons.contains_key(reason) || self.reasons.len() < REASONS_MAX;
        let reason = if is_known { reason } else { "other reasons" };
        *self.reasons.entry(reason.to_owned()).or_default() += 1;
        if let Some((path, file)) = &mut self.file {
            let mut text = Vec::new();
            let _ = write_record(&mut text, dn, 0, reason, ldif);
            if let Err(error) = file.write_all(&text) {
                let failure = Failure::path("write", path, &error);
                output::note(format_args!("roster: warning: {}", failure.message));
                self.file = None;
            }
        }
    }

    /// The reasons, and how often each was given.
    pub(super) fn tell(&self) {
        if self.count == 0 {
            return;
        }
        output::note(format_args!("{} changes were refused here:", self.count));
        for (reason, count) in &self.reasons {
            output::note(format_args!("  {count} times {}", output::within_line(reason)));
        }
    }
}

/// Refusals that are told one by one.
const TOLD_MAX: u64 = 20;
/// Reasons that are counted each on its own.
const REASONS_MAX: usize = 1_000;
