//! What was found so far while a configuration is read.

use std::collections::{HashMap, HashSet};

use directory::assignment::text::Assignment;
use directory::constraint::text::Constraint;
use directory::virtual_attributes::text::VirtualAttribute;
use ldap::dn::Dn;
use schema::Schema;

use super::entries::{ConfigEntry, Entries};
use super::made::Configuration;
use super::names::{index, line_name, place};
use super::setting::{
    ASSIGNMENTS, CONSTRAINTS, GROUPS, REFERENCES, Setting, SettingKind, SettingRemark, Shown,
    VIRTUAL_ATTRIBUTES,
};

/// What was found so far.
pub(super) struct Found<'c> {
    /// The entries of the configuration.
    pub(super) entries: &'c Entries,
    /// That of this server, where it is known.
    pub(super) schema: Option<&'c Schema>,
    made: Configuration,
    /// What is set, once more, to be found quickly.
    set: HashSet<SettingKind>,
    /// Names of lines, and the number that the next of the same name tries.
    names: HashMap<String, usize>,
}

/// Which entries a line is about.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place<'p> {
    pub(super) below: Option<&'p str>,
    pub(super) filter: Option<&'p str>,
}

impl<'c> Found<'c> {
    pub(super) fn new(entries: &'c Entries, schema: Option<&'c Schema>) -> Self {
        let made = Configuration { entries: entries.len(), ..Configuration::default() };
        Self { entries, schema, made, set: HashSet::new(), names: HashMap::new() }
    }

    /// All of it.
    pub(super) fn done(mut self, product: &'static str) -> Configuration {
        self.made.product = product;
        // Those of one rank stay in the order of the file.
        self.made.settings.sort_by_key(|setting| setting.change.rank());
        self.made
    }

    /// This server does it without a setting.
    pub(super) fn built_in(&mut self, entry: &ConfigEntry, about: &str, why: &str) {
        if self.made.built_in.len() < REMARKS_MAX {
            self.made.built_in.push(remark(entry, about, why));
        }
    }

    /// It is not translated.
    pub(super) fn left_out(&mut self, entry: &ConfigEntry, about: &str, why: impl AsRef<str>) {
        match self.made.untranslated.len() {
            ..REMARKS_MAX => self.made.untranslated.push(remark(entry, about, why.as_ref())),
            REMARKS_MAX => self.made.untranslated.push(remark(entry, "more", MORE)),
            _ => {}
        }
    }

    /// Something is to be set; once is enough.
    pub(super) fn set(&mut self, entry: &ConfigEntry, change: SettingKind) {
        if self.set.contains(&change) {
            return;
        }
        if self.set.len() >= SETTINGS_MAX {
            let why = format!("at most {SETTINGS_MAX} settings are made of a configuration");
            return self.left_out(entry, &change.to_string(), why);
        }
        self.set.insert(change.clone());
        self.made.settings.push(Setting { from: entry.dn.clone(), line: entry.line, change });
    }

    /// A line of roster.toml, where a key stands once: the first value counts.
    pub(super) fn file(
        &mut self,
        entry: &ConfigEntry,
        section: &'static str,
        key: &'static str,
        value: String,
    ) -> bool {
        let before = self.made.settings.iter().find_map(|setting| match &setting.change {
            SettingKind::File { section: other, key: own, value }
                if (*other, *own) == (section, key) =>
            {
                Some(value.clone())
            }
            _ => None,
        });
        match before {
            Some(before) if before != value => {
                let why =
                    format!("there is one value for the whole server, and {before} comes first");
                self.left_out(entry, &format!("{section}.{key} = {value}"), why);
                false
            }
            _ => {
                self.set(entry, SettingKind::File { section, key, value });
                true
            }
        }
    }

    /// The password policy of those who have no other.
    pub(super) fn default_policy(&mut self, entry: &ConfigEntry, name: &str) {
        let Ok(dn) = Dn::parse(name) else {
            return self.left_out(entry, name, "it is to be a policy, but is no name of an entry");
        };
        let name = dn.to_string();
        // As a basic string of TOML is written.
        let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
        let is_first = self.file(entry, "password_policy", "default_dn", format!("\"{quoted}\""));
        if is_first
            && !self.made.default_policies.contains(&name)
            && self.made.default_policies.len() < POLICIES_MAX
        {
            self.made.default_policies.push(name);
        }
    }

    /// An index of a kind as other servers call it.
    pub(super) fn index(&mut self, entry: &ConfigEntry, attribute: &str, kind: &str) {
        let attribute = attribute.trim();
        if COMPUTED.iter().any(|own| own.eq_ignore_ascii_case(attribute)) {
            return self.built_in(entry, attribute, "it is computed, and searches find it quickly");
        }
        // Names are the same whatever their case.
        let known = self.schema.map(|schema| schema.attribute_type(attribute));
        match (known, index(attribute, kind)) {
            (Some(None), _) => {
                let why = format!("the schema has no attribute '{attribute}'");
                self.left_out(entry, "index", why);
            }
            (_, Some(_)) if !is_attribute(attribute) => {
                self.left_out(entry, "index", format!("'{attribute}' is no attribute"));
            }
            (known, Some(definition)) => {
                let own = known.flatten().and_then(|known| index(known.name(), kind));
                self.set(entry, SettingKind::Index(own.unwrap_or(definition)));
            }
            (_, None) => {
                let why = format!("of '{attribute}': there is no such kind here as '{kind}'");
                self.left_out(entry, "index", why);
            }
        }
    }

    /// What `memberOf` means.
    pub(super) fn direct_groups(&mut self, entry: &ConfigEntry) {
        self.value(entry, GROUPS, "direct".to_owned(), true);
    }

    /// Values of an attribute follow the entries that they name.
    pub(super) fn reference(&mut self, entry: &ConfigEntry, attribute: &str) {
        let kind = self.schema.map(|schema| schema.attribute_type(attribute));
        if !is_attribute(attribute) || kind.is_some_and(|kind| kind.is_none()) {
            let why = format!("the schema has no attribute '{attribute}'");
            return self.left_out(entry, "references", why);
        }
        if kind.flatten().is_some_and(|kind| !kind.names_entries()) {
            let why = format!("values of '{attribute}' are no names of entries here");
            return self.left_out(entry, "references", why);
        }
        self.index(entry, attribute, "equality");
        let name = kind.flatten().map_or(attribute, |kind| kind.name());
        self.value(entry, REFERENCES, name.to_owned(), false);
    }

    /// A constraint: `KIND ATTRIBUTES …`, without its place.
    pub(super) fn constraint(
        &mut self,
        entry: &ConfigEntry,
        hint: &str,
        rule: &str,
        at: Place<'_>,
    ) -> bool {
        let check = |text: &str, schema: &Schema| {
            Constraint::parse(text, schema).map(drop).map_err(|error| error.to_string())
        };
        self.line(entry, CONSTRAINTS, hint, rule, at, check)
    }

    /// An assignment, likewise.
    pub(super) fn assignment(
        &mut self,
        entry: &ConfigEntry,
        hint: &str,
        rule: &str,
        at: Place<'_>,
    ) -> bool {
        let check = |text: &str, schema: &Schema| {
            Assignment::parse(text, schema).map(drop).map_err(|error| error.to_string())
        };
        self.line(entry, ASSIGNMENTS, hint, rule, at, check)
    }

    /// A virtual attribute, likewise.
    pub(super) fn virtual_attribute(
        &mut self,
        entry: &ConfigEntry,
        hint: &str,
        rule: &str,
        at: Place<'_>,
    ) -> bool {
        let check = |text: &str, schema: &Schema| {
            VirtualAttribute::parse(text, schema).map(drop).map_err(|error| error.to_string())
        };
        self.line(entry, VIRTUAL_ATTRIBUTES, hint, rule, at, check)
    }

    /// Whether all of these may be names of attributes; if not, it is told.
    pub(super) fn are_attributes(&mut self, entry: &ConfigEntry, names: &[&str]) -> bool {
        match names.iter().find(|name| !is_attribute(name)) {
            Some(name) => {
                self.left_out(entry, &entry.leaf(), format!("'{name}' is no attribute"));
                false
            }
            None => !names.is_empty(),
        }
    }

    /// No two entries have the same value: `how` is empty, `across` or `combination`.
    pub(super) fn unique(
        &mut self,
        entry: &ConfigEntry,
        hint: &str,
        how: &str,
        attributes: &[&str],
        at: Place<'_>,
    ) {
        if !self.are_attributes(entry, attributes) {
            return;
        }
        let how = if attributes.len() > 1 { how } else { "" };
        let rule = format!("unique {how} {}", attributes.join(",")).replace("  ", " ");
        if self.constraint(entry, hint, &rule, at) {
            for attribute in attributes {
                self.index(entry, attribute, "equality");
            }
        }
    }

    fn line(
        &mut self,
        entry: &ConfigEntry,
        setting: Shown,
        hint: &str,
        rule: &str,
        at: Place<'_>,
        check: fn(&str, &Schema) -> Result<(), String>,
    ) -> bool {
        let name = self.name(hint);
        let made = place(at.below, at.filter).and_then(|place| {
            let text = format!("{name}: {rule}{place}");
            self.schema.map_or(Ok(()), |schema| check(&text, schema))?;
            Ok(text)
        });
        match made {
            Ok(text) => {
                self.value(entry, setting, text, false);
                true
            }
            Err(why) => {
                self.left_out(entry, rule, why);
                false
            }
        }
    }

    fn value(
        &mut self,
        entry: &ConfigEntry,
        Shown { entry: dn, attribute }: Shown,
        value: String,
        replaces: bool,
    ) {
        let change = SettingKind::Value { entry: dn.to_owned(), attribute, value, replaces };
        self.set(entry, change);
    }

    /// A name that no other line has.
    fn name(&mut self, hint: &str) -> String {
        let name = line_name(hint);
        let mut own = name.clone();
        while self.names.contains_key(&own) {
            let number = self.names.entry(name.clone()).or_insert(1);
            *number += 1;
            own = format!("{name}-{number}");
        }
        self.names.insert(own.clone(), 1);
        own
    }
}

/// Naming contexts as places of lines; without any, a line is about the whole directory.
pub(super) fn or_all(suffixes: Vec<&str>) -> Vec<Option<&str>> {
    if suffixes.is_empty() { vec![None] } else { suffixes.into_iter().map(Some).collect() }
}

/// Whether it may be the name of an attribute: it stands in lines, between commas.
pub(super) fn is_attribute(name: &str) -> bool {
    ldap::description::is_oid(name)
}

fn remark(entry: &ConfigEntry, about: &str, why: &str) -> SettingRemark {
    let (from, line) = (entry.dn.clone(), entry.line);
    SettingRemark { from, line, about: about.to_owned(), why: why.to_owned() }
}

/// Attributes that are computed, and need no index.
const COMPUTED: [&str; 4] = ["memberOf", "isMemberOf", "isDirectMemberOf", "nsRole"];
/// The most settings that are made of a configuration.
const SETTINGS_MAX: usize = 2000;
/// The most policies that are looked for.
const POLICIES_MAX: usize = 100;
/// The most remarks of a kind.
const REMARKS_MAX: usize = 2000;
const MORE: &str = "there is more that is not translated than is listed here";
