//! The published benchmarks as jobs: one row each, with the parameters they were published with.
//!
//! What a source does not tell is said in the row. The jobs fit the people of `roster demo` and of
//! `examples/people.template`; the published runs had 50,000,000 of them (OID), 2,000,000 (OUD),
//! 13,800,000 (Sun) and 10,000 (OpenDJ).
//!
//! How many entries the substring filters of the OUD paper found hangs on its data, which are not
//! published: here each request is to find as many every time as the first time.

use super::answer::Expected;
use super::jobs::{
    BindOver, MODIFIED, MODIFIED_VALUE, Maker, Mix, MixBy, NO_ATTRIBUTES, Searched, add,
    delete_added, people,
};
use super::keys::Order;
use super::plan::{Job, LatencyLimit, Stream};
use super::request::ScopeName;
use crate::failure::Failure;

/// A published benchmark.
#[derive(Debug)]
pub(crate) struct Profile {
    pub(crate) name: &'static str,
    /// What it repeats, in one line.
    pub(crate) repeats: &'static str,
    /// What was published, and on what.
    pub(crate) published: &'static str,
    pub(crate) connections: u32,
    pub(crate) duration_s: u32,
    pub(crate) warmup_s: u32,
    /// Searches like its own before the run, and then nothing at all for a while, in seconds.
    pub(crate) phases_s: Option<(u32, u32)>,
    streams: fn(&Setup) -> Result<Vec<Stream>, Failure>,
}

/// What a profile is made for.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// People below `ou=people` of the suffix, `uid=user.1` and so on.
    pub(crate) entries: u64,
    pub(crate) suffix: String,
    /// Connections of all streams.
    pub(crate) connections: usize,
    /// Entries to pass over when people are added.
    pub(crate) first: u64,
}

impl Profile {
    /// The profile of this name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        PROFILES.iter().find(|profile| profile.name == name)
    }

    pub(crate) fn streams(&self, setup: &Setup) -> Result<Vec<Stream>, Failure> {
        (self.streams)(setup)
    }
}

impl Setup {
    fn one(&self, job: Job) -> Vec<Stream> {
        vec![Stream::of(job, self.connections)]
    }

    fn anybody(&self) -> String {
        format!("uid=user.[1-{}],ou=people,{}", self.entries, self.suffix)
    }

    /// Searches below the suffix.
    fn searched(&self, filter: &str, attribute: &str, expect: Expected) -> Searched {
        Searched {
            base: self.suffix.clone(),
            scope: ScopeName::Sub,
            filter: self.filled(filter),
            attributes: vec![attribute.to_owned()],
            expect,
        }
    }

    /// `{n}` is a person's number; `{uid}`, `{mail}`, `{ddd}`, `{phone}` so many digits that about
    /// the same number of entries is found however many there are.
    fn filled(&self, filter: &str) -> String {
        let more = self.entries.max(1).ilog10().saturating_sub(5);
        let digits = |count: u32| {
            let low = 10_u64.pow(count - 1);
            // With 2,000,000 people, numbers of seven digits begin with 1.
            let high = if more > 0 { 2 * low } else { 10 * low } - 1;
            format!("[{low}-{high}]")
        };
        filter
            .replace("{n}", &format!("[1-{}]", self.entries))
            .replace("{uid}", &digits(2 + 2 * more))
            .replace("{mail}", &digits(4 + more))
            .replace("{ddd}", "[digits:3]")
            .replace("{phone}", &format!("[digits:{}]", 5 + more))
    }

    fn oid_search(&self) -> Result<Job, Failure> {
        UNIQUE.search(&self.searched("(uid=user.{n})", "uid", ONE))
    }

    fn oid_mixed(&self, shares: [u32; 3], by: MixBy) -> Result<Vec<Stream>, Failure> {
        let anybody = self.anybody();
        let jobs = vec![
            self.oid_search()?,
            UNIQUE.bind(&anybody, PASSWORD, by == MixBy::Requests)?,
            UNIQUE.modify(&anybody, MODIFIED, MODIFIED_VALUE)?,
        ];
        Mix { jobs: shares.into_iter().zip(jobs).collect(), by }.streams(self.connections)
    }

    /// Replaces an attribute that no index knows.
    fn modify(&self, maker: &Maker) -> Result<Vec<Stream>, Failure> {
        Ok(self.one(maker.modify(&self.anybody(), MODIFIED, MODIFIED_VALUE)?))
    }

    /// One of the six searches of the Unified Directory paper.
    fn oud(&self, filter: &str, expect: Expected) -> Result<Vec<Stream>, Failure> {
        Ok(self.one(RANDOM.search(&self.searched(filter, "cn", expect))?))
    }

    /// One of those that find nobody knows how many.
    fn oud_some(&self, filter: &str) -> Result<Vec<Stream>, Failure> {
        self.oud(filter, Expected::Same)
    }

    /// One of those that ask for digits of a telephone number, and either of two things.
    fn oud_phone(&self, either: &str) -> Result<Vec<Stream>, Failure> {
        self.oud_some(&format!("(&(telephoneNumber=*{{phone}}*)(|{either}))"))
    }
}

/// Every profile.
pub(crate) const PROFILES: &[Profile] = &[
    Profile {
        name: "oid-search",
        repeats: "(uid=...) below the suffix, one entry each, none twice",
        published: "OID 2015, 32 SPARC cores: 1,177,947/s",
        streams: |setup| Ok(setup.one(setup.oid_search()?)),
        ..OID
    },
    Profile {
        name: "oid-auth",
        repeats: "search for a person, bind as the person found, over a second connection",
        published: "OID 2015, 32 SPARC cores: 414,394 cycles/s",
        streams: |setup| {
            let searched = setup.searched("(uid=user.{n})", NO_ATTRIBUTES, ONE);
            Ok(setup.one(UNIQUE.auth(&searched, PASSWORD, BindOver::Second)?))
        },
        ..OID
    },
    Profile {
        name: "oid-auth-base",
        repeats: "as oid-auth, with the scope the paper prints: the person's own entry is the base",
        published: "OID 2015, 32 SPARC cores: 414,394 cycles/s",
        streams: |setup| {
            let searched = Searched {
                base: setup.anybody(),
                scope: ScopeName::Base,
                filter: "(uid=user.[1])".to_owned(),
                attributes: vec![NO_ATTRIBUTES.to_owned()],
                expect: ONE,
            };
            Ok(setup.one(UNIQUE.auth(&searched, PASSWORD, BindOver::Second)?))
        },
        ..OID
    },
    Profile {
        name: "oid-compare",
        repeats: "compare userPassword with the correct password, no entry twice",
        published: "OID 2015, 32 SPARC cores: 650,047/s",
        streams: |setup| {
            let job = UNIQUE.compare(&setup.anybody(), "userPassword", PASSWORD, true)?;
            Ok(setup.one(job))
        },
        ..OID
    },
    Profile {
        name: "oid-modify",
        repeats: "replace an attribute without an index by a value of 11 digits, no entry twice",
        published: "OID 2015, 32 SPARC cores: 22,408/s",
        connections: 50,
        streams: |setup| setup.modify(&UNIQUE),
        ..OID
    },
    Profile {
        name: "oid-add",
        repeats: "add 500,000 people",
        published: "OID 2015, 32 SPARC cores: 1,436/s",
        connections: 16,
        streams: |setup| {
            let job = add(people(&setup.suffix, setup.first));
            Ok(vec![Stream { count: Some(500_000), ..Stream::of(job, setup.connections) }])
        },
        ..OID
    },
    Profile {
        name: "oid-mixed",
        repeats: "650 clients that search, 300 that bind, 50 that modify (the table of the paper)",
        published: "OID 2015, 32 SPARC cores: 320,071/s",
        streams: |setup| setup.oid_mixed([650, 300, 50], MixBy::Clients),
        ..OID
    },
    Profile {
        name: "oid-mixed-text",
        repeats: "60 % of the clients search, 30 % bind, 10 % modify (the text of the paper)",
        published: "OID 2015, 32 SPARC cores: 320,071/s",
        streams: |setup| setup.oid_mixed([60, 30, 10], MixBy::Clients),
        ..OID
    },
    Profile {
        name: "oid-mixed-requests",
        repeats: "60 % of the requests are searches, 30 % binds, 10 % modifies, on all connections",
        published: "OID 2015, 32 SPARC cores: 320,071/s",
        streams: |setup| setup.oid_mixed([60, 30, 10], MixBy::Requests),
        ..OID
    },
    Profile {
        name: "oud-exact",
        repeats: "(uid=<id>)",
        published: "OUD 2023, one node of 16 cores: 118,753/s",
        connections: 3000,
        streams: |setup| setup.oud("(uid=user.{n})", ONE),
        ..OUD
    },
    Profile {
        name: "oud-exact-complex",
        repeats: "(&(uid=<id>)(telephoneNumber=*xxx*)(title=*xx))",
        published: "OUD 2023, one node of 16 cores: 116,233/s",
        connections: 4000,
        streams: |setup| {
            let filter = "(&(uid=user.{n})(telephoneNumber=*{ddd}*)(title=*or))";
            setup.oud(filter, Expected::Entries(0, 1))
        },
        ..OUD
    },
    Profile {
        name: "oud-substring",
        repeats: "(&(uid=xx.*)(<column>=<val>)); 171 of 2,000,000 entries there",
        published: "OUD 2023, one node of 16 cores: 4,862/s",
        connections: 1200,
        streams: |setup| setup.oud_some("(&(uid=user.{uid}*)(l=Clear Falls))"),
        ..OUD
    },
    Profile {
        name: "oud-substring-complex",
        repeats: "(&(telephoneNumber=*xxxxx*)(|(title=*xx)(uid=x*))); \
                  378 of 2,000,000 entries there",
        published: "OUD 2023, one node of 16 cores: 9,976/s",
        connections: 3000,
        streams: |setup| setup.oud_phone("(title=*or)(uid=user.{uid}*)"),
        ..OUD
    },
    Profile {
        name: "oud-mail",
        repeats: "(&(telephoneNumber=*xxxxx*)(|(mail=xxxx.*)(title=*xx))); \
                  330 of 2,000,000 entries there",
        published: "OUD 2023, one node of 16 cores: 7,994/s",
        connections: 3600,
        streams: |setup| setup.oud_phone("(mail=user.{mail}*)(title=*or)"),
        ..OUD
    },
    Profile {
        name: "oud-given-name",
        repeats: "(&(telephoneNumber=*xxxxx*)(|(givenName=<val>)(title=*xx))); \
                  330 of 2,000,000 entries there",
        published: "OUD 2023, one node of 16 cores: 10,102/s",
        connections: 3000,
        streams: |setup| setup.oud_phone("(givenName=Werner)(title=*or)"),
        ..OUD
    },
    Profile {
        name: "oud-mixed",
        repeats: "bind 20 %, search 59 %, compare 10 %, add 1 %, modify 10 % of the requests",
        published: "OUD 2023, one node of 16 cores: 32,592/s",
        streams: |setup| {
            let anybody = setup.anybody();
            let jobs = vec![
                (20, RANDOM.bind(&anybody, PASSWORD, true)?),
                (59, RANDOM.search(&setup.searched("(uid=user.{n})", "cn", ONE))?),
                (10, RANDOM.compare(&anybody, "employeeNumber", "[1]", true)?),
                (1, add(people(&setup.suffix, setup.first))),
                (10, RANDOM.modify(&anybody, MODIFIED, MODIFIED_VALUE)?),
            ];
            Mix { jobs, by: MixBy::Requests }.streams(setup.connections)
        },
        ..OUD
    },
    Profile {
        name: "sun-updates",
        repeats: "10 clients search; beside them 100 adds, modifies and deletes a second (20, 60, \
                  20 %: the source does not give the mix); added entries are deleted at the end",
        published: "Sun DS 5.2, 8 cores: 11,000 searches/s, none above 2 ms for 8 hours",
        connections: 20,
        duration_s: 28_800,
        warmup_s: 1,
        phases_s: Some((1_200, 300)),
        streams: sun_updates,
    },
    Profile {
        name: "opendj-authrate",
        repeats: "authrate -g 'rand(0,10000)' -D uid=user.%d,... -w password -c 32 -f",
        published: "OpenDJ 2012, a laptop: 26,149/s with {SSHA}, 25,378/s with {SSHA512}",
        streams: |setup| {
            let few = Setup { entries: setup.entries.min(10_000), ..setup.clone() };
            Ok(setup.one(RANDOM.bind(&few.anybody(), PASSWORD, false)?))
        },
        ..OPENDJ
    },
    Profile {
        name: "opendj-modrate",
        repeats: "replace an attribute without an index (the source gives no details)",
        published: "OpenDJ 2013, a laptop: 17,494/s, 99.999 % below 117 ms",
        streams: |setup| setup.modify(&RANDOM),
        ..OPENDJ
    },
];

/// Searches with a stream of updates beside them, which takes back what it added.
fn sun_updates(setup: &Setup) -> Result<Vec<Stream>, Failure> {
    let search = RANDOM.search(&setup.searched("(uid=user.{n})", "cn", ONE))?;
    let updates = vec![
        (20, add(people(&setup.suffix, setup.first))),
        (60, RANDOM.modify(&setup.anybody(), MODIFIED, MODIFIED_VALUE)?),
        (20, delete_added()),
    ];
    // The source tells the searching clients only. As many update: an add may wait for its hash.
    let updaters = (setup.connections / 2).max(1);
    let searchers = setup.connections.saturating_sub(updaters).max(1);
    let first = updates.first().map_or_else(delete_added, |(_, job)| job.clone());
    Ok(vec![
        Stream {
            latency_limit: LatencyLimit { late_us: Some(2_000), skips: false },
            ..Stream::of(search, searchers)
        },
        Stream { rate: Some(100.0), removes: true, jobs: updates, ..Stream::of(first, updaters) },
    ])
}

/// What the runs of each paper have in common.
const OID: Profile = Profile {
    name: "",
    repeats: "",
    published: "",
    connections: 1000,
    duration_s: 3_600,
    warmup_s: 5,
    phases_s: None,
    streams: |_| Ok(Vec::new()),
};
const OUD: Profile = Profile { duration_s: 1_800, ..OID };
const OPENDJ: Profile = Profile { connections: 32, duration_s: 300, ..OID };

const UNIQUE: Maker = Maker::new(Order::Unique);
const RANDOM: Maker = Maker::new(Order::Random);
/// The password of everybody.
const PASSWORD: &str = "password";
/// One entry.
const ONE: Expected = Expected::Entries(1, 1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::plan::Plan;

    #[test]
    fn every_profile_makes_a_plan_of_any_size() {
        for profile in PROFILES {
            for (connections, entries) in [(3, 100), (2_000, 100_000), (60, 50_000_000)] {
                let suffix = "dc=example,dc=com".to_owned();
                let setup = Setup { entries, suffix, connections, first: 1_000_000 };
                let streams = profile.streams(&setup).unwrap();
                let own: usize = streams.iter().map(|stream| stream.connections).sum();
                assert_eq!(own, connections, "{}", profile.name);
                let plan = Plan {
                    name: profile.name.to_owned(),
                    streams,
                    threads: 1,
                    warmup_ms: 0,
                    duration_ms: 1000,
                    seed: 1,
                };
                plan.check().unwrap();
                let text = serde_json::to_string(&plan).unwrap();
                serde_json::from_str::<Plan>(&text).unwrap();
            }
        }
    }

    #[test]
    fn names_are_there_once() {
        for (number, profile) in PROFILES.iter().enumerate() {
            let name = profile.name;
            assert!(PROFILES.iter().take(number).all(|other| other.name != name), "{name}");
            assert!(!profile.repeats.is_empty() && !profile.published.is_empty(), "{name}");
        }
    }
}
