//! The operational attributes of RFC 4512 §3.4 that the writer stamps, and the CSN.

use aci::Identity;

use crate::clock::Timestamp;

/// What one decided change is stamped with. Made by the writer alone, in order.
#[derive(Clone, Debug)]
pub(crate) struct Stamp {
    /// `createTimestamp`, `modifyTimestamp`: GeneralizedTime of whole seconds.
    pub(crate) time: String,
    /// `entryCSN`.
    pub(crate) csn: String,
    /// `creatorsName`, `modifiersName`; empty for changes made anonymously.
    pub(crate) name: String,
}

/// Hands out stamps that only grow, whatever the clock does.
#[derive(Debug, Default)]
pub(crate) struct Stamper {
    last: u64,
}

impl Stamper {
    /// The stamp of a change made by `identity` at `now`; never earlier than the one before.
    pub(crate) fn stamp(&mut self, now: Timestamp, identity: &Identity) -> Stamp {
        let moment = Timestamp(now.0.max(self.last + 1));
        self.last = moment.0;
        let micros = moment.0 % 1_000_000;
        Stamp {
            time: moment.generalized_time(),
            // draft-chu-ldap-csn: time, change count, replica id, modification number.
            csn: format!("{}.{micros:06}Z#000000#000#000000", moment.compact()),
            name: identity.dn().map(ToString::to_string).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_grow_even_when_the_clock_goes_back() {
        let mut stamper = Stamper::default();
        let early = stamper.stamp(Timestamp(5_000_000), &Identity::Anonymous);
        let late = stamper.stamp(Timestamp(1_000_000), &Identity::Anonymous);
        assert_eq!(early.csn, "19700101000005.000000Z#000000#000#000000");
        assert_eq!(late.csn, "19700101000005.000001Z#000000#000#000000");
    }
}
