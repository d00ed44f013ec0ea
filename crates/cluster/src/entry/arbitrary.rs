//! What holds for any octets in the place of an entry or a vote: for fuzzing.

use journal::JournalPosition;

use super::{decode, decode_vote, encode, encode_vote};

/// They are an entry that is written the same again, or are refused.
///
/// # Panics
///
/// When they are not.
pub fn check_entry(octets: &[u8]) {
    let place = JournalPosition { term: 1, index: 1 };
    if let Ok(entry) = decode(place, octets.into()) {
        assert_eq!(*encode(&entry.payload), *octets, "another form of the same entry");
    }
}

/// They are a vote that is written the same again, or are refused.
///
/// # Panics
///
/// When they are not.
pub fn check_vote(octets: &[u8]) {
    if let Ok(vote) = decode_vote(octets) {
        assert_eq!(encode_vote(&vote), *octets, "another form of the same vote");
    }
}
