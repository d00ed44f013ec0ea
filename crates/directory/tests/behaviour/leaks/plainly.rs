//! Access decided the plain way: rules as data, asked whole for every question. Nothing is parsed,
//! prepared, kept or cut short, and no code is shared with the server.

use std::collections::BTreeMap;
use std::fmt;

use crate::support::SUFFIX;

/// True, false or not known.
pub(super) type Truth = Option<bool>;

fn and(one: Truth, other: Truth) -> Truth {
    match (one, other) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn or(one: Truth, other: Truth) -> Truth {
    not(and(not(one), not(other)))
}

fn all(truths: impl Iterator<Item = Truth>) -> Truth {
    truths.reduce(and).unwrap_or(Some(true))
}

fn any(truths: impl Iterator<Item = Truth>) -> Truth {
    truths.reduce(or).unwrap_or(Some(false))
}

fn not(one: Truth) -> Truth {
    one.map(|one| !one)
}

/// Who a rule is for.
#[derive(Clone, Debug)]
pub(super) enum Who {
    Anyone,
    All,
    Oneself,
    Parent,
    User(&'static str),
    Admins,
    /// Members of a group that is not there.
    Lost,
    /// Whom the entry names as its manager.
    Manager,
    /// Whom a URL in the entry finds.
    Found,
    /// Whose connection is not encrypted.
    Unprotected,
}

/// A bind rule.
#[derive(Clone, Debug)]
pub(super) enum Rule {
    Is(bool, Who),
    Not(Box<Self>),
    All(Vec<Self>),
    Any(Vec<Self>),
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |rules: &[Self], word: &str| {
            rules.iter().map(|rule| format!("({rule})")).collect::<Vec<_>>().join(word)
        };
        match self {
            Self::Is(is, who) => {
                let sign = if *is { "=" } else { "!=" };
                match who {
                    Who::Anyone => write!(f, "userdn{sign}\"ldap:///anyone\""),
                    Who::All => write!(f, "userdn{sign}\"ldap:///all\""),
                    Who::Oneself => write!(f, "userdn{sign}\"ldap:///self\""),
                    Who::Parent => write!(f, "userdn{sign}\"ldap:///parent\""),
                    Who::User(name) => write!(f, "userdn{sign}\"ldap:///{name}\""),
                    Who::Admins => write!(f, "groupdn{sign}\"ldap:///{ADMINS}\""),
                    Who::Lost => write!(f, "groupdn{sign}\"ldap:///cn=lost,{SUFFIX}\""),
                    Who::Manager => write!(f, "userattr{sign}\"manager#USERDN\""),
                    Who::Found => write!(f, "userattr{sign}\"labeledURI#LDAPURL\""),
                    Who::Unprotected => write!(f, "ssf{sign}\"0\""),
                }
            }
            Self::Not(rule) => write!(f, "not ({rule})"),
            Self::All(rules) => f.write_str(&joined(rules, " and ")),
            Self::Any(rules) => f.write_str(&joined(rules, " or ")),
        }
    }
}

/// What of an entry an ACI is about.
#[derive(Clone, Debug)]
pub(super) enum Attributes {
    Whole,
    User,
    Every,
    These(Vec<&'static str>),
    Others(Vec<&'static str>),
}

/// One ACI with one statement.
#[derive(Clone, Debug)]
pub(super) struct Aci {
    /// The root of the tree for a global one.
    pub(super) holder: String,
    pub(super) target: Option<String>,
    /// `base`, `onelevel`, `subtree` or `subordinate`.
    pub(super) scope: &'static str,
    pub(super) attributes: Attributes,
    /// Entries that have this place, or all that do not.
    pub(super) place: Option<(bool, &'static str)>,
    pub(super) allows: bool,
    pub(super) rights: Vec<&'static str>,
    pub(super) rule: Rule,
}

impl fmt::Display for Aci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(target) = &self.target {
            write!(f, "(target=\"ldap:///{target}\")")?;
        }
        write!(f, "(targetscope=\"{}\")", self.scope)?;
        match &self.attributes {
            Attributes::Whole => {}
            Attributes::User => f.write_str("(targetattr=\"*\")")?,
            Attributes::Every => f.write_str("(targetattr=\"* || +\")")?,
            Attributes::These(names) => write!(f, "(targetattr=\"{}\")", names.join(" || "))?,
            Attributes::Others(names) => write!(f, "(targetattr!=\"{}\")", names.join(" || "))?,
        }
        if let Some((is, place)) = self.place {
            write!(f, "(targetfilter{}\"(l={place})\")", if is { "=" } else { "!=" })?;
        }
        let word = if self.allows { "allow" } else { "deny" };
        let rights = self.rights.join(",");
        write!(f, "(version 3.0; acl \"x\"; {word} ({rights}) {};)", self.rule)
    }
}

/// The values of an entry.
pub(super) type Entry = BTreeMap<&'static str, Vec<String>>;

/// A filter.
#[derive(Clone, Debug)]
pub(super) enum Filter {
    Present(&'static str),
    Equal(&'static str, &'static str),
    Begins(&'static str, &'static str),
    HasSubordinates,
    Not(Box<Self>),
    All(Vec<Self>),
    Any(Vec<Self>),
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = |parts: &[Self]| parts.iter().map(Self::to_string).collect::<String>();
        match self {
            Self::Present(name) => write!(f, "({name}=*)"),
            Self::Equal(name, value) => write!(f, "({name}={value})"),
            Self::Begins(name, value) => write!(f, "({name}={value}*)"),
            Self::HasSubordinates => f.write_str("(hasSubordinates=TRUE)"),
            Self::Not(part) => write!(f, "(!{part})"),
            Self::All(parts) => write!(f, "(&{})", all(parts)),
            Self::Any(parts) => write!(f, "(|{})", all(parts)),
        }
    }
}

/// Entries and the rules about them.
#[derive(Clone, Debug, Default)]
pub(super) struct Plainly {
    pub(super) entries: BTreeMap<String, Entry>,
    pub(super) acis: Vec<Aci>,
    pub(super) admins: Vec<String>,
}

/// The name of the superior.
pub(super) fn above(dn: &str) -> &str {
    dn.split_once(',').map_or("", |(_, above)| above)
}

/// Whether a name is another, or below it.
pub(super) fn is_within(dn: &str, base: &str) -> bool {
    base.is_empty() || dn == base || dn.ends_with(&format!(",{base}"))
}

/// Whether a name is in the scope of a search or of a target.
pub(super) fn is_in_scope(dn: &str, base: &str, scope: &str) -> bool {
    match scope {
        "base" => dn == base,
        "onelevel" => above(dn) == base && !dn.is_empty(),
        "subordinate" => dn != base && is_within(dn, base),
        _ => is_within(dn, base),
    }
}

impl Plainly {
    /// Whether somebody (nobody known when empty) has a right to an attribute.
    pub(super) fn may(&self, who: &str, dn: &str, right: &str, attribute: &str) -> bool {
        self.decide(who, dn, right, |aci| {
            let is_operational = OPERATIONAL.contains(&attribute);
            match &aci.attributes {
                Attributes::Whole => false,
                Attributes::User => !is_operational,
                Attributes::Every => true,
                Attributes::These(names) => names.contains(&attribute),
                Attributes::Others(names) => {
                    let is_same_kind = |name: &&str| OPERATIONAL.contains(name) == is_operational;
                    names.iter().any(is_same_kind) && !names.contains(&attribute)
                }
            }
        }) == Some(true)
    }

    /// Whether somebody has a right to an entry: given to it as a whole, or to any attribute there
    /// is; and not taken from it as a whole.
    pub(super) fn may_entry(&self, who: &str, dn: &str, right: &str) -> bool {
        let of_whole = self.decide(who, dn, right, |aci| match &aci.attributes {
            Attributes::Whole => true,
            Attributes::Every => !aci.allows,
            _ => false,
        });
        let any = || EVERY_ATTRIBUTE.iter().any(|one| self.may(who, dn, right, one));
        of_whole.unwrap_or_else(any)
    }

    /// Whether the entry is sent when it is found.
    pub(super) fn is_seen(&self, who: &str, dn: &str) -> bool {
        self.may_entry(who, dn, "read")
    }

    /// Whether it may be known that there is such an entry.
    pub(super) fn is_known(&self, who: &str, dn: &str) -> bool {
        ["read", "search", "compare"].iter().any(|right| self.may_entry(who, dn, right))
    }

    /// How many subordinates are seen.
    pub(super) fn children(&self, who: &str, dn: &str) -> usize {
        let is_child = |one: &&String| above(one) == dn && self.is_seen(who, one);
        self.entries.keys().filter(is_child).count()
    }

    /// Whether a filter is true of an entry, as far as somebody may ask.
    pub(super) fn matches(&self, who: &str, dn: &str, filter: &Filter) -> Truth {
        let of_values = |name: &str, holds: &dyn Fn(&str) -> bool| {
            let values = self.entries[dn].get(name).map(Vec::as_slice).unwrap_or_default();
            let found = values.iter().any(|value| holds(&value.to_lowercase()));
            self.may(who, dn, "search", name).then_some(found)
        };
        match filter {
            Filter::Present(name) => of_values(name, &|_| true),
            Filter::Equal(name, asked) => of_values(name, &|value| value == asked.to_lowercase()),
            Filter::Begins(name, asked) => of_values(name, &|value| value.starts_with(asked)),
            Filter::HasSubordinates => {
                let may = self.may(who, dn, "search", "hasSubordinates");
                may.then(|| self.children(who, dn) > 0)
            }
            Filter::Not(part) => not(self.matches(who, dn, part)),
            Filter::All(parts) => all(parts.iter().map(|part| self.matches(who, dn, part))),
            Filter::Any(parts) => any(parts.iter().map(|part| self.matches(who, dn, part))),
        }
    }

    /// What a search returns.
    pub(super) fn found(
        &self,
        who: &str,
        (base, scope): (&str, &str),
        filter: &Filter,
    ) -> Vec<&str> {
        let in_scope = self.entries.keys().filter(|dn| is_in_scope(dn, base, scope));
        let found = in_scope
            .filter(|dn| self.is_seen(who, dn) && self.matches(who, dn, filter) == Some(true));
        found.map(String::as_str).collect()
    }

    /// What the ACIs about something say: a deny that may apply wins, an allow must apply for
    /// certain, and without either nothing is said.
    fn decide(
        &self,
        who: &str,
        dn: &str,
        right: &str,
        is_about: impl Fn(&Aci) -> bool,
    ) -> Option<bool> {
        let mut said = None;
        for aci in self.acis.iter().filter(|aci| is_about(aci)) {
            let has = aci.rights.contains(&right) || aci.rights.contains(&"all");
            if !has || !self.is_target(aci, dn) {
                continue;
            }
            match (aci.allows, self.truth(&aci.rule, who, dn, false)) {
                (false, Some(true) | None) => return Some(false),
                (true, Some(true)) => said = Some(true),
                (true, Some(false) | None) | (false, Some(false)) => {}
            }
        }
        said
    }

    fn is_target(&self, aci: &Aci, dn: &str) -> bool {
        let base = aci.target.as_ref().unwrap_or(&aci.holder);
        let has = |place: &str| {
            let values = self.entries[dn].get("l").map(Vec::as_slice).unwrap_or_default();
            values.iter().any(|value| value.eq_ignore_ascii_case(place))
        };
        is_within(dn, &aci.holder)
            && is_in_scope(dn, base, aci.scope)
            && aci.place.is_none_or(|(is, place)| has(place) == is)
    }

    fn truth(&self, rule: &Rule, who: &str, dn: &str, is_negated: bool) -> Truth {
        match rule {
            Rule::Not(rule) => not(self.truth(rule, who, dn, true)),
            Rule::All(rules) => all(rules.iter().map(|one| self.truth(one, who, dn, is_negated))),
            Rule::Any(rules) => any(rules.iter().map(|one| self.truth(one, who, dn, is_negated))),
            Rule::Is(is, one) => {
                let is_of_people = !matches!(one, Who::Anyone | Who::Unprotected);
                // No negation says who a stranger is.
                if who.is_empty() && is_of_people && (is_negated || !is) {
                    return None;
                }
                let found = self.is_one(one, who, dn);
                if *is { found } else { not(found) }
            }
        }
    }

    fn is_one(&self, one: &Who, who: &str, dn: &str) -> Truth {
        if matches!(one, Who::Anyone | Who::Unprotected) {
            return Some(true);
        }
        if who.is_empty() {
            return Some(false);
        }
        let values = |name: &str| self.entries[dn].get(name).map(Vec::as_slice).unwrap_or_default();
        match one {
            Who::Anyone | Who::Unprotected | Who::All => Some(true),
            Who::Oneself => Some(who == dn),
            Who::Parent => Some(who == above(dn)),
            Who::User(name) => Some(who == *name),
            Who::Admins => {
                let is_member = || self.admins.iter().any(|one| one == who);
                self.entries.contains_key(ADMINS).then(is_member)
            }
            Who::Lost => None,
            Who::Manager => Some(values("manager").iter().any(|one| one == who)),
            // The one URL there is finds those directly below a unit whose names begin so.
            Who::Found => any(values("labeledURI")
                .iter()
                .map(|url| (url == URL).then_some(above(who) == UNIT && who.starts_with("uid=b")))),
        }
    }
}

pub(super) const ADMINS: &str = "cn=admins,dc=example,dc=org";
pub(super) const UNIT: &str = "ou=a,dc=example,dc=org";
/// A URL that can be read.
pub(super) const URL: &str = "ldap:///ou=a,dc=example,dc=org??one?(uid=b*)";

const OPERATIONAL: &[&str] = &["numSubordinates", "hasSubordinates", "createTimestamp"];

/// The attributes that rules name, and one of either kind that none does.
const EVERY_ATTRIBUTE: &[&str] = &[
    "objectClass",
    "cn",
    "sn",
    "uid",
    "l",
    "description",
    "manager",
    "numSubordinates",
    "hasSubordinates",
    "title",
    "createTimestamp",
];
