//! The faults of the rounds: what is done to a cluster, to which of its nodes, and which comes
//! next.

use std::fmt;

use crate::chance::Chance;

/// What is done to a cluster in one round.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Fault {
    /// `kill -9`, and a start after a time.
    Kill(Victim, Rest),
    /// SIGSTOP, and SIGCONT after a second or more.
    Pause(Victim),
    /// The network between nodes drops packets; clients reach all of them.
    Partition(Partition),
    /// The disk of a node is full for a while.
    FullDisk(Victim),
    /// Every sync of a node takes long for a while.
    SlowDisk(Victim),
    /// The clock of a node is an hour off for a while.
    Clock(Victim),
    /// A bit of the files of a node changes while it is down.
    Flip(Flip),
    /// As a kill; what was not synced is lost in part, torn in blocks of 512 octets.
    Power(Victim, Rest),
    /// Syncs of a part of the files of a node fail, until it is started again.
    FailedSync(Part, Victim),
    /// Who takes part, or who leads, is changed by commands.
    Members(Members),
    /// Nodes are stopped in order, and go on with the program of another release.
    Upgrade(Upgrade),
}

/// To whom.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Victim {
    /// The one that leads.
    Leader,
    /// One that does not.
    Follower,
    /// As many as may be lost, whoever they are.
    Minority,
    /// All nodes.
    All,
}

/// How long a killed node stays down.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Rest {
    /// Less than an election takes.
    Short,
    /// Longer than that.
    Long,
}

/// Which packets between nodes are dropped.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Partition {
    /// All from and to the leader.
    Leader,
    /// All between a minority, whoever they are, and the others.
    Halves,
    /// All from a node to the others, or from the others to it.
    OneWay,
    /// All between two sides; one node reaches both.
    Bridge,
    /// As for the leader, again and again for moments.
    Flapping,
    /// Some, at random.
    Loss,
}

/// Where a bit is another.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Flip {
    /// In a group of the journal that others follow.
    Middle,
    /// In the last group of the journal.
    Tail,
    /// In the newest vote.
    Vote,
    /// In a page of the database.
    Base,
}

/// A part of the files of a node.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Part {
    /// The journal.
    Journal,
    /// The database.
    Base,
}

/// How the members of a cluster change; in the end there are as many voters as before.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Members {
    /// Another voter is made to lead.
    Transfer,
    /// Two followers become learners, and voters again.
    Demote,
    /// A killed node has lost its data, and rejoins in its own place.
    RejoinEmpty,
    /// A killed node has older data, and rejoins in its own place.
    RejoinOlder,
    /// A killed node is replaced by a machine that joins.
    Replace,
    /// A node is removed, and a machine joins.
    Remove,
    /// A node is down until the others have given up what it lacks of the log: it is sent a copy
    /// of the data.
    Away,
}

/// Which nodes get the program of which release.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Upgrade {
    /// All of them that of this release, one after the other.
    Forward,
    /// All of them that of the release before.
    Back,
    /// One of them that of the other release, for some rounds.
    Mixed,
}

/// A kind of fault, as the command line names it.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// Its faults.
    pub faults: &'static [Fault],
    /// Whether nodes are in network namespaces for it, on disks of their own: that takes root.
    pub takes_root: bool,
}

/// All kinds.
pub const KINDS: [Kind; 10] = [
    Kind {
        name: "kill",
        faults: &[
            Fault::Kill(Victim::Leader, Rest::Short),
            Fault::Kill(Victim::Leader, Rest::Long),
            Fault::Kill(Victim::Follower, Rest::Short),
            Fault::Kill(Victim::Follower, Rest::Long),
            Fault::Kill(Victim::Minority, Rest::Short),
            Fault::Kill(Victim::Minority, Rest::Long),
            Fault::Kill(Victim::All, Rest::Short),
            Fault::Kill(Victim::All, Rest::Long),
        ],
        takes_root: false,
    },
    Kind {
        name: "pause",
        faults: &[
            Fault::Pause(Victim::Leader),
            Fault::Pause(Victim::Follower),
            Fault::Pause(Victim::Minority),
        ],
        takes_root: false,
    },
    Kind {
        name: "partition",
        faults: &[
            Fault::Partition(Partition::Leader),
            Fault::Partition(Partition::Halves),
            Fault::Partition(Partition::OneWay),
            Fault::Partition(Partition::Bridge),
            Fault::Partition(Partition::Flapping),
            Fault::Partition(Partition::Loss),
        ],
        takes_root: true,
    },
    Kind {
        name: "disk",
        faults: &[
            Fault::FullDisk(Victim::Leader),
            Fault::FullDisk(Victim::Follower),
            Fault::SlowDisk(Victim::Leader),
            Fault::SlowDisk(Victim::Follower),
            Fault::SlowDisk(Victim::All),
        ],
        takes_root: true,
    },
    Kind {
        name: "clock",
        faults: &[Fault::Clock(Victim::Leader), Fault::Clock(Victim::Follower)],
        takes_root: false,
    },
    Kind {
        name: "flip",
        faults: &[
            Fault::Flip(Flip::Middle),
            Fault::Flip(Flip::Tail),
            Fault::Flip(Flip::Vote),
            Fault::Flip(Flip::Base),
        ],
        takes_root: false,
    },
    Kind {
        name: "power",
        faults: &[
            Fault::Power(Victim::Leader, Rest::Short),
            Fault::Power(Victim::Leader, Rest::Long),
            Fault::Power(Victim::Follower, Rest::Short),
            Fault::Power(Victim::Follower, Rest::Long),
            Fault::Power(Victim::Minority, Rest::Short),
            Fault::Power(Victim::Minority, Rest::Long),
            Fault::Power(Victim::All, Rest::Short),
            Fault::Power(Victim::All, Rest::Long),
        ],
        takes_root: false,
    },
    Kind {
        name: "eio",
        faults: &[
            Fault::FailedSync(Part::Journal, Victim::Leader),
            Fault::FailedSync(Part::Journal, Victim::Follower),
            Fault::FailedSync(Part::Base, Victim::Leader),
            Fault::FailedSync(Part::Base, Victim::Follower),
        ],
        takes_root: false,
    },
    Kind {
        name: "members",
        faults: &[
            Fault::Members(Members::Transfer),
            Fault::Members(Members::Demote),
            Fault::Members(Members::RejoinEmpty),
            Fault::Members(Members::RejoinOlder),
            Fault::Members(Members::Replace),
            Fault::Members(Members::Remove),
            Fault::Members(Members::Away),
        ],
        takes_root: false,
    },
    Kind {
        name: "upgrade",
        faults: &[
            Fault::Upgrade(Upgrade::Forward),
            Fault::Upgrade(Upgrade::Back),
            Fault::Upgrade(Upgrade::Mixed),
        ],
        takes_root: false,
    },
];

impl Kind {
    /// The kind of that name.
    pub fn named(name: &str) -> Option<Self> {
        KINDS.into_iter().find(|kind| kind.name == name)
    }

    /// Its faults with so many nodes: of three, a minority is one, which is a fault already.
    pub fn with_nodes(self, nodes: usize) -> Vec<Fault> {
        let is_another = |fault: &&Fault| nodes > 3 || fault.victim() != Some(Victim::Minority);
        self.faults.iter().filter(is_another).copied().collect()
    }
}

impl Fault {
    /// To whom it is done, where that is not a part of it.
    pub(super) const fn victim(self) -> Option<Victim> {
        match self {
            Self::Kill(victim, _)
            | Self::Power(victim, _)
            | Self::FailedSync(_, victim)
            | Self::Pause(victim)
            | Self::FullDisk(victim)
            | Self::SlowDisk(victim)
            | Self::Clock(victim) => Some(victim),
            Self::Partition(_) | Self::Flip(_) | Self::Members(_) | Self::Upgrade(_) => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill(victim, Rest::Short) => write!(f, "kill {victim}, short rest"),
            Self::Kill(victim, Rest::Long) => write!(f, "kill {victim}, long rest"),
            Self::Pause(victim) => write!(f, "pause {victim}"),
            Self::Partition(Partition::Leader) => f.write_str("partition: leader alone"),
            Self::Partition(Partition::Halves) => f.write_str("partition: halves"),
            Self::Partition(Partition::OneWay) => f.write_str("partition: one way"),
            Self::Partition(Partition::Bridge) => f.write_str("partition: bridge"),
            Self::Partition(Partition::Flapping) => f.write_str("partition: flapping"),
            Self::Partition(Partition::Loss) => f.write_str("partition: loss"),
            Self::FullDisk(victim) => write!(f, "full disk, {victim}"),
            Self::SlowDisk(victim) => write!(f, "slow disk, {victim}"),
            Self::Clock(victim) => write!(f, "clock, {victim}"),
            Self::Flip(Flip::Middle) => f.write_str("flip: journal, middle"),
            Self::Flip(Flip::Tail) => f.write_str("flip: journal, tail"),
            Self::Flip(Flip::Vote) => f.write_str("flip: journal, vote"),
            Self::Flip(Flip::Base) => f.write_str("flip: database"),
            Self::Power(victim, Rest::Short) => write!(f, "power {victim}, short rest"),
            Self::Power(victim, Rest::Long) => write!(f, "power {victim}, long rest"),
            Self::FailedSync(Part::Journal, victim) => {
                write!(f, "syncs of the journal fail, {victim}")
            }
            Self::FailedSync(Part::Base, victim) => {
                write!(f, "syncs of the database fail, {victim}")
            }
            Self::Members(Members::Transfer) => f.write_str("members: transfer"),
            Self::Members(Members::Demote) => f.write_str("members: demote and promote"),
            Self::Members(Members::RejoinEmpty) => f.write_str("members: rejoin, data lost"),
            Self::Members(Members::RejoinOlder) => f.write_str("members: rejoin, older data"),
            Self::Members(Members::Replace) => f.write_str("members: replace"),
            Self::Members(Members::Remove) => f.write_str("members: remove and join"),
            Self::Members(Members::Away) => f.write_str("members: away for long"),
            Self::Upgrade(Upgrade::Forward) => f.write_str("upgrade: rolling"),
            Self::Upgrade(Upgrade::Back) => f.write_str("upgrade: rolling back"),
            Self::Upgrade(Upgrade::Mixed) => f.write_str("upgrade: mixed"),
        }
    }
}

impl fmt::Display for Victim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Leader => "leader",
            Self::Follower => "follower",
            Self::Minority => "minority",
            Self::All => "all",
        })
    }
}

/// Which fault comes next: all take turns, in an order that the seed tells.
pub(super) struct Order {
    all: Vec<Fault>,
    left: Vec<Fault>,
    chance: Chance,
}

impl Order {
    pub(super) fn new(faults: &[Fault], chance: Chance) -> Self {
        Self { all: faults.to_vec(), left: Vec::new(), chance }
    }

    pub(super) fn next(&mut self) -> Fault {
        if self.left.is_empty() {
            self.left.clone_from(&self.all);
        }
        let drawn = self.chance.below(self.left.len() as u64) as usize;
        // A run without any kind is one of the mildest.
        if self.left.is_empty() { Fault::Pause(Victim::Follower) } else { self.left.remove(drawn) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_faults_take_turns() {
        let all: Vec<Fault> = KINDS.iter().flat_map(|kind| kind.with_nodes(5)).collect();
        let mut order = Order::new(&all, Chance::new(1, 1));
        let mut drawn: Vec<Fault> = all.iter().map(|_| order.next()).collect();
        drawn.sort();
        let mut sorted = all;
        sorted.sort();
        assert_eq!(drawn, sorted);
    }

    #[test]
    fn of_three_nodes_a_minority_is_one() {
        let kill = Kind::named("kill").unwrap();
        assert_eq!((kill.with_nodes(3).len(), kill.with_nodes(5).len()), (6, 8));
        assert!(Kind::named("none").is_none());
    }

    #[test]
    fn no_two_faults_have_one_name() {
        let names = KINDS.iter().flat_map(|kind| kind.faults).map(Fault::to_string);
        let mut names: Vec<String> = names.collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
