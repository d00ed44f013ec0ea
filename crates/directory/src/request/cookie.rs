//! Cookies: what a client keeps for the server and sends back, encrypted and authenticated.
//!
//! Invariants: a cookie tells nothing but its kind. Its octets are those of AES-256-GCM-SIV under a
//! key of this process, or one of this directory, with a nonce drawn for it alone (but for those of
//! the external change log, which are to be equal for equal places); its length is that of its
//! kind, whatever it holds.
//! Invariant: a cookie opens only as the kind it was sealed as, and for what it was bound to.

use aws_lc_rs::aead::{
    AES_256_GCM_SIV, Aad, LessSafeKey, MAX_TAG_LEN, NONCE_LEN, Nonce, UnboundKey,
};
use environment::Chance;
use ldap::control_value::sort::SORT_KEYS_MAX;
use ldap::result::ResultCode;
use zeroize::Zeroizing;

use crate::request::controls::sort::SORT_KEY_MAX_BYTES;
use crate::request::refusal::Refusal;

/// What is sealed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CookieKind {
    /// Tells kinds apart; no two have the same.
    pub(crate) name: &'static str,
    /// The most octets of content: every cookie of the kind is as long as one with so many.
    pub(crate) content_max_bytes: usize,
}

impl CookieKind {
    /// Octets that are encrypted.
    const fn plain_bytes(self) -> usize {
        (LENGTH_BYTES + self.content_max_bytes).next_multiple_of(BLOCK_BYTES)
    }

    /// Octets of a cookie.
    pub(crate) const fn cookie_bytes(self) -> usize {
        NONCE_LEN + self.plain_bytes() + MAX_TAG_LEN
    }
}

/// Why a cookie does not open.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CookieFault {
    /// It has not the form of one.
    Malformed,
    /// It was altered, or sealed for something else, or by another process.
    Foreign,
}

impl From<CookieFault> for Refusal {
    fn from(fault: CookieFault) -> Self {
        match fault {
            CookieFault::Malformed => {
                Self::new(ResultCode::ProtocolError, "the paged results cookie is malformed")
            }
            CookieFault::Foreign => Self::new(
                ResultCode::UnwillingToPerform,
                "the paged results cookie does not belong to this search: start again without one",
            ),
        }
    }
}

/// Seals and opens cookies.
pub(crate) struct CookieKey(LessSafeKey);

impl CookieKey {
    /// A key that nobody else has.
    pub(crate) fn new(chance: &mut dyn Chance) -> Self {
        let mut octets = Zeroizing::new([0; KEY_BYTES]);
        chance.fill(&mut *octets);
        Self::of(&*octets)
    }

    /// The key with these octets, which are as many as those of one have to be.
    pub(crate) fn of(octets: &[u8]) -> Self {
        let key = UnboundKey::new(&AES_256_GCM_SIV, octets);
        Self(LessSafeKey::new(key.expect("it has the length of the algorithm's keys")))
    }

    /// A cookie that holds `content` and is of use only for what `binding` stands for.
    // Nonces are random. They need no count: this algorithm stays safe when one comes twice, which
    // then tells that two cookies hold the same (RFC 8452 §9), and that is likely after 2^48 only.
    pub(crate) fn seal(
        &self,
        kind: CookieKind,
        content: &[u8],
        binding: &[u8],
        chance: &mut dyn Chance,
    ) -> Vec<u8> {
        let mut nonce = [0; NONCE_LEN];
        chance.fill(&mut nonce);
        self.seal_with(nonce, kind, content, binding)
    }

    /// A cookie that holds `content`, and is the same for the same content: it tells who has
    /// another one whether they are equal, and nothing else (RFC 8452 §9).
    pub(crate) fn seal_equally(&self, kind: CookieKind, content: &[u8]) -> Vec<u8> {
        self.seal_with([0; NONCE_LEN], kind, content, b"")
    }

    fn seal_with(
        &self,
        nonce: [u8; NONCE_LEN],
        kind: CookieKind,
        content: &[u8],
        binding: &[u8],
    ) -> Vec<u8> {
        assert!(content.len() <= kind.content_max_bytes, "the content of a cookie is bounded");
        let mut cookie = Vec::with_capacity(kind.cookie_bytes());
        cookie.extend_from_slice(&nonce);
        cookie.extend_from_slice(&(content.len() as u32).to_be_bytes());
        cookie.extend_from_slice(content);
        cookie.resize(NONCE_LEN + kind.plain_bytes(), 0);
        let (_, plain) = cookie.split_at_mut(NONCE_LEN);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self.0.seal_in_place_separate_tag(nonce, bound_to(kind, binding), plain);
        cookie.extend_from_slice(tag.expect("so few octets can be encrypted").as_ref());
        cookie
    }

    /// What a cookie holds.
    pub(crate) fn open(
        &self,
        kind: CookieKind,
        cookie: &[u8],
        binding: &[u8],
    ) -> Result<Vec<u8>, CookieFault> {
        // Before anything is copied: whoever sends something longer has not got it here.
        if cookie.len() != kind.cookie_bytes() {
            let is_one = has_form(cookie.len());
            return Err(if is_one { CookieFault::Foreign } else { CookieFault::Malformed });
        }
        let (nonce, sealed) = cookie.split_first_chunk().ok_or(CookieFault::Malformed)?;
        let mut octets = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.0.open_in_place(nonce, bound_to(kind, binding), &mut octets);
        let plain = opened.map_err(|_| CookieFault::Foreign)?;
        let (length, rest) = plain.split_first_chunk().ok_or(CookieFault::Malformed)?;
        let content = rest.get(..u32::from_be_bytes(*length) as usize);
        content.map(<[u8]>::to_vec).ok_or(CookieFault::Malformed)
    }
}

/// Whether cookies of some kind may have so many octets.
fn has_form(octets: usize) -> bool {
    let plain = octets.checked_sub(NONCE_LEN + MAX_TAG_LEN);
    plain.is_some_and(|plain| plain > 0 && plain.is_multiple_of(BLOCK_BYTES))
        && octets <= sorted_page(SORT_KEYS_MAX * SORT_KEY_MAX_BYTES).cookie_bytes()
}

fn bound_to(kind: CookieKind, binding: &[u8]) -> Aad<Vec<u8>> {
    let length = (kind.name.len() as u64).to_be_bytes();
    Aad::from([&length[..], kind.name.as_bytes(), binding].concat())
}

/// The end of a page in the order of ids: see [`crate::request::controls::paged::Position`].
pub(crate) const PAGE: CookieKind = CookieKind { name: "page", content_max_bytes: 12 };

/// The end of a page of changes: the number and the part of the last one, and how many entries were
/// sent.
pub(crate) const CHANGES: CookieKind =
    CookieKind { name: "page of changes", content_max_bytes: 16 };

/// The end of a page of a sorted search: entries that were sent, the id of the last one, and its
/// key, which has so many octets at most.
pub(crate) const fn sorted_page(key_max_bytes: usize) -> CookieKind {
    CookieKind { name: "sorted page", content_max_bytes: 12 + key_max_bytes }
}

/// The context of a virtual list view.
pub(crate) const LIST_VIEW: CookieKind =
    CookieKind { name: "virtual list view", content_max_bytes: 32 };

/// Behind which change a reader of the external change log goes on: its number, the running hash
/// after it, and a part of it.
pub(crate) const EXTERNAL_CHANGES: CookieKind =
    CookieKind { name: "external change log", content_max_bytes: 20 };

/// The number of a change.
pub(crate) const POSITION: CookieKind = CookieKind { name: "position", content_max_bytes: 8 };

/// Where a consumer of content synchronisation is: the number of the last change, the running hash
/// after it, and what the rules asked of the world.
pub(crate) const SYNC: CookieKind = CookieKind { name: "synchronisation", content_max_bytes: 24 };

/// Whether any octets open as a cookie of any kind, under a key that nobody has.
///
/// For fuzzing: it never does, and never panics.
#[cfg(any(test, feature = "test-support"))]
pub fn opens_as_cookie(octets: &[u8]) -> bool {
    let key = CookieKey::new(&mut *environment::os_chance());
    [PAGE, CHANGES, sorted_page(1_024), LIST_VIEW, POSITION, EXTERNAL_CHANGES, SYNC]
        .into_iter()
        .any(|kind| {
            let mut sized = octets.to_vec();
            sized.resize(kind.cookie_bytes(), 0);
            key.open(kind, octets, octets).is_ok() || key.open(kind, &sized, octets).is_ok()
        })
}

const KEY_BYTES: usize = 32;

/// What says how much of the plain text is content.
const LENGTH_BYTES: usize = 4;

/// Plain texts are a multiple of this.
const BLOCK_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use environment::SeededChance;

    const SORTED: CookieKind = sorted_page(1_027);

    fn kinds() -> [CookieKind; 6] {
        [PAGE, CHANGES, SORTED, LIST_VIEW, POSITION, SYNC]
    }

    #[test]
    fn a_cookie_opens_as_what_it_was_sealed_as_and_for_what_it_was_bound_to() {
        let mut chance = SeededChance(1);
        let (key, other) = (CookieKey::new(&mut chance), CookieKey::new(&mut chance));
        for kind in kinds() {
            for length in [0, 1, kind.content_max_bytes] {
                let content = vec![7; length];
                let cookie = key.seal(kind, &content, b"search", &mut chance);
                assert_eq!(key.open(kind, &cookie, b"search"), Ok(content));
                for foreign in [
                    key.open(kind, &cookie, b"searc"),
                    key.open(CookieKind { name: "other", ..kind }, &cookie, b"search"),
                    other.open(kind, &cookie, b"search"),
                ] {
                    assert_eq!(foreign, Err(CookieFault::Foreign));
                }
            }
        }
    }

    #[test]
    fn what_has_not_the_form_of_a_cookie_is_malformed() {
        let key = CookieKey::new(&mut SeededChance(5));
        let longest = sorted_page(SORT_KEYS_MAX * SORT_KEY_MAX_BYTES).cookie_bytes();
        let forms: Vec<usize> = (0..longest + 200)
            .filter(|&octets| key.open(PAGE, &vec![1; octets], b"") == Err(CookieFault::Foreign))
            .collect();
        let want: Vec<usize> = (PAGE.cookie_bytes()..=longest).step_by(BLOCK_BYTES).collect();
        assert_eq!(forms, want);
    }

    #[test]
    fn cookies_of_one_kind_are_equally_long_and_never_equal() {
        let mut chance = SeededChance(2);
        let key = CookieKey::new(&mut chance);
        for kind in kinds() {
            let mut seen = std::collections::HashSet::new();
            for length in 0..=kind.content_max_bytes {
                let content = vec![0; length];
                for _ in 0..2 {
                    let cookie = key.seal(kind, &content, b"", &mut chance);
                    assert_eq!(cookie.len(), kind.cookie_bytes());
                    assert!(seen.insert(cookie), "the same position twice");
                }
            }
        }
    }

    #[test]
    fn the_octets_of_a_cookie_tell_nothing_of_its_content() {
        let mut chance = SeededChance(3);
        let key = CookieKey::new(&mut chance);
        let (rounds, kind) = (2_000, LIST_VIEW);
        // Of two contents that differ in all bits, each bit of a cookie is set as often.
        for content in [[0; 32], [0xff; 32]] {
            let mut set = vec![0; kind.cookie_bytes() * 8];
            for _ in 0..rounds {
                let cookie = key.seal(kind, &content, b"", &mut chance);
                for (at, count) in set.iter_mut().enumerate() {
                    *count += u32::from(cookie[at / 8] >> (at % 8) & 1);
                }
            }
            // Half of them, to within ten standard deviations.
            assert!(set.iter().all(|count| (776..1_224).contains(count)), "{set:?}");
        }
    }

    #[test]
    fn no_octets_open() {
        let mut chance = SeededChance(4);
        for round in 0..300 {
            let mut octets = vec![0; round * 5];
            chance.fill(&mut octets);
            assert!(!opens_as_cookie(&octets));
        }
    }
}
