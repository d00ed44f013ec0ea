//! What a server of a cluster needs to tell how fresh its data are.

use std::sync::Arc;

use environment::Clock;
use history::log::CommitLog;
use schema::{DnKey, Schema};

use super::level::DefaultReadLevel;
use super::waiting::WaitingReads;
use crate::error::DirectoryError;
use crate::request::limits::Limits;

/// What is needed to tell how fresh the data are; none in a server that is alone.
pub(crate) struct FreshReads {
    /// Of each naming context that has one, or of a part of it.
    pub(super) contexts: Vec<(DnKey, DefaultReadLevel)>,
    pub(super) waiting: Arc<WaitingReads>,
}

impl FreshReads {
    /// Starts what waits for a log that is not of this server alone.
    ///
    /// # Errors
    /// When a level is that of something that is no name.
    pub(crate) fn of(
        levels: &[(String, DefaultReadLevel)],
        limits: &Limits,
        log: &Arc<dyn CommitLog>,
        clock: &Arc<dyn Clock>,
        schema: &Schema,
    ) -> Result<Self, DirectoryError> {
        let contexts = levels.iter().map(|(text, level)| {
            let key = DnKey::from_text(schema, text).map_err(|error| DirectoryError::Name {
                text: text.clone(),
                reason: error.to_string(),
            });
            Ok((key?, *level))
        });
        let contexts = contexts.collect::<Result<_, DirectoryError>>()?;
        Ok(Self { contexts, waiting: WaitingReads::start(log, clock, limits) })
    }

    /// Nothing waits any more.
    pub(crate) fn close(&self) {
        self.waiting.close();
    }

    /// How many reads wait, and how many may.
    pub(crate) fn depth(&self) -> (usize, usize) {
        self.waiting.depth()
    }

    /// What settings say of a read at `base`.
    pub(super) fn of_context(&self, base: &DnKey) -> DefaultReadLevel {
        let concerns = |key: &DnKey| base.is_within(key) || key.is_within(base);
        let levels = self.contexts.iter().filter(|(key, _)| concerns(key));
        levels.fold(DefaultReadLevel::Local, |all, (_, level)| all.stricter(*level))
    }
}
