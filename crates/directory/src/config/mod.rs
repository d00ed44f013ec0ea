//! Changes of the configuration by LDAP (`cn=config`, the schema), and the entries of `cn=monitor`.

pub(crate) mod access_config;
mod asking;
pub(crate) mod assignment_config;
pub(crate) mod change_members;
pub(crate) mod changes;
pub(crate) mod close_session;
pub(crate) mod cluster_monitor;
pub(crate) mod constraint_config;
pub(crate) mod figure_monitor;
pub(crate) mod group_config;
pub(crate) mod index_config;
pub(crate) mod index_monitor;
mod index_needs;
pub(crate) mod init_cluster;
pub(crate) mod join;
pub(crate) mod join_tokens;
pub(crate) mod log_monitor;
pub(crate) mod monitor_sources;
pub(crate) mod promotion;
pub(crate) mod record_level;
pub(crate) mod reference_config;
pub(crate) mod schema_modify;
pub(crate) mod schema_times;
pub(crate) mod session_monitor;
pub(crate) mod setting_config;
pub(crate) mod tls_monitor;
pub(crate) mod verify;
