//! What cannot be made yet, as octets that wait.

use super::goal::Goal;
use super::wanted::Wanted;
use crate::failure::Failure;

/// What waits.
pub(super) struct Parked {
    pub(super) number: u64,
    pub(super) goal: Goal,
    pub(super) reason: String,
}

/// What waits, and why.
pub(super) fn encode(goal: &Goal, reason: &str, number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut put = |octets: &[u8]| {
        out.extend_from_slice(&u32::try_from(octets.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(octets);
    };
    put(reason.as_bytes());
    put(&number.to_le_bytes());
    match goal {
        Goal::Be(Wanted { uuid, dn, body }) => {
            put(uuid);
            put(dn.as_bytes());
            put(body);
        }
        Goal::Go(uuid) => put(uuid),
        // Those are not tried again.
        Goal::GoByName(_) | Goal::GoWithAllBelow(_) | Goal::GoTree(_) | Goal::Rename(_) => {}
    }
    out
}

/// Reads it.
pub(super) fn decode(octets: &[u8]) -> Result<Parked, Failure> {
    let mut rest = octets;
    let mut pull = || {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (taken, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        rest = after;
        Some(taken)
    };
    let read = || {
        let reason = String::from_utf8_lossy(pull()?).into_owned();
        let number = u64::from_le_bytes(pull()?.try_into().ok()?);
        let uuid = pull()?.try_into().ok()?;
        let goal = match pull() {
            None => Goal::Go(uuid),
            Some(dn) => {
                let dn = str::from_utf8(dn).ok()?.to_owned();
                Goal::Be(Wanted { uuid, dn, body: pull()?.to_vec() })
            }
        };
        Some(Parked { number, goal, reason })
    };
    let mut read = read;
    read().ok_or_else(|| spill_failed(&std::io::ErrorKind::InvalidData.into()))
}

/// What waits cannot be kept.
pub(super) fn spill_failed(error: &std::io::Error) -> Failure {
    let reason = crate::failure::plain(error);
    Failure::local(format!("cannot keep entries that wait for others: {reason}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_read_as_it_was_written() {
        let wanted = Wanted { uuid: [7; 16], dn: "cn=a".to_owned(), body: vec![1, 2, 3] };
        let parked = decode(&encode(&Goal::Be(wanted.clone()), "why", 3)).unwrap();
        assert!(matches!(parked.goal, Goal::Be(read) if read == wanted));
        assert_eq!((&*parked.reason, parked.number), ("why", 3));
        let parked = decode(&encode(&Goal::Go([9; 16]), "", 4)).unwrap();
        assert!(matches!(parked.goal, Goal::Go(uuid) if uuid == [9; 16]));
        assert!(decode(b"\x01\x00\x00\x00").is_err());
    }
}
