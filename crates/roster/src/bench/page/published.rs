//! What others have published, to stand beside a run: rates with the machine they were reached on.
//!
//! Invariant: a figure is divided by cores only where processors were what it hung on.

/// A published figure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Published {
    pub(super) source: &'static Source,
    /// What was done, in words.
    pub(super) what: &'static str,
    /// The profile that does the same; its name may go on behind this.
    pub(super) profile: &'static str,
    /// The plain job that is nearest.
    pub(super) job: &'static str,
    /// Operations a second.
    pub(super) per_s: f64,
    /// Mean time of an operation.
    pub(super) mean_ms: Option<f64>,
    pub(super) connections: Option<u32>,
    /// Cores of the servers together, if that is known.
    pub(super) cores: Option<u32>,
    /// Why the rate of a core would say nothing.
    pub(super) unfair: Option<&'static str>,
}

/// Where figures were published, and what holds for all of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub(super) server: &'static str,
    pub(super) publication: &'static str,
    pub(super) machine: &'static str,
    pub(super) entries: Option<u64>,
    pub(super) minutes: Option<u32>,
    pub(super) hash: &'static str,
    pub(super) acis: &'static str,
    pub(super) logs: &'static str,
    pub(super) network: &'static str,
}

static OID: Source = Source {
    server: "Oracle Internet Directory 11.1.1.7",
    publication: "Oracle, 50-million-user benchmark, 2015",
    machine: "SPARC T7-2, 32 cores at 4.13 GHz, 512 GB, with its database",
    entries: Some(50_000_000),
    minutes: Some(60),
    hash: "not told",
    acis: "on",
    logs: "audit off",
    network: "clients on another machine, 2 × 10 GbE",
};

static OUD: Source = Source {
    server: "Oracle Unified Directory 12.2.1.4",
    publication: "Oracle, performance deep dive, 2023",
    machine: "OCI E3.Flex (EPYC 7742), 1 OCPU = 1 core with 2 threads",
    entries: Some(2_000_000),
    minutes: Some(30),
    hash: "not told",
    acis: "not told",
    logs: "off",
    network: "clients on other machines",
};

static SUN: Source = Source {
    server: "Sun Directory Server 5.2 p6",
    publication: "T. Gardner, 13.8 million entries",
    machine: "Netra X4250, 2 × 4 Xeon cores at 2.13 GHz, 64 GB",
    entries: Some(13_800_000),
    minutes: Some(480),
    hash: "–",
    acis: "not told",
    logs: "access and audit on",
    network: "clients on other machines, gigabit",
};

static OPENDJ: Source = Source {
    server: "OpenDJ 2.5/2.6",
    publication: "L. Poitou's blog, 2010–2013",
    machine: "laptop, Intel i7 at 2.2 GHz",
    entries: Some(10_000),
    minutes: Some(5),
    hash: "{SSHA} or {SSHA512}, as named",
    acis: "default",
    logs: "not told",
    network: "client on the same machine",
};

const DISK: Option<&str> = Some("depends on disk and log, not on cores");
const NODES: Option<&str> = Some("seven nodes: every node replays every write");
const UNKNOWN_CORES: Option<&str> = Some("number of cores of the laptop not published");

const fn of(
    source: &'static Source,
    what: &'static str,
    done: (&'static str, &'static str),
    per_s: f64,
) -> Published {
    let (profile, job) = done;
    let (mean_ms, connections, cores, unfair) = (None, None, None, None);
    Published { source, what, profile, job, per_s, mean_ms, connections, cores, unfair }
}

const fn oid(
    what: &'static str,
    done: (&'static str, &'static str),
    per_s: f64,
    mean_ms: f64,
    connections: u32,
    unfair: Option<&'static str>,
) -> Published {
    let (mean_ms, connections, cores) = (Some(mean_ms), Some(connections), Some(32));
    Published { mean_ms, connections, cores, unfair, ..of(&OID, what, done, per_s) }
}

const fn oud(
    what: &'static str,
    done: (&'static str, &'static str),
    cores: u32,
    connections: u32,
    per_s: f64,
) -> Published {
    let (connections, cores) = (Some(connections), Some(cores));
    Published { connections, cores, ..of(&OUD, what, done, per_s) }
}

const fn sun(what: &'static str, profile: &'static str, per_s: f64) -> Published {
    let (connections, cores) = (Some(10), Some(8));
    Published { connections, cores, ..of(&SUN, what, (profile, NONE), per_s) }
}

const fn opendj(
    what: &'static str,
    done: (&'static str, &'static str),
    per_s: f64,
    mean_ms: f64,
    connections: Option<u32>,
) -> Published {
    let mean_ms = Some(mean_ms);
    Published { mean_ms, connections, unfair: UNKNOWN_CORES, ..of(&OPENDJ, what, done, per_s) }
}

const AUTHRATE: (&str, &str) = ("opendj-authrate", "bind");
const MODRATE: (&str, &str) = ("opendj-modrate", "modify");
/// No plain job is near enough.
const NONE: &str = "";

/// All of them, in the order of their sources.
pub(super) const PUBLISHED: [Published; 28] = [
    oid("search", ("oid-search", "search"), 1_177_947.0, 0.847, 1_000, None),
    oid("compare", ("oid-compare", "compare"), 650_047.0, 1.537, 1_000, None),
    oid("search + bind", ("oid-auth", "auth"), 414_394.0, 2.41, 1_000, None),
    oid("modify, unindexed", ("oid-modify", "modify"), 22_408.0, 2.23, 50, DISK),
    oid("add, 21 attributes", ("oid-add", "add"), 1_436.0, 11.094, 16, DISK),
    oid("mix of search, bind, modify", ("oid-mixed", "mixed"), 320_071.0, 3.12, 1_000, None),
    oud("exact search", ("oud-exact", "search"), 4, 750, 62_101.0),
    oud("exact search", ("oud-exact", "search"), 16, 3_000, 118_753.0),
    Published {
        unfair: Some("seven nodes"),
        ..oud("exact search, 7 nodes", ("oud-exact", NONE), 112, 21_000, 868_561.0)
    },
    oud("complex filter, exact uid", ("oud-exact-complex", NONE), 4, 800, 60_655.0),
    oud("complex filter, exact uid", ("oud-exact-complex", NONE), 16, 4_000, 116_233.0),
    oud("uid substring", ("oud-substring", NONE), 4, 100, 1_661.0),
    oud("uid substring", ("oud-substring", NONE), 16, 1_200, 4_862.0),
    oud("complex filter, uid substring", ("oud-substring-complex", NONE), 4, 100, 2_740.0),
    oud("complex filter, uid substring", ("oud-substring-complex", NONE), 16, 3_000, 9_976.0),
    oud("complex filter, mail substring", ("oud-mail", NONE), 4, 100, 2_501.0),
    oud("complex filter, mail substring", ("oud-mail", NONE), 16, 3_600, 7_994.0),
    oud("complex filter, givenName", ("oud-given-name", NONE), 4, 120, 2_934.0),
    oud("complex filter, givenName", ("oud-given-name", NONE), 16, 3_000, 10_102.0),
    oud("mix with 11 % writes", ("oud-mixed", NONE), 4, 1_000, 10_756.0),
    oud("mix with 11 % writes", ("oud-mixed", NONE), 16, 1_000, 32_592.0),
    Published {
        unfair: NODES,
        ..oud("mix with 11 % writes, 7 nodes", ("oud-mixed", NONE), 112, 1_000, 57_695.0)
    },
    sun("search, none above 2 ms in 8 hours", "sun-search", 17_000.0),
    sun("search during writes, none above 2 ms in 8 hours", "sun-updates", 11_000.0),
    opendj("bind, {SSHA}", AUTHRATE, 26_148.9, 1.195, Some(32)),
    opendj("bind, {SSHA512}", AUTHRATE, 25_377.6, 1.227, Some(32)),
    opendj("modify, concurrent mark-sweep collector", MODRATE, 17_494.3, 1.826, None),
    opendj("modify, G1 collector", MODRATE, 16_374.9, 1.951, None),
];

impl Published {
    /// Whether a run of this name did the same, or nearly so.
    pub(super) fn matches(&self, name: &str) -> bool {
        self.is_repeated_by(name) || (!self.job.is_empty() && self.job == name)
    }

    /// Whether a run of this name did the same: some texts can be read in more than one way.
    pub(super) fn is_repeated_by(&self, name: &str) -> bool {
        let is_ambiguous = ["oid-auth", "oid-mixed"].contains(&self.profile);
        let reading = name.strip_prefix(self.profile);
        reading.is_some_and(|rest| rest.is_empty() || (is_ambiguous && rest.starts_with('-')))
    }

    /// The rate of a core, where that is fair.
    pub(super) fn per_core(&self) -> Option<f64> {
        let cores = self.cores.filter(|_| self.unfair.is_none())?;
        Some(self.per_s / f64::from(cores))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::profiles::PROFILES;

    #[test]
    fn figures_are_those_of_the_publications() {
        let search = PUBLISHED.iter().find(|row| row.profile == "oid-search").unwrap();
        assert_eq!(search.per_core().map(f64::round), Some(36_811.0));
        assert_eq!(search.source.server, "Oracle Internet Directory 11.1.1.7");
        let modify = PUBLISHED.iter().find(|row| row.profile == "oid-modify").unwrap();
        assert_eq!(modify.per_core(), None);
    }

    #[test]
    fn runs_find_what_they_repeat() {
        let found = |name: &str| PUBLISHED.iter().filter(|row| row.matches(name)).count();
        assert_eq!((found("oid-mixed"), found("oid-mixed-text")), (1, 1));
        assert_eq!((found("search"), found("oud-exact"), found("oud-exact-complex")), (3, 3, 2));
        assert_eq!((found("nothing"), found("")), (0, 0));
        // The profiles that are there have the names of this table.
        let profiles = PROFILES.iter().filter(|profile| found(profile.name) == 0);
        assert_eq!(profiles.map(|profile| profile.name).collect::<Vec<_>>(), [] as [&str; 0]);
    }
}
