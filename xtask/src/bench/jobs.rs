//! What every server is asked to do.
//!
//! Invariant: the same for all of them, but for who asks roster: a person under its ACIs, where the
//! others' administrators are above their rules.

use testing::crash::server::SUFFIX;

/// Octets of an answer with one attribute, and with a whole person: what the floor answers.
pub(super) const SMALL_BYTES: usize = 120;
pub(super) const WHOLE_BYTES: usize = 760;
/// Numbers that one run may give to the people that it adds.
const ADDED_STEP: u64 = 10_000_000;
/// The first made-up person that is added: far behind those that are loaded.
pub(super) const FIRST_ADDED: u64 = 100_000_000;

/// Who asks roster.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Who {
    /// A person who may read what ACIs grant.
    Person,
    /// For writes, and where each request says who it is.
    Administrator,
}

/// A kind of load.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) name: &'static str,
    pub(super) who: Who,
    /// Octets the floor answers with, where there is a floor.
    pub(super) echo_bytes: Option<usize>,
    /// Part of the short form.
    pub(super) is_quick: bool,
    /// The operation, and what it takes: `{N}` is the number of people, `{first}` the first number
    /// that is free, `{added}` the numbers of those that the last add has made.
    arguments: &'static [&'static str],
}

/// A filter of Oracle's paper on the Unified Directory, as digits for 100,000 people.
const fn filter(name: &'static str, arguments: &'static [&'static str]) -> Job {
    Job { name, who: Who::Person, echo_bytes: None, is_quick: false, arguments }
}

const fn read(
    name: &'static str,
    who: Who,
    echo_bytes: usize,
    arguments: &'static [&'static str],
) -> Job {
    Job { name, who, echo_bytes: Some(echo_bytes), is_quick: true, arguments }
}

const fn write(name: &'static str, is_quick: bool, arguments: &'static [&'static str]) -> Job {
    Job { name, who: Who::Administrator, echo_bytes: None, is_quick, arguments }
}

const PERSON: &str = "uid=user.[1-{N}],ou=people,dc=example,dc=com";
const ONE: &str = "(uid=user.[1-{N}])";

/// In the order they are done; a delete comes behind the add whose people it deletes.
pub(super) const JOBS: &[Job] = &[
    read(
        "search by uid, 1 attribute",
        Who::Person,
        SMALL_BYTES,
        &["search", "-b", SUFFIX, "-f", ONE, "--expect", "1", "cn"],
    ),
    read(
        "search by uid, all attributes",
        Who::Person,
        WHOLE_BYTES,
        &["search", "-b", SUFFIX, "-f", ONE, "--expect", "1"],
    ),
    read(
        "base search, all attributes",
        Who::Person,
        WHOLE_BYTES,
        &["search", "-b", PERSON, "-s", "base", "-f", "(objectClass=*)", "--expect", "1"],
    ),
    read("compare", Who::Person, SMALL_BYTES, &["compare", "--dn", PERSON]),
    read("bind, `{SSHA}`", Who::Administrator, SMALL_BYTES, &["bind", "--dn", PERSON]),
    read("search + bind (a cycle)", Who::Person, SMALL_BYTES, &["auth", "-b", SUFFIX, "-f", ONE]),
    write("modify, unindexed, durable", true, &["modify", "--dn", PERSON]),
    write("add, 20 attributes, durable", true, &["add", "--first", "{first}"]),
    write(
        "delete, durable",
        true,
        &["delete", "--dn", "uid=user.[{added}],ou=people,dc=example,dc=com"],
    ),
    write(
        "mix 65/30/5 search/bind/modify",
        true,
        &[
            "mixed",
            "--entries",
            "{N}",
            "--mix",
            "search=65,bind=30,modify=5",
            "-b",
            SUFFIX,
            "-f",
            ONE,
            "cn",
        ],
    ),
    write(
        "mix 20/59/10/1/10 bind/search/compare/add/modify",
        false,
        &[
            "mixed",
            "--entries",
            "{N}",
            "--mix",
            "bind=20,search=59,compare=10,add=1,modify=10",
            "--first",
            "{first}",
            "-b",
            SUFFIX,
            "-f",
            ONE,
            "cn",
        ],
    ),
    filter("`(uid=user.N)`, all six for `cn`", &["search", "-b", SUFFIX, "-f", ONE, "cn"]),
    filter(
        "`(&(uid=user.12*)(l=City))`",
        &[
            "search",
            "-b",
            SUFFIX,
            "--expect",
            "0-",
            "-f",
            "(&(uid=user.[10-99]*)(l=Clear Falls))",
            "cn",
        ],
    ),
    filter(
        "`(&(uid=user.N)(telephoneNumber=*ddd*)(title=*or))`",
        &[
            "search",
            "-b",
            SUFFIX,
            "--expect",
            "0-1",
            "-f",
            "(&(uid=user.[1-{N}])(telephoneNumber=*[000-999]*)(title=*or))",
            "cn",
        ],
    ),
    filter(
        "`(&(telephoneNumber=*ddddd*)(\\|(title=*or)(uid=user.dd*)))`",
        &[
            "search",
            "-b",
            SUFFIX,
            "--expect",
            "0-",
            "-f",
            "(&(telephoneNumber=*[00000-99999]*)(|(title=*or)(uid=user.[10-99]*)))",
            "cn",
        ],
    ),
    filter(
        "… `(mail=user.dddd*)`",
        &[
            "search",
            "-b",
            SUFFIX,
            "--expect",
            "0-",
            "-f",
            "(&(telephoneNumber=*[00000-99999]*)(|(mail=user.[1000-9999]*)(title=*or)))",
            "cn",
        ],
    ),
    filter(
        "… `(givenName=Werner)`",
        &[
            "search",
            "-b",
            SUFFIX,
            "--expect",
            "0-",
            "-f",
            "(&(telephoneNumber=*[00000-99999]*)(|(givenName=Werner)(title=*or)))",
            "cn",
        ],
    ),
];

/// Which numbers the people have that were added to a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Added {
    /// The first number that nobody has.
    pub(super) free: u64,
    /// Of the last add: those that are certainly there.
    last: (u64, u64),
}

impl Default for Added {
    fn default() -> Self {
        Self { free: FIRST_ADDED, last: (FIRST_ADDED, FIRST_ADDED) }
    }
}

impl Added {
    /// What an add has made; the next one begins elsewhere.
    pub(super) fn note(&mut self, made: u64) {
        // The first is one behind those that are passed over; some at the end are left, so that no
        // delete of the last moment names nobody.
        self.last = (self.free + 1, self.free + made.max(2) - 1);
        self.free += ADDED_STEP;
    }

    /// How many people a delete can delete.
    pub(super) fn count(&self) -> u64 {
        self.last.1.saturating_sub(self.last.0)
    }
}

impl Job {
    /// What `roster bench` is told.
    pub(super) fn arguments(&self, entries: u64, added: &Added) -> Vec<String> {
        let last = format!("{}-{}", added.last.0, added.last.1);
        let fill = |word: &&str| {
            word.replace("{N}", &entries.to_string())
                .replace("{first}", &added.free.to_string())
                .replace("{added}", &last)
        };
        self.arguments.iter().map(fill).collect()
    }

    /// Whether it makes people that are not counted on by anybody later.
    pub(super) fn adds(&self) -> bool {
        self.arguments.contains(&"{first}")
    }

    /// Whether it is the one that comes first, and fills the caches with everybody.
    pub(super) fn is_first(&self) -> bool {
        JOBS.first().is_some_and(|first| first.name == self.name)
    }

    pub(super) fn deletes(&self) -> bool {
        self.arguments.first() == Some(&"delete")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delete_names_those_that_were_added() {
        let mut added = Added::default();
        added.note(5);
        let delete = JOBS.iter().find(|job| job.deletes()).unwrap();
        let words = delete.arguments(100, &added);
        assert_eq!(words[2], "uid=user.[100000001-100000004],ou=people,dc=example,dc=com");
        assert_eq!(added.count(), 3);
        let add = JOBS.iter().find(|job| job.adds()).unwrap();
        assert_eq!(add.arguments(100, &added)[2], "110000000");
    }
}
