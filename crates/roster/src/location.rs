//! Where the data directory of a server is, for all commands alike.
//!
//! Invariant: it is where `roster serve` finds it: by --data, else by ROSTER_SERVER__DATA, else by
//! what `server.data` is by default.

use std::path::PathBuf;

use clap::Args;
use server::{OwnSources, Settings};

use crate::failure::Failure;
use crate::serving::environment;

/// Where the data directory is if nobody says where, as `server.data` is by default.
pub(crate) const DATA_DEFAULT: &str = "/var/lib/roster";
/// The variable of that setting.
pub(crate) const DATA_VARIABLE: &str = "ROSTER_SERVER__DATA";

/// Where the data directory of a server is, and its settings.
#[derive(Args, Debug)]
pub(crate) struct DataLocation {
    /// The data directory of the server
    #[arg(short, long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Settings that the server reads from elsewhere, as with 'roster serve --config'
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl DataLocation {
    /// Whether somebody says where it is.
    pub(crate) fn is_named(&self) -> bool {
        self.data.is_some() || self.config.is_some()
    }

    /// The settings that the server has, as far as this machine says.
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        let data = self.data.as_ref().map(|data| ("server.data", data.display().to_string()));
        let overrides: Vec<_> = data.into_iter().collect();
        let sources = OwnSources::read(self.config.as_deref(), environment(), &overrides, None)?;
        Ok(sources.load(&[])?.settings)
    }
}
