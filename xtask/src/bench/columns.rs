//! The servers of a comparison, each a column of the table: how they are loaded, and asked in two
//! ways: as they are usually measured, and with the same rules and an access log in all of them.

use std::path::Path;

use super::jobs::{Added, Job, SMALL_BYTES, WHOLE_BYTES, Who};
use super::table::Cell;
use crate::ground::{Ground, note};
use crate::load::Load;
use crate::servers::peers::{self, Slapd};
use crate::servers::{self, Server};
use crate::shell::source;
use crate::test::Package;

/// Who searches where rules count.
const PERSON: (&str, &str) = ("uid=user.1,ou=people,dc=example,dc=com", "password");
/// A delete of fewer people begins to count at once: else none are left to be measured.
const SHORT_ADDS: u64 = 20_000;
/// Turns of writes and filters, and of the servers that say less: 389 and OpenDJ.
pub(super) const FEWER_TURNS: u64 = 2;

/// The servers that can be compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Echo,
    Roster,
    Slapd,
    Ds389,
    OpenDj,
}

impl Kind {
    /// Those that can be chosen.
    pub(super) const ALL: [(&'static str, Self); 4] = [
        ("roster", Self::Roster),
        ("slapd", Self::Slapd),
        ("389", Self::Ds389),
        ("opendj", Self::OpenDj),
    ];

    pub(super) fn packages(self) -> &'static [Package] {
        match self {
            // slapd's program hashes the passwords.
            Self::Echo | Self::Roster | Self::Slapd => peers::SLAPD_PACKAGES,
            Self::Ds389 => peers::DS389_PACKAGES,
            Self::OpenDj => peers::OPENDJ_PACKAGES,
        }
    }

    /// How often it is asked for a job in a run of so many turns.
    pub(super) fn turns(self, job: &Job, turns: u64) -> u64 {
        match self {
            Self::Echo if !job.is_read() => 0,
            Self::Echo | Self::Roster | Self::Slapd if job.is_read() => turns,
            _ => turns.min(FEWER_TURNS),
        }
    }
}

/// A server.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) kind: Kind,
    server: Server,
    /// The floor with answers as large as a person; slapd with rules and a log.
    second: Option<Server>,
    /// Who was added to it.
    added: Added,
}

impl Column {
    /// The floor.
    pub(super) fn echo(program: &Path) -> Result<Self, String> {
        let second = Some(peers::echo(program, WHOLE_BYTES)?);
        Ok(Self::new(Kind::Echo, peers::echo(program, SMALL_BYTES)?, second))
    }

    /// Loads a server and starts it.
    pub(super) fn load(kind: Kind, ground: &Ground<'_>, people: &Path) -> Result<Self, String> {
        let folder = |name: &str| ground.folder.join(name);
        let mut second = None;
        let server = match kind {
            Kind::Echo => return Err("the floor has nothing to be loaded".to_owned()),
            Kind::Roster => {
                let settings = [
                    ("ROSTER_PASSWORD__REHASH_ON_BIND", "off"),
                    ("ROSTER_ACCESS_LOG__FORMAT", "json"),
                ];
                servers::roster_with(&ground.program, &folder("roster"), people, &settings)?
            }
            Kind::Slapd => {
                let equal = Slapd { has_rules: true, has_log: true, ..Slapd::default() };
                second = Some(equal.start(&folder("slapd-equal"), people)?);
                Slapd::default().start(&folder("slapd"), people)?
            }
            Kind::Ds389 => peers::ds389(&folder("389"), people)?,
            Kind::OpenDj => peers::opendj(&folder("opendj"), people)?,
        };
        // The administrator, who asks where rules are not to count, is above them.
        for file in kind.rules() {
            let rules = source(file)?;
            server.modify(&match kind {
                // A condition that everybody meets; OpenDJ knows it only from 1 on.
                Kind::OpenDj => rules.replace(" and ssf >= \"0\"", ""),
                _ => rules,
            })?;
        }
        Ok(Self::new(kind, server, second))
    }

    fn new(kind: Kind, server: Server, second: Option<Server>) -> Self {
        Self { kind, server, second, added: Added::default() }
    }

    pub(super) fn name(&self) -> &'static str {
        self.server.name
    }

    /// The processes of it.
    pub(super) fn processes(&self) -> Vec<u32> {
        [Some(&self.server), self.second.as_ref()].into_iter().flatten().map(Server::id).collect()
    }

    /// Who asks which server in a filter job.
    pub(super) fn asking(&self) -> (&Server, (&str, &str)) {
        (&self.server, self.who(Who::Person))
    }

    /// Likewise, where rules are the same.
    pub(super) fn asking_equally(&self) -> (&Server, (&str, &str)) {
        (self.second.as_ref().unwrap_or(&self.server), PERSON)
    }

    fn who(&self, who: Who) -> (&'static str, &'static str) {
        match (self.kind, who) {
            (Kind::Roster, Who::Person) => PERSON,
            _ => (self.server.dn, self.server.password),
        }
    }

    /// Asks it as it is usually measured.
    pub(super) fn bench(
        &mut self,
        ground: &Ground<'_>,
        job: &Job,
        cell: &mut Cell,
    ) -> Result<(), String> {
        let server = match &self.second {
            Some(second) if (self.kind, job.echo_bytes) == (Kind::Echo, Some(WHOLE_BYTES)) => {
                second
            }
            _ => &self.server,
        };
        let words = job.arguments(ground.setup.entries, &self.added);
        let is_short = job.deletes() && self.added.count() < SHORT_ADDS;
        let warmup = if is_short { "0" } else { "1" };
        let made = asked(ground, server, self.who(job.who), &words, warmup, cell)?;
        if job.adds() {
            self.added.note(made);
        }
        Ok(())
    }

    /// Asks it with rules and a log, if it is not the one that always has both.
    pub(super) fn bench_equally(
        &mut self,
        ground: &Ground<'_>,
        job: &Job,
        cell: &mut Cell,
    ) -> Result<(), String> {
        let words = job.arguments(ground.setup.entries, &self.added);
        let Some((on, off)) = self.kind.log_switch() else {
            let server = self.second.as_ref().unwrap_or(&self.server);
            return asked(ground, server, PERSON, &words, "1", cell).map(drop);
        };
        self.server.modify(on)?;
        let result = asked(ground, &self.server, PERSON, &words, "1", cell);
        self.server.modify(off)?;
        result.map(drop)
    }
}

impl Kind {
    /// The rules, in the form of all that know ACIs.
    fn rules(self) -> &'static [&'static str] {
        match self {
            Self::Echo | Self::Slapd => &[],
            Self::Roster => &[RULES, "scripts/peers/rules.ldif", "scripts/peers/roster.ldif"],
            Self::Ds389 | Self::OpenDj => &[RULES, "scripts/peers/rules.ldif"],
        }
    }

    /// Changes that turn an access log on and off while it serves.
    fn log_switch(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Echo | Self::Roster | Self::Slapd => None,
            Self::Ds389 => Some((
                "dn: cn=config\nchangetype: modify\nreplace: nsslapd-accesslog-logging-enabled\n\
                 nsslapd-accesslog-logging-enabled: on\n",
                "dn: cn=config\nchangetype: modify\nreplace: nsslapd-accesslog-logging-enabled\n\
                 nsslapd-accesslog-logging-enabled: off\n",
            )),
            Self::OpenDj => Some((
                "dn: cn=File-Based Access Logger,cn=Loggers,cn=config\nchangetype: modify\n\
                 replace: ds-cfg-enabled\nds-cfg-enabled: true\n",
                "dn: cn=File-Based Access Logger,cn=Loggers,cn=config\nchangetype: modify\n\
                 replace: ds-cfg-enabled\nds-cfg-enabled: false\n",
            )),
        }
    }

    /// Whether it is measured in both ways: roster always has rules and a log, the floor never.
    pub(super) fn is_told_twice(self) -> bool {
        !matches!(self, Self::Echo | Self::Roster)
    }
}

const RULES: &str = "examples/access-control.ldif";

/// One load; its figures go into the cell. How many requests it made.
fn asked(
    ground: &Ground<'_>,
    server: &Server,
    who: (&str, &str),
    words: &[String],
    warmup: &str,
    cell: &mut Cell,
) -> Result<u64, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).chain(["--warmup", warmup]).collect();
    let figures = ground.run(Load::new(server, ground.setup.seconds, &words).by(who))?;
    let (cpu_us, per_s) = (figures.cpu_us()?, figures.per_s());
    note(&format!("  {}: {cpu_us:.1} µs, {per_s:.0}/s", server.name));
    cell.cpu_us.push(cpu_us);
    cell.per_s.push(per_s);
    Ok(figures.made())
}
