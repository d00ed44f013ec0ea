//! Members that do not speak the same version of what members say to each other: which of them
//! speaks what, and what is to be done, in sentences.
//!
//! Invariant: the log is told when that changes, not whenever it matters.

use std::collections::BTreeMap;

use crate::transport::PROTOCOL;

/// What one member speaks.
#[derive(Clone, Copy)]
pub(crate) struct Versions {
    pub(crate) id: u64,
    /// The form in which updates are handed on.
    pub(crate) asks: u16,
    /// Up to which level change records can be read.
    pub(crate) level: u16,
}

/// What others were found to speak, by their numbers.
pub(crate) struct Heard {
    /// Of the protocol, where it is another one: they cannot be asked anything.
    pub(crate) protocols: BTreeMap<u64, u16>,
    /// The form in which updates are handed on.
    pub(crate) asks: BTreeMap<u64, u16>,
    /// Up to which level they can read change records.
    pub(crate) levels: BTreeMap<u64, u16>,
}

impl Versions {
    /// A sentence for each other member that speaks another version of something.
    pub(crate) fn differing(self, heard: &Heard) -> Vec<String> {
        let protocol = Spoken {
            what: "the members' protocol",
            version: PROTOCOL,
            follows: "they do not talk to each other",
        };
        let asks = Spoken {
            what: "the form in which updates are handed on",
            version: self.asks,
            follows: "updates that one would hand to the other are refused",
        };
        let level = Spoken {
            what: "change records",
            version: self.level,
            follows: "no change is made that takes records which only one of them can read",
        };
        let all = [(protocol, &heard.protocols), (asks, &heard.asks), (level, &heard.levels)];
        let against = |(spoken, others): &(Spoken, &BTreeMap<u64, u16>)| {
            let others = others.iter();
            others
                .filter_map(|(id, theirs)| spoken.against(self.id, *id, *theirs))
                .collect::<Vec<_>>()
        };
        all.iter().flat_map(against).collect()
    }
}

/// Tells the log what is new, and that nothing is left.
pub(crate) fn tell(before: &[String], now: &[String]) {
    for sentence in now.iter().filter(|sentence| !before.contains(sentence)) {
        tracing::error!("{sentence}");
    }
    if now.is_empty() && !before.is_empty() {
        tracing::info!("all members speak the same versions again");
    }
}

/// Something that has versions, and which of them is spoken here.
struct Spoken {
    what: &'static str,
    version: u16,
    follows: &'static str,
}

impl Spoken {
    fn against(&self, own: u64, other: u64, theirs: u16) -> Option<String> {
        let Self { what, version, follows } = self;
        let older = if theirs < *version { other } else { own };
        (theirs != *version).then(|| {
            format!(
                "member {other} speaks version {theirs} of {what}, and member {own} version \
                 {version}: {follows}; upgrade member {older}"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_speaks_the_older_version_is_to_be_upgraded() {
        let own = Versions { id: 2, asks: 3, level: 4 };
        let heard = Heard {
            protocols: [(1, PROTOCOL + 1)].into(),
            asks: [(3, 1), (4, 3)].into(),
            levels: [(3, 3), (4, 4)].into(),
        };
        assert_eq!(
            own.differing(&heard),
            [
                "member 1 speaks version 2 of the members' protocol, and member 2 version 1: they \
                 do not talk to each other; upgrade member 2",
                "member 3 speaks version 1 of the form in which updates are handed on, and member \
                 2 version 3: updates that one would hand to the other are refused; upgrade \
                 member 3",
                "member 3 speaks version 3 of change records, and member 2 version 4: no change is \
                 made that takes records which only one of them can read; upgrade member 3",
            ]
        );
    }
}
