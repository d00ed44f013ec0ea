//! Change sequence numbers: when a change was decided, and by which server.

use std::fmt;

use environment::{Timestamp, push_digits};

/// A change sequence number (draft-chu-ldap-csn): orders the changes of all servers.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Csn {
    /// When the change was decided, never earlier than the change before it.
    pub time: Timestamp,
    /// Tells changes of the same time apart; this server gives each a time of its own.
    pub count: u32,
    /// The server that decided.
    pub replica: u16,
    /// Tells modifications of one operation apart; always 0 here.
    pub modification: u32,
}

/// Of its text, where no part has more digits than its width.
const CSN_BYTES: usize = 40;

impl Csn {
    /// The first change decided at `time`, by a server that is alone.
    pub const fn at(time: Timestamp) -> Self {
        Self { time, count: 0, replica: 0, modification: 0 }
    }

    /// Its text; `compact` is that of the second of its time.
    pub fn written(&self, compact: &str) -> String {
        let mut text = String::with_capacity(CSN_BYTES);
        text.push_str(compact);
        text.push('.');
        push_digits::<10>(&mut text, self.time.0 % 1_000_000, 6);
        text.push_str("Z#");
        push_digits::<16>(&mut text, self.count.into(), 6);
        text.push('#');
        push_digits::<16>(&mut text, self.replica.into(), 3);
        text.push('#');
        push_digits::<16>(&mut text, self.modification.into(), 6);
        text
    }
}

impl fmt::Display for Csn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written(&self.time.compact()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_csn_shows() {
        let time = Timestamp(1_735_689_599_000_042);
        let csn = Csn { time, count: 0x1f, replica: 0xabc, modification: 2 };
        assert_eq!(csn.to_string(), "20241231235959.000042Z#00001f#abc#000002");
    }
}
