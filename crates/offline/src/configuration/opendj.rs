//! `config.ldif`: the configuration of OpenDJ, and of Oracle Unified Directory.

use super::entries::ConfigEntry;
use super::found::{Found, Place, or_all};
use super::policy;
use super::row::{Fate, Row};

/// Whether an entry is of OpenDJ.
pub(super) fn owns(entry: &ConfigEntry) -> bool {
    entry.is("ds-cfg-root-config") || entry.is("ds-cfg-backend") || entry.is("ds-cfg-plugin")
}

/// Reads all of it.
pub(super) fn read(found: &mut Found<'_>) {
    for entry in found.entries.iter() {
        // What has no switch is on.
        if entry.value("ds-cfg-enabled").is_some() && !entry.is_on("ds-cfg-enabled") {
            continue;
        }
        let row = CLASSES.iter().find(|row| entry.is(row.name));
        if let Some(row) = row {
            Row::apply(CLASSES, row.name, entry, found);
        } else if let Some((class, why)) = UNKNOWN.iter().find(|(class, _)| entry.is(class)) {
            // The most special class is among them, in whatever order they stand.
            let is_own = OWN.iter().any(|known| entry.is(known));
            let special = entry
                .values("objectClass")
                .find(|own| !own.eq_ignore_ascii_case("top") && !own.eq_ignore_ascii_case(class));
            if !is_own {
                let about = format!("{} ({})", entry.leaf(), special.unwrap_or(class));
                found.left_out(entry, &about, why);
            }
        }
    }
}

/// The naming contexts of its data.
fn suffixes<'e>(found: &Found<'e>) -> Vec<&'e str> {
    let backends = found.entries.iter().filter(|entry| {
        DATA_BACKENDS.iter().any(|class| entry.is(class)) && entry.is_on("ds-cfg-enabled")
    });
    backends.flat_map(|entry| entry.values("ds-cfg-base-dn")).collect()
}

/// Entries by their classes; the first one that an entry has counts.
pub(super) static CLASSES: &[Row] = &[
    Row {
        name: "ds-cfg-unique-attribute-plugin",
        fate: Fate::Becomes(unique),
        says: "a constraint `unique across` for each base",
    },
    Row {
        name: "ds-cfg-referential-integrity-plugin",
        fate: Fate::Becomes(references),
        says: "`roster-reference` for each attribute, with an equality index; a constraint \
               `exists` where references are checked",
    },
    Row {
        name: "ds-cfg-seven-bit-clean-plugin",
        fate: Fate::Becomes(ascii),
        says: "a constraint `ascii` for each base",
    },
    Row {
        name: "ds-cfg-is-member-of-virtual-attribute",
        fate: Fate::Becomes(member_of),
        says: "nothing: `isMemberOf` and `memberOf` are computed",
    },
    Row {
        name: "ds-cfg-member-virtual-attribute",
        fate: Fate::BuiltIn,
        says: "virtual static groups show the members of their group",
    },
    Row {
        name: "ds-cfg-user-defined-virtual-attribute",
        fate: Fate::Becomes(given),
        says: "a virtual attribute for each base; those of members of a group, or of another scope \
               than the whole subtree, are not translated",
    },
    Row {
        name: "ds-cfg-collective-attribute-subentries-virtual-attribute",
        fate: Fate::BuiltIn,
        says: "subentries with collective attributes work as they are",
    },
    Row { name: "ds-cfg-backend-index", fate: Fate::Becomes(index), says: "indexes" },
    Row { name: "ds-cfg-local-db-index", fate: Fate::Becomes(index), says: "indexes" },
    Row {
        name: "ds-cfg-backend-vlv-index",
        fate: Fate::BuiltIn,
        says: "sorting and lists by position need no index of their own",
    },
    Row {
        name: "ds-cfg-local-db-vlv-index",
        fate: Fate::BuiltIn,
        says: "sorting and lists by position need no index of their own",
    },
    Row {
        name: "ds-cfg-password-policy",
        fate: Fate::Becomes(password_policy),
        says: "the default one: a policy of each naming context, with its validators; others, \
               and rules that are not kept, are not translated",
    },
    Row {
        name: "ds-cfg-ldap-pass-through-authentication-policy",
        fate: Fate::LeftOut,
        says: "passwords are checked here, and nowhere else",
    },
    Row {
        name: "ds-cfg-dsee-compat-access-control-handler",
        fate: Fate::LeftOut,
        says: "ACIs of `ds-cfg-global-aci` have the same language: add those that you changed to \
               cn=Access Control Handler,cn=config (docs/how-to/access.md)",
    },
    Row { name: "ds-cfg-root-config", fate: Fate::Becomes(limits), says: "limits in roster.toml" },
    Row {
        name: "ds-cfg-replication-domain",
        fate: Fate::LeftOut,
        says: "servers of a cluster replicate by themselves (docs/how-to/cluster.md)",
    },
    Row {
        name: "ds-cfg-samba-password-plugin",
        fate: Fate::LeftOut,
        says: "passwords of Samba are not kept in step",
    },
    Row {
        name: "ds-cfg-attribute-cleanup-plugin",
        fate: Fate::LeftOut,
        says: "requests are not rewritten",
    },
];

/// Classes of which each one that is on does something, if it is not among those of [`OWN`].
const UNKNOWN: [(&str, &str); 3] = [
    ("ds-cfg-plugin", "the plugin is not known; what it does is not done here"),
    ("ds-cfg-virtual-attribute", "the virtual attribute is not known, and is not computed here"),
    ("ds-cfg-backend", "its entries are not known here"),
];

/// What this server has, too, or what is about the other server itself.
const OWN: [&str; 32] = [
    "ds-cfg-entry-uuid-plugin",
    "ds-cfg-last-mod-plugin",
    "ds-cfg-ldap-attribute-description-list-plugin",
    "ds-cfg-password-policy-import-plugin",
    "ds-cfg-profiler-plugin",
    "ds-cfg-fractional-ldif-import-plugin",
    "ds-cfg-change-number-control-plugin",
    "ds-cfg-graphite-monitor-reporter-plugin",
    "ds-cfg-entity-tag-virtual-attribute",
    "ds-cfg-entry-dn-virtual-attribute",
    "ds-cfg-entry-uuid-virtual-attribute",
    "ds-cfg-governing-structure-rule-virtual-attribute",
    "ds-cfg-has-subordinates-virtual-attribute",
    "ds-cfg-num-subordinates-virtual-attribute",
    "ds-cfg-password-expiration-time-virtual-attribute",
    "ds-cfg-password-policy-subentry-virtual-attribute",
    "ds-cfg-structural-object-class-virtual-attribute",
    "ds-cfg-subschema-subentry-virtual-attribute",
    "ds-cfg-etag-virtual-attribute",
    "ds-cfg-je-backend",
    "ds-cfg-pdb-backend",
    "ds-cfg-local-db-backend",
    "ds-cfg-jdbc-backend",
    "ds-cfg-cas-backend",
    "ds-cfg-pluggable-backend",
    "ds-cfg-backup-backend",
    "ds-cfg-config-file-handler-backend",
    "ds-cfg-monitor-backend",
    "ds-cfg-schema-backend",
    "ds-cfg-task-backend",
    "ds-cfg-trust-store-backend",
    "ds-cfg-ldif-backend",
];

fn unique(entry: &ConfigEntry, found: &mut Found<'_>) {
    let attributes: Vec<&str> = entry.values("ds-cfg-type").collect();
    for below in bases(entry, found) {
        let at = Place { below, filter: None };
        found.unique(entry, &entry.leaf(), "across", &attributes, at);
    }
}

/// Those of the entry, or the naming contexts.
fn bases<'e>(entry: &'e ConfigEntry, found: &Found<'e>) -> Vec<Option<&'e str>> {
    let own: Vec<&str> = entry.values("ds-cfg-base-dn").collect();
    or_all(if own.is_empty() { suffixes(found) } else { own })
}

fn references(entry: &ConfigEntry, found: &mut Found<'_>) {
    let attributes: Vec<&str> = entry.values("ds-cfg-attribute-type").collect();
    for attribute in &attributes {
        found.reference(entry, attribute);
    }
    if !entry.is_on("ds-cfg-check-references") || !found.are_attributes(entry, &attributes) {
        return;
    }
    let mut filters: Vec<(&str, &str)> = Vec::new();
    for criterion in entry.values("ds-cfg-check-references-filter-criteria") {
        filters.extend(criterion.split_once(':'));
    }
    if !filters.is_empty() {
        let why = "a constraint asks whether the entry is there, not what it is";
        found.left_out(entry, "ds-cfg-check-references-filter-criteria", why);
    }
    for below in bases(entry, found) {
        let at = Place { below, filter: None };
        let rule = format!("exists {}", attributes.join(","));
        found.constraint(entry, "references-exist", &rule, at);
    }
}

fn ascii(entry: &ConfigEntry, found: &mut Found<'_>) {
    let plain = |name: &&str| !name.eq_ignore_ascii_case("userPassword");
    let attributes: Vec<&str> = entry.values("ds-cfg-attribute-type").filter(plain).collect();
    if entry.values("ds-cfg-attribute-type").any(|name| name.eq_ignore_ascii_case("userPassword")) {
        let why = "passwords have no constraint; password policies say what they are like";
        found.left_out(entry, "7-bit check of userPassword", why);
    }
    if !found.are_attributes(entry, &attributes) {
        return;
    }
    for below in bases(entry, found) {
        let at = Place { below, filter: None };
        found.constraint(entry, "7-bit", &format!("ascii {}", attributes.join(",")), at);
    }
}

fn given(entry: &ConfigEntry, found: &mut Found<'_>) {
    let attribute = entry.value("ds-cfg-attribute-type").unwrap_or_default();
    if entry.value("ds-cfg-group-dn").is_some() {
        let why = "a virtual attribute here is not for the members of a group";
        return found.left_out(entry, attribute, why);
    }
    let scope = entry.value("ds-cfg-scope").unwrap_or(WHOLE_SUBTREE);
    if !scope.eq_ignore_ascii_case(WHOLE_SUBTREE) {
        let why = "a virtual attribute here is of an entry and all below it";
        return found.left_out(entry, &format!("{attribute} with ds-cfg-scope: {scope}"), why);
    }
    if !found.are_attributes(entry, &[attribute]) {
        return;
    }
    // Between parentheses these three stand with a backslash.
    let escaped = |value: &str| {
        let special = |one: char| matches!(one, '|' | ')' | '\\');
        value
            .chars()
            .flat_map(|one| special(one).then_some('\\').into_iter().chain([one]))
            .collect()
    };
    let values: Vec<String> = entry.values("ds-cfg-value").map(escaped).collect();
    let beside = match entry.value("ds-cfg-conflict-behavior") {
        Some("virtual-overrides-real") => " override",
        Some("merge-real-and-virtual") => " merge",
        Some(_) | None => "",
    };
    let rule = format!("constant {attribute} ({}){beside}", values.join("|"));
    let filters: Vec<&str> = entry.values("ds-cfg-filter").collect();
    let any = format!("(|{})", filters.concat());
    let filter = match filters.as_slice() {
        [] => Some("(objectClass=*)"),
        [one] => Some(*one),
        _ => Some(any.as_str()),
    };
    let bases: Vec<&str> = entry.values("ds-cfg-base-dn").collect();
    let below = bases.iter().map(|base| Some(*base));
    for below in below.chain(bases.is_empty().then_some(None)) {
        found.virtual_attribute(entry, attribute, &rule, Place { below, filter });
    }
}

fn member_of(entry: &ConfigEntry, found: &mut Found<'_>) {
    let name = entry.value("ds-cfg-attribute-type").unwrap_or("isMemberOf");
    if ["isMemberOf", "memberOf"].iter().any(|own| own.eq_ignore_ascii_case(name)) {
        found.built_in(entry, name, "the groups of an entry are computed");
    } else {
        let why = "the groups of an entry are in 'isMemberOf' and 'memberOf'";
        found.left_out(entry, name, why);
    }
}

fn index(entry: &ConfigEntry, found: &mut Found<'_>) {
    let Some(attribute) = entry.value("ds-cfg-attribute") else { return };
    let is_data = {
        let container = found.entries.above(entry);
        let backend = container.and_then(|container| found.entries.above(container));
        backend.is_none_or(|backend| DATA_BACKENDS.iter().any(|class| backend.is(class)))
    };
    let is_own = OWN_INDEXES.iter().any(|own| own.eq_ignore_ascii_case(attribute));
    if is_own || !is_data {
        return;
    }
    for kind in entry.values("ds-cfg-index-type") {
        if kind.eq_ignore_ascii_case("extensible") {
            for rule in entry.values("ds-cfg-index-extensible-matching-rule") {
                let why = format!("add 'extensible {attribute} {rule}' with 'roster index add'");
                found.left_out(entry, &format!("extensible index of {attribute}"), why);
            }
        } else {
            found.index(entry, attribute, kind);
        }
    }
}

fn limits(entry: &ConfigEntry, found: &mut Found<'_>) {
    for (name, usual, key) in LIMITS {
        let Some(value) = entry.value(name) else { continue };
        let (number, unit) = value.split_once(' ').unwrap_or((value, ""));
        let is_plain = ["", "s", "seconds"].contains(&unit);
        if is_plain && number == usual {
            continue;
        }
        match number.parse::<u32>() {
            Ok(number) if is_plain => {
                found.file(entry, "limits", key, number.to_string());
            }
            Ok(_) | Err(_) => {
                found.left_out(entry, name, format!("see limits.{key} of roster.toml"));
            }
        }
    }
    if entry.is_on("ds-cfg-reject-unauthenticated-requests") {
        let why = "ACIs say who may read without signing in (docs/how-to/access.md)";
        found.left_out(entry, "ds-cfg-reject-unauthenticated-requests", why);
    }
}

fn password_policy(entry: &ConfigEntry, found: &mut Found<'_>) {
    let root = found.entries.iter().find(|one| one.is("ds-cfg-root-config"));
    let usual = root.and_then(|root| root.value("ds-cfg-default-password-policy"));
    let usual = usual.and_then(|name| found.entries.named(name));
    let name = entry.leaf();
    if usual.is_none_or(|usual| usual.dn != entry.dn) {
        if !OWN_POLICIES.iter().any(|own| own.eq_ignore_ascii_case(&name)) {
            let why = "only the default policy is translated: write an entry 'pwdPolicy', and let \
                       'pwdPolicySubentry' of its users name it";
            found.left_out(entry, &name, why);
        }
        return;
    }
    let mut rules = Vec::new();
    let mut classes = vec!["ds-pwp-password-policy"];
    for (attribute, value) in entry.attributes() {
        match rule(attribute, value) {
            Some(rule) => rules.push(rule),
            None if is_usual(attribute, value) => {}
            None => {
                let about = format!("{name}: {attribute}: {value}");
                found.left_out(entry, &about, "the rule is not translated");
            }
        }
    }
    for validator in entry.values("ds-cfg-password-validator") {
        let known = found.entries.named(validator).filter(|one| one.is_on("ds-cfg-enabled"));
        let Some(validator) = known else { continue };
        let row = VALIDATORS.iter().find(|(class, ..)| validator.is(class));
        let Some((_, own, attributes)) = row else {
            found.left_out(validator, &validator.leaf(), "the validator is not known here");
            continue;
        };
        classes.push(own);
        character_sets(validator, found);
        for (theirs, ours) in *attributes {
            let values = validator.values(theirs);
            rules.extend(values.map(|value| ((*ours).to_owned(), value.to_owned())));
        }
    }
    let suffixes = suffixes(found);
    policy::set(entry, found, &suffixes, &name, &classes, &rules);
}

/// What a validator asks of sets of characters of its own: here the sets are those of 389.
fn character_sets(validator: &ConfigEntry, found: &mut Found<'_>) {
    let name = validator.leaf();
    let sets = ["ds-cfg-character-set", "ds-cfg-character-set-ranges"];
    for (kind, set) in
        sets.iter().flat_map(|kind| validator.values(kind).map(move |set| (kind, set)))
    {
        // Before the colon is how many a password must have of it.
        if set.split_once(':').is_none_or(|(count, _)| count.trim() != "0") {
            let why = "a password need not have so many letters of a set: see passwordMinDigits \
                       and others (docs/how-to/password-policy.md)";
            found.left_out(validator, &format!("{name}: {kind}: {set}"), why);
        }
    }
    if validator.is_off("ds-cfg-allow-unclassified-characters") {
        let about = format!("{name}: ds-cfg-allow-unclassified-characters: false");
        found.left_out(validator, &about, "a password may have any letters");
    }
}

/// Whether it is no rule, or says what holds without it.
fn is_usual(attribute: &str, value: &str) -> bool {
    let is_rule = attribute.get(..PREFIX.len()).is_some_and(|it| it.eq_ignore_ascii_case(PREFIX));
    let known = USUAL.iter().find(|(name, _)| name.eq_ignore_ascii_case(attribute));
    !is_rule
        || known
            .is_some_and(|(_, usual)| usual.is_none_or(|usual| usual.eq_ignore_ascii_case(value)))
}

/// A rule of a policy under the name that entries of the directory use.
fn rule(attribute: &str, value: &str) -> Option<(String, String)> {
    let kind = RULES.iter().find(|kind| {
        attribute.get(PREFIX.len()..).is_some_and(|own| own.eq_ignore_ascii_case(kind))
            && attribute.get(..PREFIX.len()).is_some_and(|it| it.eq_ignore_ascii_case(PREFIX))
    })?;
    Some((format!("ds-pwp-{kind}"), value.to_owned()))
}

const WHOLE_SUBTREE: &str = "whole-subtree";
const PREFIX: &str = "ds-cfg-";
/// Rules that are the same here; schemes are named by their entries there.
const RULES: [&str; 19] = [
    "allow-multiple-password-values",
    "allow-pre-encoded-passwords",
    "last-login-time-attribute",
    "min-password-age",
    "max-password-age",
    "password-expiration-warning-interval",
    "grace-login-count",
    "password-history-count",
    "password-history-duration",
    "lockout-failure-count",
    "lockout-duration",
    "lockout-failure-expiration-interval",
    "idle-lockout-interval",
    "force-change-on-reset",
    "force-change-on-add",
    "max-password-reset-age",
    "allow-user-password-changes",
    "password-change-requires-current-password",
    "skip-validation-for-administrators",
];

/// What a policy has besides: without a value it is no rule, or stands elsewhere; with one it is
/// what holds anyway.
const USUAL: [(&str, Option<&str>); 13] = [
    ("ds-cfg-java-class", None),
    ("ds-cfg-password-validator", None),
    ("ds-cfg-password-generator", None),
    ("ds-cfg-state-update-failure-policy", None),
    ("ds-cfg-last-login-time-format", None),
    ("ds-cfg-previous-last-login-time-format", None),
    // A bind stores a password by the scheme for new ones.
    ("ds-cfg-deprecated-password-storage-scheme", None),
    ("ds-cfg-password-attribute", Some("userPassword")),
    ("ds-cfg-allow-expired-password-changes", Some("false")),
    ("ds-cfg-expire-passwords-without-warning", Some("false")),
    ("ds-cfg-require-secure-authentication", Some("false")),
    ("ds-cfg-require-secure-password-changes", Some("false")),
    ("ds-cfg-enabled", None),
];

/// The class of a validator here, and its attributes, theirs and ours.
type Validator = (&'static str, &'static str, &'static [(&'static str, &'static str)]);
static VALIDATORS: [Validator; 6] = [
    (
        "ds-cfg-length-based-password-validator",
        "ds-pwp-length-based-validator",
        &[
            ("ds-cfg-min-password-length", "ds-pwp-length-based-min-password-length"),
            ("ds-cfg-max-password-length", "ds-pwp-length-based-max-password-length"),
        ],
    ),
    (
        "ds-cfg-character-set-password-validator",
        "ds-pwp-character-set-validator",
        &[("ds-cfg-min-character-sets", "ds-pwp-character-set-min-character-sets")],
    ),
    (
        "ds-cfg-repeated-characters-password-validator",
        "ds-pwp-repeated-characters-validator",
        &[("ds-cfg-max-consecutive-length", "ds-pwp-repeated-characters-max-consecutive-length")],
    ),
    (
        "ds-cfg-unique-characters-password-validator",
        "ds-pwp-unique-characters-validator",
        &[("ds-cfg-min-unique-characters", "ds-pwp-unique-characters-min-unique-characters")],
    ),
    (
        "ds-cfg-similarity-based-password-validator",
        "ds-pwp-similarity-based-validator",
        &[("ds-cfg-min-password-difference", "ds-pwp-similarity-based-min-password-difference")],
    ),
    (
        "ds-cfg-attribute-value-password-validator",
        "ds-pwp-attribute-value-validator",
        &[
            ("ds-cfg-match-attribute", "ds-pwp-attribute-value-match-attribute"),
            ("ds-cfg-min-substring-length", "ds-pwp-attribute-value-min-substring-length"),
            ("ds-cfg-test-reversed-password", "ds-pwp-attribute-value-test-reversed-password"),
        ],
    ),
];

/// Limits of every user: theirs, what it is by default, ours.
const LIMITS: [(&str, &str, &str); 3] = [
    ("ds-cfg-size-limit", "1000", "size_limit_entries"),
    ("ds-cfg-time-limit", "60", "time_limit_s"),
    ("ds-cfg-lookthrough-limit", "5000", "look_through_limit_entries"),
];
/// Policies that come with the server, of its administrators.
const OWN_POLICIES: [&str; 2] = ["Root Password Policy", "Default Password Policy"];
/// Backends with entries of users.
const DATA_BACKENDS: [&str; 6] = [
    "ds-cfg-je-backend",
    "ds-cfg-pdb-backend",
    "ds-cfg-local-db-backend",
    "ds-cfg-jdbc-backend",
    "ds-cfg-cas-backend",
    "ds-cfg-pluggable-backend",
];
/// What this server finds quickly without an index that is asked for.
const OWN_INDEXES: [&str; 6] =
    ["aci", "ds-sync-conflict", "ds-sync-hist", "entryUUID", "objectClass", "entryDN"];
