//! Plugins of 389 Directory Server, by their library or by the function that begins them.

use super::automember;
use super::ds389::suffixes;
use super::entries::ConfigEntry;
use super::found::{Found, Place, is_attribute, or_all};
use super::names::is_number;
use super::row::{Fate, Row};

/// Every plugin that is known.
pub(super) static PLUGINS: &[Row] = &[
    Row {
        name: "libmemberof-plugin",
        fate: Fate::Becomes(member_of),
        says: "nothing: `memberOf` is computed, with groups in groups; `roster-member-of: direct` \
               with `memberOfSkipNested`",
    },
    Row {
        name: "libreferint-plugin",
        fate: Fate::Becomes(references),
        says: "`roster-reference` for each attribute, with an equality index",
    },
    Row {
        name: "NSUniqueAttr_Init",
        fate: Fate::Becomes(unique),
        says: "a constraint `unique` for each subtree",
    },
    Row {
        name: "NS7bitAttr_Init",
        fate: Fate::Becomes(ascii),
        says: "a constraint `ascii` for each subtree",
    },
    Row {
        name: "libdna-plugin",
        fate: Fate::Becomes(numbers),
        says: "an assignment `number` for each range",
    },
    Row {
        name: "libautomember-plugin",
        fate: Fate::Becomes(automember::read),
        says: "an assignment `member` for each group, where changes count there, too; expressions \
               that are a text become filters that mind the case",
    },
    Row {
        name: "liblinkedattrs-plugin",
        fate: Fate::Becomes(links),
        says: "an assignment `link` for each pair",
    },
    Row {
        name: "libmanagedentries-plugin",
        fate: Fate::Becomes(managed),
        says: "not translated: no entry is made with another one",
    },
    Row {
        name: "libroles-plugin",
        fate: Fate::BuiltIn,
        says: "`nsRole` is computed from the definitions of roles, which are entries",
    },
    Row {
        name: "libcos-plugin",
        fate: Fate::BuiltIn,
        says: "definitions and templates work as they are, but for operational attributes; \
               password policies of subtrees are translated",
    },
    Row {
        name: "libacctpolicy-plugin",
        fate: Fate::LeftOut,
        says: "`pwdMaxIdle` of a password policy locks idle accounts",
    },
    Row { name: "libpassthru-plugin", fate: Fate::LeftOut, says: ELSEWHERE },
    Row { name: "libpam-passthru-plugin", fate: Fate::LeftOut, says: ELSEWHERE },
    Row {
        name: "libretrocl-plugin",
        fate: Fate::LeftOut,
        says: "`cn=changelog` is always there; see how-to/changes.md for who reads it",
    },
    Row { name: "libusn-plugin", fate: Fate::LeftOut, says: "`entryCSN` tells of each change" },
    Row {
        name: "libcontentsync-plugin",
        fate: Fate::LeftOut,
        says: "clients cannot keep copies by the Sync request",
    },
    Row {
        name: "libaddn-plugin",
        fate: Fate::LeftOut,
        says: "names of users are found by `authentication` of roster.toml",
    },
    Row { name: "libviews-plugin", fate: Fate::Becomes(views), says: "not translated" },
    Row {
        name: "libposix-winsync-plugin",
        fate: Fate::LeftOut,
        says: "nothing is synchronized with Active Directory",
    },
    Row { name: "libderef-plugin", fate: Fate::Nothing, says: "the control is there" },
    Row { name: "libacl-plugin", fate: Fate::Nothing, says: "ACIs are loaded with the entries" },
    Row { name: "libacctusability-plugin", fate: Fate::Nothing, says: "the control is there" },
    Row { name: "libreplication-plugin", fate: Fate::Nothing, says: "see replicas" },
    Row { name: "libschemareload-plugin", fate: Fate::Nothing, says: "the schema is changed" },
    Row { name: "libstatechange-plugin", fate: Fate::Nothing, says: "of the server itself" },
    Row { name: "libentryuuid-plugin", fate: Fate::Nothing, says: "`entryUUID` is there" },
    Row { name: "librewriters-plugin", fate: Fate::Nothing, says: "of the server itself" },
    Row { name: "libchainingdb-plugin", fate: Fate::Nothing, says: "see databases" },
    Row { name: "libpwdchan-plugin", fate: Fate::Nothing, says: "schemes of passwords" },
    Row { name: "libhttp-client-plugin", fate: Fate::Nothing, says: "of the server itself" },
    Row { name: "libdistrib-plugin", fate: Fate::Nothing, says: "of the server itself" },
    Row { name: "libcollation-plugin", fate: Fate::Nothing, says: "rules of matching" },
    Row { name: "syntax_validate_task_init", fate: Fate::Nothing, says: "a task of its own" },
    Row { name: "libback-ldbm", fate: Fate::Nothing, says: "the database" },
    Row { name: "libalias-entries-plugin", fate: Fate::Nothing, says: "aliases are followed" },
];

const ELSEWHERE: &str = "passwords are checked here, and nowhere else";

fn member_of(entry: &ConfigEntry, found: &mut Found<'_>) {
    let others = entry.values("memberOfGroupAttr").filter(|name| {
        !["member", "uniqueMember"].iter().any(|own| own.eq_ignore_ascii_case(name))
    });
    for name in others {
        let why = format!("members are in 'member' and 'uniqueMember', not in '{name}'");
        found.left_out(entry, "memberOfGroupAttr", why);
    }
    if let Some(name) = entry.value("memberOfAttr")
        && !["memberOf", "isMemberOf"].iter().any(|own| own.eq_ignore_ascii_case(name))
    {
        let why =
            format!("the groups of an entry are in 'memberOf' and 'isMemberOf', not '{name}'");
        return found.left_out(entry, "memberOfAttr", why);
    }
    if entry.is_on("memberOfSkipNested") {
        found.direct_groups(entry);
    } else {
        let what = "memberOf is computed, with groups in groups";
        found.built_in(entry, "MemberOf Plugin", what);
    }
    if entry.value("memberOfEntryScope").is_some()
        || entry.value("memberOfEntryScopeExcludeSubtree").is_some()
    {
        let why = "memberOf is computed for all entries";
        found.left_out(entry, "memberOfEntryScope", why);
    }
}

/// Values of an attribute, or the arguments of old releases.
fn arguments(entry: &ConfigEntry) -> Vec<&str> {
    let number = |name: &str| {
        let digits = name.get(ARGUMENT.len()..)?;
        name.get(..ARGUMENT.len())?.eq_ignore_ascii_case(ARGUMENT).then(|| digits.parse().ok())?
    };
    let mut numbered: Vec<(u32, &str)> =
        entry.attributes().filter_map(|(name, value)| Some((number(name)?, value))).collect();
    numbered.sort_unstable();
    numbered.into_iter().map(|(_, value)| value).collect()
}

fn references(entry: &ConfigEntry, found: &mut Found<'_>) {
    let mut attributes: Vec<&str> = entry.values("referint-membership-attr").collect();
    if attributes.is_empty() {
        // Before them: the delay, the log file, and whether it is written.
        attributes = arguments(entry).into_iter().skip(3).collect();
    }
    for attribute in attributes {
        found.reference(entry, attribute);
    }
    for scope in ["nsslapd-pluginEntryScope", "nsslapd-pluginContainerScope"] {
        if entry.value(scope).is_some() {
            found.left_out(entry, scope, "values follow wherever the entries are");
        }
    }
}

fn unique(entry: &ConfigEntry, found: &mut Found<'_>) {
    let (mut attributes, mut subtrees): (Vec<&str>, Vec<&str>) = (
        entry.values("uniqueness-attribute-name").collect(),
        entry.values("uniqueness-subtrees").collect(),
    );
    if attributes.is_empty() {
        let arguments = arguments(entry);
        let is_keyed = arguments.iter().any(|text| {
            text.split_once('=').is_some_and(|(key, _)| key.eq_ignore_ascii_case("attribute"))
        });
        if is_keyed {
            let why = "its arguments have another form: write a constraint 'unique'";
            return found.left_out(entry, &entry.leaf(), why);
        }
        let mut arguments = arguments.into_iter();
        attributes = arguments.next().into_iter().collect();
        subtrees = arguments.collect();
    }
    let hint = entry.leaf();
    for name in ["uniqueness-top-entry-oc", "uniqueness-exclude-subtrees"] {
        if entry.value(name).is_some() {
            let why = "a constraint holds for an entry and all below it";
            return found.left_out(entry, &format!("{hint}: {name}"), why);
        }
    }
    let class = entry.value("uniqueness-subtree-entries-oc");
    let filter = class.map(|class| format!("(objectClass={class})"));
    if entry.is_on("uniqueness-across-all-subtrees") && subtrees.len() > 1 {
        let why = "each subtree gets a constraint of its own: between them values may be the same";
        found.left_out(entry, &hint, why);
    }
    if subtrees.is_empty() {
        subtrees = suffixes(found);
    }
    for below in or_all(subtrees) {
        let at = Place { below, filter: filter.as_deref() };
        found.unique(entry, &hint, "across", &attributes, at);
    }
}

fn ascii(entry: &ConfigEntry, found: &mut Found<'_>) {
    let arguments = arguments(entry);
    let mut parts = arguments.split(|text| *text == ",");
    let attributes: Vec<&str> = parts.next().unwrap_or_default().to_vec();
    let subtrees = parts.next().unwrap_or_default();
    let is_secret = |name: &&str| SECRETS.iter().any(|secret| secret.eq_ignore_ascii_case(name));
    let (secret, plain): (Vec<&str>, Vec<&str>) = attributes.into_iter().partition(is_secret);
    if !secret.is_empty() {
        let why =
            "passwords have no constraint; 'passwordMin8bit' and others of a policy are there";
        found.left_out(entry, "7-bit check of userPassword", why);
    }
    if !found.are_attributes(entry, &plain) {
        return;
    }
    for subtree in subtrees {
        let at = Place { below: Some(subtree), filter: None };
        found.constraint(entry, "7-bit", &format!("ascii {}", plain.join(",")), at);
    }
}

fn numbers(plugin: &ConfigEntry, found: &mut Found<'_>) {
    for entry in found.entries.below(plugin) {
        if !entry.is("dnaPluginConfig") && entry.value("dnaType").is_none() {
            continue;
        }
        let types: Vec<&str> = entry.values("dnaType").collect();
        if entry.value("dnaPrefix").is_some() {
            found.left_out(entry, &types.join(","), "a number has no text before it");
            continue;
        }
        if entry.value("dnaInterval").is_some_and(|interval| interval != "1") {
            found.left_out(entry, "dnaInterval", "numbers follow each other without gaps");
        }
        if entry.value("dnaExcludeScope").is_some() {
            found.left_out(entry, "dnaExcludeScope", "say by 'where' which entries are meant");
        }
        let next = entry.value("dnaNextValue").unwrap_or("1");
        let last = entry.value("dnaMaxValue").filter(|last| *last != "-1").unwrap_or_default();
        let are_numbers = is_number(next) && (last.is_empty() || is_number(last));
        let magic = entry.value("dnaMagicRegen");
        if !are_numbers || magic.is_some_and(|magic| magic.contains(' ')) {
            found.left_out(entry, &entry.leaf(), "its values are no numbers, or have blanks");
            continue;
        }
        if !found.are_attributes(entry, &types) {
            continue;
        }
        let mut rule = format!("number {} {next}..{last}", types.join(","));
        if let Some(magic) = magic {
            rule.push_str(" for ");
            rule.push_str(magic);
        }
        let at = Place { below: entry.value("dnaScope"), filter: entry.value("dnaFilter") };
        if found.assignment(entry, &entry.leaf(), &rule, at) {
            for kind in types {
                found.index(entry, kind, "equality");
            }
        }
    }
}

fn links(plugin: &ConfigEntry, found: &mut Found<'_>) {
    for entry in found.entries.below(plugin) {
        let (Some(from), Some(to)) = (entry.value("linkType"), entry.value("managedType")) else {
            continue;
        };
        if !found.are_attributes(entry, &[from, to]) {
            continue;
        }
        let all = suffixes(found);
        let scopes = entry.value("linkScope").map_or(all, |scope| vec![scope]);
        for below in or_all(scopes) {
            let at = Place { below, filter: None };
            if found.assignment(entry, &entry.leaf(), &format!("link {from} to {to}"), at) {
                found.reference(entry, from);
                found.reference(entry, to);
            }
        }
    }
}

fn managed(plugin: &ConfigEntry, found: &mut Found<'_>) {
    for entry in found.entries.below(plugin) {
        if entry.value("originScope").is_some() {
            let why = "no entry is made with another one; entries that are there are kept";
            found.left_out(entry, &format!("managed entries {}", entry.leaf()), why);
        }
    }
}

/// Every server has the plugin, and hardly any of them views, which are entries.
fn views(_: &ConfigEntry, _: &mut Found<'_>) {}

/// How arguments of old releases are called, with a number behind.
const ARGUMENT: &str = "nsslapd-pluginarg";
const SECRETS: [&str; 2] = ["userPassword", "authPassword"];

/// The attribute of `member:dn`, where a name of an entry is meant.
pub(super) fn grouping_attribute(text: &str) -> Option<&str> {
    let (attribute, value) = text.split_once(':').unwrap_or((text, "dn"));
    (value.trim().eq_ignore_ascii_case("dn") && is_attribute(attribute)).then_some(attribute)
}
