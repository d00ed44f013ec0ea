//! How what is to be differs from what is, and the steps from one to the other.

use std::collections::BTreeMap;

use client::{Connection, SearchFor};
use ldap::filter::Filter;
use ldap::message::Scope;

use super::file::{Desired, canonical, default_values};
use super::{AREAS, SETTING, SETTINGS_DN, present};
use crate::changes::step::Step;
use crate::failure::Failure;
use crate::index::status;
use crate::table::number;

/// The configuration as a server has it.
#[derive(Debug)]
pub(crate) struct Present {
    /// The lines of each setting that has some.
    settings: BTreeMap<String, Vec<String>>,
    /// By the attribute that names their entry.
    indexes: BTreeMap<String, Vec<String>>,
    areas: BTreeMap<&'static str, Vec<String>>,
}

impl Present {
    /// Asks a server.
    ///
    /// # Errors
    /// When it does not show all of it.
    pub(crate) fn ask(connection: &mut Connection) -> Result<Self, Failure> {
        let mut settings: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for line in present::values(connection, SETTINGS_DN, SETTING)? {
            if let Some((name, value)) = line.split_once('=') {
                settings.entry(name.to_owned()).or_default().push(value.to_owned());
            }
        }
        let indexes = present::indexes(connection)?;
        let mut areas = BTreeMap::new();
        for area in &AREAS {
            areas.insert(area.key, present::values(connection, area.dn, area.attribute)?);
        }
        Ok(Self { settings, indexes, areas })
    }

    /// What a file says that is to be what is; with settings that are as by default, if `all` are
    /// wanted.
    pub(crate) fn desired(&self, all: bool) -> Desired {
        let mut settings = self.settings.clone();
        for setting in server::setting_descriptions() {
            let default = default_values(&setting);
            if settings.get(&setting.name).is_some_and(|values| !all && *values == default) {
                settings.remove(&setting.name);
            }
            if all && setting.attribute.is_some() {
                settings.entry(setting.name).or_insert(default);
            }
        }
        let mut indexes: Vec<String> = self.indexes.values().flatten().cloned().collect();
        indexes.sort_by(|one, other| words(one).cmp(&words(other)));
        Desired { settings: Some(settings), indexes: Some(indexes), areas: self.areas.clone() }
    }
}

/// An index by its attribute, then by its kind.
fn words(line: &str) -> (&str, &str) {
    let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
    (rest, kind)
}

/// What differs in one part.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Difference {
    gone: Vec<String>,
    come: Vec<String>,
}

impl Difference {
    fn between(now: &[String], then: &[String]) -> Self {
        let without = |all: &[String], others: &[String]| {
            all.iter().filter(|value| !others.contains(value)).cloned().collect()
        };
        Self { gone: without(now, then), come: without(then, now) }
    }

    fn is_empty(&self) -> bool {
        self.gone.is_empty() && self.come.is_empty()
    }
}

/// All that differs.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Of each setting, the lines that go and come.
    settings: BTreeMap<String, Difference>,
    /// By the attribute that names their entry.
    indexes: BTreeMap<String, Difference>,
    /// The attributes with indexes now.
    indexed: Vec<String>,
    /// The definitions of the indexes that the file names.
    named: Vec<String>,
    /// How many indexes there are now.
    count_now: usize,
    areas: BTreeMap<&'static str, Difference>,
}

impl Plan {
    /// Compares.
    pub(crate) fn of(now: &Present, then: &Desired) -> Self {
        let mut settings = BTreeMap::new();
        if let Some(then) = &then.settings {
            let described = server::setting_descriptions();
            for setting in described.iter().filter(|one| one.attribute.is_some()) {
                // A line that says the default is as good as none.
                let default = default_values(setting);
                let own = |all: &BTreeMap<String, Vec<String>>| {
                    let values = all.get(&setting.name).filter(|values| **values != default);
                    values.cloned().unwrap_or_default()
                };
                let wanted = own(then);
                if wanted != own(&now.settings) {
                    let has = now.settings.get(&setting.name).cloned().unwrap_or_default();
                    let lines = |values: &[String]| -> Vec<String> {
                        values.iter().map(|value| format!("{}={value}", setting.name)).collect()
                    };
                    let (gone, come) = (lines(&has), lines(&wanted));
                    settings.insert(setting.name.clone(), Difference { gone, come });
                }
            }
        }
        let areas = AREAS.iter().filter_map(|area| {
            let then = then.areas.get(area.key)?;
            let now = now.areas.get(area.key).map(Vec::as_slice).unwrap_or_default();
            let none = area.none.map(str::to_owned);
            let or_none = |all: &[String]| match all {
                [] => none.iter().cloned().collect(),
                all => all.to_vec(),
            };
            let difference = Difference::between(&or_none(now), &or_none(then));
            (!difference.is_empty()).then_some((area.key, difference))
        });
        let compared = then.indexes.as_ref().map(|then| compare_indexes(now, then));
        let is_named = compared.is_some();
        let indexes = compared.unwrap_or_default();
        let goes = |line: &String| indexes.values().any(|one| one.gone.contains(line));
        let stay = now.indexes.values().flatten().filter(|line| is_named && !goes(line));
        let come = indexes.values().flat_map(|one| &one.come);
        Self {
            settings,
            named: stay.chain(come).cloned().collect(),
            indexes,
            indexed: now.indexes.keys().cloned().collect(),
            count_now: now.indexes.values().map(Vec::len).sum(),
            areas: areas.collect(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.settings.is_empty() && self.indexes.is_empty() && self.areas.is_empty()
    }

    /// How many values come and go.
    pub(crate) fn count(&self) -> usize {
        let others = self.indexes.values().chain(self.areas.values());
        let others = others.map(|one| one.gone.len() + one.come.len()).sum::<usize>();
        self.settings.len() + others
    }

    /// The new indexes, which are built before anything that needs them.
    pub(crate) fn new_indexes(&self) -> Vec<Step> {
        let new = self.indexes.iter().filter(|(_, one)| !one.come.is_empty());
        new.map(|(attribute, one)| {
            present::add_indexes(attribute, &one.come, !self.indexed.contains(attribute))
        })
        .collect()
    }

    /// The definitions of all indexes that the file names: new ones, and those that are there,
    /// which may be being built for somebody who was interrupted.
    pub(crate) fn named_indexes(&self) -> &[String] {
        &self.named
    }

    /// How many indexes go, and of how many.
    pub(crate) fn dropped(&self) -> (usize, usize) {
        (self.indexes.values().map(|one| one.gone.len()).sum(), self.count_now)
    }

    /// All else, in one change: what may need an index goes before the index.
    pub(crate) fn rest(&self) -> Vec<Step> {
        let all = |pick: fn(&Difference) -> &Vec<String>| -> Vec<String> {
            self.settings.values().flat_map(pick).cloned().collect()
        };
        let (gone, come) = (all(|one| &one.gone), all(|one| &one.come));
        let mut steps: Vec<Step> =
            present::modify(SETTINGS_DN, SETTING, &gone, &come).into_iter().collect();
        for area in &AREAS {
            let Some(Difference { gone, come }) = self.areas.get(area.key) else { continue };
            steps.extend(present::modify(area.dn, area.attribute, gone, come));
        }
        let dropped = self.indexes.iter().filter(|(_, one)| !one.gone.is_empty());
        steps.extend(dropped.map(|(attribute, one)| present::drop_indexes(attribute, &one.gone)));
        steps
    }

    /// The differences, a line each, with what follows from them.
    ///
    /// # Errors
    /// When the server does not tell of its indexes.
    pub(crate) fn lines(&self, connection: &mut Connection) -> Result<Vec<String>, Failure> {
        let mut lines = Vec::new();
        let described = server::setting_descriptions();
        for (name, difference) in &self.settings {
            let setting = described.iter().find(|one| one.name == *name);
            let default = setting.map(default_values).unwrap_or_default();
            lines.push(setting_line(name, difference, &default));
        }
        let facts = match self.indexes.is_empty() {
            true => None,
            false => Some((entries(connection)?, status::lookups(connection)?)),
        };
        for (sign, line) in self.indexes.values().flat_map(signed) {
            let Some((entries, lookups)) = &facts else { break };
            lines.push(match sign {
                '+' => format!("+ index {line}: {}", read_by(*entries)),
                _ => format!("- index {line}: {}", lost_with(line, lookups)),
            });
        }
        for area in &AREAS {
            for (sign, line) in self.areas.get(area.key).into_iter().flat_map(signed) {
                lines.push(format!("{sign} {} {line}", area.what));
            }
        }
        Ok(lines)
    }
}

fn compare_indexes(now: &Present, then: &[String]) -> BTreeMap<String, Difference> {
    let has: Vec<&String> = now.indexes.values().flatten().collect();
    let form = |line: &str| canonical(line).unwrap_or_else(|| line.to_owned()).to_ascii_lowercase();
    let known: Vec<String> = has.iter().map(|line| form(line)).collect();
    let wanted: Vec<String> = then.iter().map(|line| form(line)).collect();
    let mut all: BTreeMap<String, Difference> = BTreeMap::new();
    for (attribute, lines) in &now.indexes {
        let gone = lines.iter().filter(|line| !wanted.contains(&form(line)));
        let gone: Vec<String> = gone.cloned().collect();
        if !gone.is_empty() {
            all.entry(attribute.clone()).or_default().gone = gone;
        }
    }
    for line in then.iter().filter(|line| !known.contains(&form(line))) {
        let attribute = line.split(' ').nth(1).unwrap_or_default();
        let own = now.indexes.keys().find(|own| own.eq_ignore_ascii_case(attribute));
        let attribute = own.map_or(attribute, |own| own);
        all.entry(attribute.to_owned()).or_default().come.push(line.clone());
    }
    all
}

fn signed(difference: &Difference) -> impl Iterator<Item = (char, &String)> {
    let gone = difference.gone.iter().map(|line| ('-', line));
    gone.chain(difference.come.iter().map(|line| ('+', line)))
}

/// A setting, from what to what.
fn setting_line(name: &str, difference: &Difference, default: &[String]) -> String {
    let value = |lines: &[String]| {
        let values = lines.iter().map(|line| line.split_once('=').map_or("", |(_, it)| it));
        values.collect::<Vec<_>>().join(", ")
    };
    let by_default = default.join(", ");
    let (from, to) = (value(&difference.gone), value(&difference.come));
    let number = |text: &str| text.parse::<u64>().ok();
    let shown = |lines: &[String], text: &str| match lines.is_empty() {
        true => (by_default.clone(), format!("{by_default} (by default)")),
        false => (text.to_owned(), text.to_owned()),
    };
    let (before, before_shown) = shown(&difference.gone, &from);
    let (after, after_shown) = shown(&difference.come, &to);
    // 0 is no limit where it is one.
    let note = match (number(&before), number(&after)) {
        (Some(one), Some(other)) if one > 0 && other > one => ", raised",
        (Some(one), Some(other)) if other > 0 && other < one => ", lowered",
        _ => "",
    };
    format!("~ {name}: {before_shown} -> {after_shown}{note}")
}

/// What building an index takes.
fn read_by(entries: Option<u64>) -> String {
    match entries {
        Some(entries) => {
            format!("built from all {} entries while they are served", number(entries))
        }
        None => "built from all entries while they are served".to_owned(),
    }
}

/// What is lost with an index.
fn lost_with(line: &str, lookups: &BTreeMap<String, u64>) -> String {
    let mut words = line.split(' ');
    let (kind, attribute) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let search = match kind {
        "presence" => format!("({attribute}=*)"),
        "substring" => format!("({attribute}=*part*)"),
        "ordering" => format!("({attribute}>=value)"),
        "approximate" => format!("({attribute}~=value)"),
        "extensible" => format!("({attribute}:RULE:=value)"),
        _ => format!("({attribute}=value)"),
    };
    let asked = match lookups.get(&line.to_ascii_lowercase()) {
        Some(0) => "; it was not asked since the server was started".to_owned(),
        Some(count) => {
            format!("; it was asked {} times since the server was started", number(*count))
        }
        None => String::new(),
    };
    format!("searches such as {search} have no index then{asked}")
}

/// How many entries the server has, if it tells.
fn entries(connection: &mut Connection) -> Result<Option<u64>, Failure> {
    const ENTRIES: &str = "roster-store-entries";
    let asked = SearchFor {
        scope: Scope::Base,
        attributes: &[ENTRIES],
        ..SearchFor::below("cn=store,cn=monitor", Filter::Present("objectClass"))
    };
    let found = connection.search(&asked)?.entries.into_iter().next();
    Ok(found.and_then(|entry| entry.text(ENTRIES)?.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(|one| (*one).to_owned()).collect()
    }

    fn present() -> Present {
        let settings = [("limits.size_limit_entries", "5000"), ("log.level", "debug")];
        let settings = settings.map(|(name, value)| (name.to_owned(), texts(&[value])));
        let indexes = [("cn", &["equality cn", "presence cn"][..]), ("sn", &["substring sn"])];
        let indexes = indexes.map(|(name, lines)| (name.to_owned(), texts(lines)));
        Present {
            settings: BTreeMap::from(settings),
            indexes: BTreeMap::from(indexes),
            areas: AREAS.iter().map(|area| (area.key, Vec::new())).collect(),
        }
    }

    #[test]
    fn what_is_exported_differs_in_nothing() {
        for all in [false, true] {
            let desired = present().desired(all);
            let plan = Plan::of(&present(), &desired);
            assert!(plan.is_empty(), "{plan:?}");
            let read = Desired::parse(&desired.text()).unwrap();
            let plan = Plan::of(&present(), &read);
            assert!(plan.is_empty(), "{plan:?}");
        }
    }

    #[test]
    fn what_the_file_does_not_name_is_left_alone() {
        let plan = Plan::of(&present(), &Desired::parse("").unwrap());
        assert!(plan.is_empty(), "{plan:?}");
        let text = "indexes = ['equality commonName', 'ordering sn', 'equality uid']\n\
                    constraints = ['a: unique mail']\n";
        let plan = Plan::of(&present(), &Desired::parse(text).unwrap());
        assert!(plan.settings.is_empty(), "{plan:?}");
        // What is there is waited for, too: it may be being built.
        assert_eq!(plan.named_indexes(), ["equality cn", "ordering sn", "equality uid"]);
        assert_eq!(plan.dropped(), (2, 3));
        // A new entry for the one, a value more for the other.
        let new = plan.new_indexes();
        assert!(matches!(&new[..], [Step::Modify { .. }, Step::Add { .. }]), "{new:?}");
        // The constraint, then what is dropped of two attributes.
        assert_eq!((plan.rest().len(), plan.count()), (3, 5));
    }

    #[test]
    fn a_value_that_stands_for_none_is_none() {
        let mut now = present();
        now.areas.insert("member_of", texts(&["all"]));
        let plan = |now: &Present, text: &str| Plan::of(now, &Desired::parse(text).unwrap());
        assert!(plan(&now, "member_of = []\n").is_empty());
        assert!(plan(&present(), "member_of = ['all']\n").is_empty());
        now.areas.insert("member_of", texts(&["direct"]));
        assert_eq!(plan(&now, "member_of = []\n").count(), 2);
    }

    #[test]
    fn settings_are_told_from_what_to_what() {
        let text = "[settings.limits]\nsize_limit_entries = 7000\ntime_limit_s = 30\n";
        let plan = Plan::of(&present(), &Desired::parse(text).unwrap());
        let lines: Vec<String> = plan
            .settings
            .iter()
            .map(|(name, one)| setting_line(name, one, &texts(&["60"])))
            .collect();
        assert_eq!(
            lines,
            [
                "~ limits.size_limit_entries: 5000 -> 7000, raised",
                "~ limits.time_limit_s: 60 (by default) -> 30, lowered",
                "~ log.level: debug -> 60 (by default)",
            ]
        );
        assert_eq!(plan.rest().len(), 1);
    }
}
