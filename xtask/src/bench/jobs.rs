//! What every server is asked to do.
//!
//! Invariant: the same for all of them, but for who asks: where rules and logs are not the same
//! everywhere, a person under its ACIs asks roster, and the others' administrators are above their
//! rules.

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
    pub(super) extent: Extent,
    arguments: Arguments,
}

/// When a job is done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Extent {
    /// Also in the short form.
    Quick,
    Whole,
    /// Only when it is named.
    Named,
}

/// What `roster bench` is told: `{N}` is the number of people, `{first}` the first number that is
/// free, `{added}` the numbers of those that the last add has made. `{uid}`, `{ddd}`, `{phone}` and
/// `{mail}` are so many digits as find about the same number of entries however many people there
/// are.
#[derive(Debug)]
enum Arguments {
    Words(&'static [&'static str]),
    /// How many entries a search may find, and its filter; one attribute is asked for.
    Filter(&'static str, &'static str),
}

/// A filter of Oracle's paper on the Unified Directory, or a plain one.
const fn filter(name: &'static str, extent: Extent, expect: &'static str, f: &'static str) -> Job {
    Job {
        name,
        who: Who::Person,
        echo_bytes: None,
        extent,
        arguments: Arguments::Filter(expect, f),
    }
}

const fn read(
    name: &'static str,
    who: Who,
    echo_bytes: usize,
    arguments: &'static [&'static str],
) -> Job {
    let arguments = Arguments::Words(arguments);
    Job { name, who, echo_bytes: Some(echo_bytes), extent: Extent::Quick, arguments }
}

const fn write(name: &'static str, extent: Extent, arguments: &'static [&'static str]) -> Job {
    let arguments = Arguments::Words(arguments);
    Job { name, who: Who::Administrator, echo_bytes: None, extent, arguments }
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
    write("modify, unindexed, durable", Extent::Quick, &["modify", "--dn", PERSON]),
    write("add, 20 attributes, durable", Extent::Quick, &["add", "--first", "{first}"]),
    write("delete, durable", Extent::Quick, &["delete", "--dn", ADDED]),
    write(
        "mix 65/30/5 search/bind/modify",
        Extent::Quick,
        &["mixed", "--mix", "search=65,bind=30,modify=5", "-b", SUFFIX, "-f", ONE, "cn"],
    ),
    write("mix 20/59/10/1/10 bind/search/compare/add/modify", Extent::Whole, OUD_MIX),
    filter("`(uid=user.N)`, all six for `cn`", Extent::Whole, "1", ONE),
    filter(
        "`(&(uid=user.12*)(l=City))`",
        Extent::Whole,
        "0-",
        "(&(uid=user.{uid}*)(l=Clear Falls))",
    ),
    filter(
        "`(&(uid=user.N)(telephoneNumber=*ddd*)(title=*or))`",
        Extent::Whole,
        "0-1",
        "(&(uid=user.[1-{N}])(telephoneNumber=*{ddd}*)(title=*or))",
    ),
    filter(
        "`(&(telephoneNumber=*ddddd*)(\\|(title=*or)(uid=user.dd*)))`",
        Extent::Whole,
        "0-",
        "(&(telephoneNumber=*{phone}*)(|(title=*or)(uid=user.{uid}*)))",
    ),
    filter(
        "… `(mail=user.dddd*)`",
        Extent::Whole,
        "0-",
        "(&(telephoneNumber=*{phone}*)(|(mail=user.{mail}*)(title=*or)))",
    ),
    filter(
        "… `(givenName=Werner)`",
        Extent::Whole,
        "0-",
        "(&(telephoneNumber=*{phone}*)(|(givenName=Werner)(title=*or)))",
    ),
    filter("`(telephoneNumber=*ddddd*)`", Extent::Named, "0-", "(telephoneNumber=*{phone}*)"),
    filter("`(telephoneNumber=*ddddd)`", Extent::Named, "0-", "(telephoneNumber=*{phone})"),
    filter("`(uid=user.dddd*)`", Extent::Named, "0-", "(uid=user.{mail}*)"),
];

const ADDED: &str = "uid=user.[{added}],ou=people,dc=example,dc=com";
const OUD_MIX: &[&str] = &[
    "mixed",
    "--mix",
    "bind=20,search=59,compare=10,add=1,modify=10",
    "--first",
    "{first}",
    "-b",
    SUFFIX,
    "-f",
    ONE,
    "cn",
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
        let fill = |word: &str| {
            let word = word.replace("{first}", &added.free.to_string()).replace("{added}", &last);
            digits(&word, entries)
        };
        let mut words: Vec<String> = match &self.arguments {
            Arguments::Words(words) => words.iter().map(|word| fill(word)).collect(),
            Arguments::Filter(expect, filter) => {
                ["search", "-b", SUFFIX, "--expect", expect, "-f", filter, "cn"].map(fill).to_vec()
            }
        };
        words.extend(["--entries".to_owned(), entries.to_string()]);
        words
    }

    /// Its filter, as `roster bench` takes it, where entries may be many or none.
    pub(super) fn filter(&self, entries: u64) -> Option<String> {
        match &self.arguments {
            Arguments::Filter(_, filter) => Some(digits(filter, entries)),
            Arguments::Words(_) => None,
        }
    }

    fn words(&self) -> &[&str] {
        match &self.arguments {
            Arguments::Words(words) => words,
            Arguments::Filter(..) => &[],
        }
    }

    /// Whether it is compared with the floor, and with rules and logs everywhere.
    pub(super) fn is_read(&self) -> bool {
        self.echo_bytes.is_some()
    }

    /// Whether it makes people that are not counted on by anybody later.
    pub(super) fn adds(&self) -> bool {
        self.words().contains(&"{first}")
    }

    /// Whether it is the one that comes first, and fills the caches with everybody.
    pub(super) fn is_first(&self) -> bool {
        JOBS.first().is_some_and(|first| first.name == self.name)
    }

    pub(super) fn deletes(&self) -> bool {
        self.words().first() == Some(&"delete")
    }
}

/// Puts ranges of numbers into the places of a text.
fn digits(text: &str, entries: u64) -> String {
    let more = entries.max(1).ilog10().saturating_sub(5);
    // With 2,000,000 people, numbers of seven digits begin with 1.
    let first = |count: u32| {
        let low = 10_u64.pow(count - 1);
        let high = if more > 0 { 2 * low } else { 10 * low } - 1;
        format!("[{low}-{high}]")
    };
    let any = |count: usize| format!("[{}-{}]", "0".repeat(count), "9".repeat(count));
    text.replace("{N}", &entries.to_string())
        .replace("{uid}", &first(2 + 2 * more))
        .replace("{mail}", &first(4 + more))
        .replace("{ddd}", &any(3))
        .replace("{phone}", &any(5 + more as usize))
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
    #[test]
    fn filters_fit_the_size_of_the_directory() {
        let filter = |part: &str, entries: u64| {
            JOBS.iter().find(|job| job.name.contains(part)).unwrap().filter(entries).unwrap()
        };
        let city = |entries: u64| filter("City", entries);
        assert_eq!(city(100_000), "(&(uid=user.[10-99]*)(l=Clear Falls))");
        assert_eq!(city(2_000_000), "(&(uid=user.[1000-1999]*)(l=Clear Falls))");
        assert_eq!(filter("=*ddddd)", 2_000_000), "(telephoneNumber=*[000000-999999])");
    }
}
