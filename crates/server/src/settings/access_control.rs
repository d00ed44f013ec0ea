//! `[access_control]`: what access rules ask for, and whom they bind.

use std::time::Duration;

/// `[access_control]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessControlSettings {
    /// Whether the names of clients' hosts are looked up.
    pub host_names: bool,
    /// How long a new connection waits for the name of its host.
    pub host_name_wait: Duration,
    /// Privileges that the administrator lacks, each behind a `-`.
    pub administrator_privileges: Vec<String>,
}
