//! A data directory without a server: import, export, backup, restore, check.
//!
//! Start at `import.rs`, `export.rs` and `backup.rs`.
//!
//! Invariant: what only reads changes nothing, and works beside a server; what writes takes the
//! lock of the data directory.
//! Invariant: entries that are loaded are as an add makes them (`directory::loading`).

pub mod backup;
mod check;
mod configuration;
mod export;
mod import;
pub mod in_order;

pub use check::{DirectoryCheck, check};
pub use configuration::{Configuration, ConfigurationError, Setting, SettingKind, SettingRemark};
pub use export::{ExportError, ExportOptions, ExportReport, export, export_watched};
#[cfg(any(test, feature = "test-support"))]
pub use import::translated;
pub use import::{
    EntryTranslator, ImportError, ImportMode, ImportObserver, ImportOptions, ImportPhase,
    ImportReport, OnRefusal, PasswordUse, PlainEntry, Progress, Refused, RuleUse, Skipped, Source,
    Tally, UnknownUse, default_budget_bytes, import,
};
