//! Cookies of the external change log: behind which change a reader goes on, on any server of the
//! directory and at any time.
//!
//! Invariant: a cookie is good for one history alone, and tells nothing of it: it is encrypted
//! under a key that follows from the number of the store, since the running hash would let a reader
//! try out what a change holds that he may not see.
//! Invariant: the same place has the same cookie, so readers can compare them.

use std::fmt::Write as _;

use auth::scram::ScramHash;
use ldap::result::ResultCode;
use store::Lsn;

use crate::request::cookie::{CookieKey, EXTERNAL_CHANGES};
use crate::request::refusal::Refusal;

/// Behind which change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ChangeCookie {
    pub(crate) lsn: Lsn,
    /// The running hash after it.
    pub(crate) hash: u64,
    /// Behind which of its parts, counted from 1; none: behind all of them.
    pub(crate) part: Option<u32>,
}

/// Writes and reads cookies.
pub(crate) struct ChangeCookieKey(CookieKey);

impl ChangeCookieKey {
    /// That of all servers of the store with this number.
    pub(crate) fn of(store: &[u8; 16]) -> Self {
        Self(CookieKey::of(&ScramHash::Sha256.hmac(store, PURPOSE)))
    }

    /// A cookie as text.
    pub(crate) fn write(&self, cookie: &ChangeCookie) -> String {
        let ChangeCookie { lsn, hash, part } = *cookie;
        let mut content = [0; CONTENT_BYTES];
        let parts =
            [&lsn.0.to_be_bytes()[..], &part.unwrap_or(0).to_be_bytes(), &hash.to_be_bytes()];
        for (place, octet) in content.iter_mut().zip(parts.into_iter().flatten()) {
            *place = *octet;
        }
        let sealed = self.0.seal_equally(EXTERNAL_CHANGES, &content);
        sealed.iter().fold(String::with_capacity(2 * sealed.len()), |mut text, octet| {
            let _ = write!(text, "{octet:02x}");
            text
        })
    }

    /// What a cookie says.
    pub(crate) fn read(&self, text: &str) -> Result<ChangeCookie, Refusal> {
        self.opened(text).ok_or_else(|| {
            Refusal::new(
                ResultCode::UnwillingToPerform,
                "the cookie is none of this directory: begin with an empty cookie, or with the \
                 lastExternalChangelogCookie of the root DSE",
            )
        })
    }

    fn opened(&self, text: &str) -> Option<ChangeCookie> {
        let content = self.0.open(EXTERNAL_CHANGES, &octets(text)?, b"").ok()?;
        let (lsn, rest) = content.split_first_chunk::<8>()?;
        let (part, rest) = rest.split_first_chunk::<4>()?;
        let hash = u64::from_be_bytes(rest.try_into().ok()?);
        let part = Some(u32::from_be_bytes(*part)).filter(|part| *part > 0);
        Some(ChangeCookie { lsn: Lsn(u64::from_be_bytes(*lsn)), hash, part })
    }
}

/// The octets that hexadecimal digits stand for, if they are as many as those of a cookie.
fn octets(text: &str) -> Option<Vec<u8>> {
    if text.len() != 2 * EXTERNAL_CHANGES.cookie_bytes() {
        return None;
    }
    let digits = text.chars().map(|letter| letter.to_digit(16));
    let digits: Vec<u32> = digits.collect::<Option<_>>()?;
    let pairs = digits.as_chunks::<2>().0;
    pairs.iter().map(|[high, low]| u8::try_from(high * 16 + low).ok()).collect()
}

/// Whether a text opens as a cookie under a key that nobody has.
///
/// For fuzzing: it never does, and never panics.
#[cfg(any(test, feature = "test-support"))]
pub fn opens_as_change_cookie(text: &str) -> bool {
    let key = ChangeCookieKey::of(b"of nobody at all");
    key.opened(text).is_some()
}

/// The number, the part and the running hash.
const CONTENT_BYTES: usize = 20;

/// Tells the key from others that follow from the same number.
const PURPOSE: &[u8] = b"cookies of the external change log";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_by_whoever_has_the_number_of_the_store() {
        let (key, other) = (ChangeCookieKey::of(&[7; 16]), ChangeCookieKey::of(&[8; 16]));
        for (lsn, hash, part) in
            [(0, 0, None), (7, u64::MAX, Some(3)), (u64::MAX, 5, Some(u32::MAX))]
        {
            let cookie = ChangeCookie { lsn: Lsn(lsn), hash, part };
            let text = key.write(&cookie);
            assert_eq!(text.len(), 184);
            assert_eq!(key.write(&cookie), text, "a place has one cookie");
            assert_eq!(key.read(&text).ok(), Some(cookie));
            assert_eq!(key.read(&text.to_uppercase()).ok(), Some(cookie));
            assert!(other.read(&text).is_err());
            for at in [0, 30, 100, 183] {
                let mut octets = text.clone().into_bytes();
                octets[at] = if octets[at] == b'0' { b'1' } else { b'0' };
                let altered = String::from_utf8(octets).unwrap();
                assert!(key.read(&altered).is_err(), "{at}");
            }
        }
    }

    #[test]
    fn other_texts_are_no_cookies() {
        let key = ChangeCookieKey::of(&[7; 16]);
        let long = ["0", "x", "ä"].map(|letter| letter.repeat(184));
        let texts = ["", "dc=example,dc=com:0000013;", "00", &long[0], &long[1], &long[2][..184]];
        for text in texts {
            assert!(key.read(text).is_err(), "{text}");
            assert!(!opens_as_change_cookie(text), "{text}");
        }
    }
}
