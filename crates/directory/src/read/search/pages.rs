//! Pages (RFC 2696): where one begins, where it ends, and what its cookie is bound to.

use schema::EntryId;

use super::outcome::Done;
use super::parked::Phase;
use super::request::Search;
use crate::request::controls::paged::Position;
use crate::request::cookie::{self, CookieFault, CookieKind};
use crate::request::refusal::Refusal;

impl Search<'_> {
    /// The end of a search that has no more entries to give.
    pub(crate) fn complete(&self) -> Done {
        match &self.controls.paged {
            None => Done::success(),
            Some(_) => Done::page(&[]),
        }
    }

    /// All that a cookie is bound to: who asks, and what decides which entries there are. What of
    /// them is returned may change from page to page.
    pub(crate) fn binding(&self) -> Vec<u8> {
        let mut binding = Vec::new();
        let asker = self.access.identity().authorization_id();
        for part in [self.request.base, &asker, &self.request.filter.to_string()] {
            binding.extend_from_slice(&(part.len() as u64).to_be_bytes());
            binding.extend_from_slice(part.as_bytes());
        }
        let subentries = match self.controls.subentries {
            None => 0,
            Some(visibility) => 1 + u8::from(visibility),
        };
        let flags = [
            self.request.scope as u8,
            self.request.deref as u8,
            u8::from(self.controls.manage_dsa_it),
            subentries,
        ];
        binding.extend_from_slice(&flags);
        binding
    }

    /// A cookie for the client to keep.
    pub(crate) fn seal(&self, kind: CookieKind, content: &[u8], binding: &[u8]) -> Vec<u8> {
        let directory = self.directory;
        directory.cookie_key.seal(kind, content, binding, &mut *directory.chance())
    }

    /// Where candidates in the order of their ids begin: at the first, or where the page before
    /// ended. Pages of a sorted search have a position of their own.
    pub(super) fn start(&self) -> Result<Position, Refusal> {
        let is_by_id = match self.resumed.map(|parked| &parked.phase) {
            None => !self.is_sorted(),
            Some(Phase::Candidates { .. } | Phase::Counted { .. }) => true,
            Some(
                Phase::Sorted(_)
                | Phase::References { .. }
                | Phase::Made { .. }
                | Phase::AsBefore
                | Phase::Stream
                | Phase::Changes { .. },
            ) => false,
        };
        if is_by_id { self.page_start() } else { Ok(Position { after: EntryId::ROOT, sent: 0 }) }
    }

    /// Where the page begins.
    pub(super) fn page_start(&self) -> Result<Position, Refusal> {
        match &self.controls.paged {
            Some(paged) if !paged.cookie.is_empty() => {
                let key = &self.directory.cookie_key;
                let content = key.open(cookie::PAGE, paged.cookie, &self.binding())?;
                Position::from_octets(&content).ok_or_else(|| CookieFault::Malformed.into())
            }
            Some(_) | None => Ok(Position { after: EntryId::ROOT, sent: 0 }),
        }
    }
}
