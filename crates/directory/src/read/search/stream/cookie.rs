//! Cookies of content synchronisation: where a consumer is.
//!
//! They are text as OpenLDAP's are, `rid=1,csn=20261127150405.000000Z#000000#001#000000,at=…`: its
//! consumers keep the `csn` and send that alone after a restart. `at` is ours, sealed: the number
//! of the last change and the running hash after it, so that a history that was restored is told
//! from the one the consumer knows, and what the rules asked of the world.
//!
//! Invariant: a cookie names a position and gives no right. One with a `csn` alone does not say
//! what its reader could see then: it is taken from those whom no rules concern, and only they are
//! told when the last change was made.

use std::str;
use std::time::Duration;

use aci::Privilege;
use history::log::Tail as _;
use history::record::RecordHead;
use store::Lsn;

use super::state::StreamPosition;
use crate::access::guard::Guard;
use crate::config::join_tokens::{hex, octets};
use crate::password_policy::attributes::time;
use crate::read::search::request::Search;
use crate::request::cookie::SYNC;

/// The parts of a cookie.
#[derive(Debug, Default, Eq, PartialEq)]
struct Parts<'c> {
    rid: Option<&'c str>,
    csns: Option<&'c str>,
    at: Option<&'c str>,
}

impl<'c> Parts<'c> {
    fn of(cookie: &'c [u8]) -> Self {
        let mut parts = Self::default();
        for part in str::from_utf8(cookie).unwrap_or_default().split(',') {
            match part.split_once('=') {
                Some(("rid", rid)) => parts.rid = Some(rid),
                Some(("csn", csns)) => parts.csns = Some(csns),
                Some(("at", at)) => parts.at = Some(at),
                Some(_) | None => {}
            }
        }
        parts
    }

    /// The number of the consumer, as it has it.
    fn consumer(&self) -> &'c str {
        let is_number = |rid: &&str| rid.len() == 3 && rid.bytes().all(|one| one.is_ascii_digit());
        self.rid.filter(is_number).unwrap_or("000")
    }
}

impl Search<'_> {
    /// What the consumer is to keep.
    pub(super) fn cookie(&self, at: &StreamPosition) -> Vec<u8> {
        let StreamPosition { lsn, hash, standing, .. } = at;
        let content: Vec<u8> =
            [lsn.0, *hash, *standing].into_iter().flat_map(u64::to_be_bytes).collect();
        let directory = self.directory;
        let (binding, chance) = (self.sync_binding(), &mut *directory.chance());
        let sealed = directory.sync_key.seal(SYNC, &content, &binding, chance);
        let asked = self.controls.sync.as_ref().and_then(|asked| asked.cookie);
        let rid = Parts::of(asked.unwrap_or_default()).consumer();
        // When the last change was made is for those who may see all changes.
        let sees_all = self.access.has(Privilege::BypassAcl);
        let csn = sees_all.then(|| self.csn(*lsn)).flatten();
        let csn = csn.map(|csn| format!("csn={csn},")).unwrap_or_default();
        format!("rid={rid},{csn}at={}", hex(&sealed)).into_bytes()
    }

    /// When a record was decided, and where, if it is kept.
    fn csn(&self, lsn: Lsn) -> Option<String> {
        let directory = self.directory;
        let (changes, schema) = (directory.changes(), directory.schema());
        if let Ok(Some(told)) = directory.streams.record(&changes, &schema, lsn) {
            return Some(told.record.csn.to_string());
        }
        let record = changes.read(lsn).ok()?.next_within(Duration::ZERO).ok()??;
        Some(RecordHead::read(&record.bytes).ok()?.csn.to_string())
    }

    /// Where a consumer is, and the running hash there; none when what follows cannot be told.
    pub(super) fn position_of(&self, cookie: &[u8], guard: &Guard<'_>) -> Option<(Lsn, u64)> {
        let parts = Parts::of(cookie);
        let (lsn, hash) = match parts.at {
            Some(at) => self.sealed(at, guard)?,
            None => parts.csns.filter(|_| guard.is_bypassed())?.split(';').find_map(|csn| {
                // Servers that never decided anything are among them.
                self.decided_at(csn)
            })?,
        };
        self.directory.changes().read_after(lsn, hash).is_ok().then_some((lsn, hash))
    }

    fn sealed(&self, at: &str, guard: &Guard<'_>) -> Option<(Lsn, u64)> {
        let sealed: [u8; SYNC.cookie_bytes()] = octets(at).ok()?;
        let content = self.directory.sync_key.open(SYNC, &sealed, &self.sync_binding()).ok()?;
        let [lsn, hash, standing] = *content.as_chunks::<8>().0 else { return None };
        let is_same = u64::from_be_bytes(standing) == self.standing(guard);
        is_same.then(|| (Lsn(u64::from_be_bytes(lsn)), u64::from_be_bytes(hash)))
    }

    /// The record with this CSN.
    fn decided_at(&self, csn: &str) -> Option<(Lsn, u64)> {
        let moment = time(csn.split('#').next()?)?;
        let (changes, bounds) = (self.directory.changes(), self.bounds());
        let mut is_over = || {
            self.spend(LOOK_STEPS);
            self.ended(&bounds).is_some()
        };
        let lsn = changes.first_since(moment, &mut is_over).ok()??;
        let record = changes.read(lsn).ok()?.next_within(Duration::ZERO).ok()??;
        let head = RecordHead::read(&record.bytes).ok()?;
        (head.csn.to_string() == csn).then_some((lsn, record.hash))
    }

    /// All that a cookie is bound to: who asks, which entries, and what of them.
    fn sync_binding(&self) -> Vec<u8> {
        let mut binding = self.binding();
        binding.push(u8::from(self.request.types_only));
        for attribute in self.request.attributes.iter() {
            binding.extend_from_slice(&(attribute.len() as u64).to_be_bytes());
            binding.extend_from_slice(attribute.as_bytes());
        }
        binding
    }
}

/// Steps that it takes to look at a record.
const LOOK_STEPS: u64 = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_cookie_are_told_apart() {
        let parts = Parts::of(b"rid=007,sid=001,csn=a#b;c#d,at=00ff");
        let want = Parts { rid: Some("007"), csns: Some("a#b;c#d"), at: Some("00ff") };
        assert_eq!((parts.consumer(), parts), ("007", want));
        for other in [&b""[..], b"x", b"\xff", b"=,,=", b"rid=1234567,rid"] {
            let parts = Parts::of(other);
            assert_eq!((parts.consumer(), parts.csns, parts.at), ("000", None, None));
        }
    }
}
