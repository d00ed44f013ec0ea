//! `dse.ldif`: the configuration of 389 Directory Server, and of Sun's servers.

use super::ds389_plugins::PLUGINS;
use super::entries::ConfigEntry;
use super::found::Found;
use super::policy;
use super::row::{Fate, Row};

/// Whether an entry is of such a server.
pub(super) fn owns(entry: &ConfigEntry) -> bool {
    entry.is("nsslapdConfig") || entry.is("nsSlapdPlugin")
}

/// Reads all of it.
pub(super) fn read(found: &mut Found<'_>) {
    for entry in found.entries.iter() {
        if entry.is("nsSlapdPlugin") && entry.is_on("nsslapd-pluginEnabled") {
            plugin(entry, found);
        }
        for row in CLASSES {
            if entry.is(row.name) {
                Row::apply(CLASSES, row.name, entry, found);
            }
        }
        for row in ATTRIBUTES {
            if entry.value(row.name).is_some() {
                Row::apply(ATTRIBUTES, row.name, entry, found);
            }
        }
        if entry.is("nsslapdConfig") {
            policy::of_389(entry, found);
        }
    }
}

/// A plugin is known by its library, and where that has several by what it begins with.
fn plugin(entry: &ConfigEntry, found: &mut Found<'_>) {
    let kind = entry.value("nsslapd-pluginType").unwrap_or_default();
    if TYPES.iter().any(|known| known.eq_ignore_ascii_case(kind)) {
        return;
    }
    let path = entry.value("nsslapd-pluginPath").unwrap_or_default();
    let library = path.rsplit('/').next().unwrap_or_default();
    let library = library.strip_suffix(".so").unwrap_or(library);
    let begin = entry.value("nsslapd-pluginInitfunc").unwrap_or_default();
    if let Some(area) = entry.value("nsslapd-pluginConfigArea") {
        let why = format!("what it does is defined below '{area}', and is not read from there");
        return found.left_out(entry, &entry.leaf(), why);
    }
    if !Row::apply(PLUGINS, begin, entry, found) && !Row::apply(PLUGINS, library, entry, found) {
        let why = "the plugin is not known; what it does is not done here";
        found.left_out(entry, &entry.leaf(), why);
    }
}

/// The naming contexts.
pub(super) fn suffixes<'e>(found: &Found<'e>) -> Vec<&'e str> {
    let backends = found.entries.iter().filter(|entry| entry.is("nsBackendInstance"));
    let suffixes = backends.flat_map(|entry| entry.values("nsslapd-suffix"));
    suffixes.filter(|suffix| !suffix.eq_ignore_ascii_case("cn=changelog")).collect()
}

/// Entries by their classes.
pub(super) static CLASSES: &[Row] = &[
    Row { name: "nsIndex", fate: Fate::Becomes(index), says: "indexes" },
    Row { name: "vlvSearch", fate: Fate::BuiltIn, says: "sorting and lists by position are there" },
    Row { name: "nsDS5Replica", fate: Fate::LeftOut, says: REPLICATION },
    Row { name: "nsDS5ReplicationAgreement", fate: Fate::LeftOut, says: REPLICATION },
    Row {
        name: "nsDSWindowsReplicationAgreement",
        fate: Fate::LeftOut,
        says: "nothing is synchronized with Active Directory",
    },
    Row {
        name: "nsSaslMapping",
        fate: Fate::Becomes(sasl_mapping),
        says: "not translated, but for those that are there by default",
    },
    Row {
        name: "nsAttributeEncryption",
        fate: Fate::LeftOut,
        says: "values are not encrypted one by one; encrypt the disk",
    },
];

/// Attributes of the server.
pub(super) static ATTRIBUTES: &[Row] = &[
    Row {
        name: "nsslapd-sizelimit",
        fate: Fate::Becomes(size_limit),
        says: "`limits.size_limit_entries` in roster.toml",
    },
    Row {
        name: "nsslapd-timelimit",
        fate: Fate::Becomes(time_limit),
        says: "`limits.time_limit_s` in roster.toml",
    },
    Row {
        name: "nsslapd-lookthroughlimit",
        fate: Fate::Becomes(look_through_limit),
        says: "`limits.look_through_limit_entries` in roster.toml",
    },
    Row {
        name: "nsslapd-allow-anonymous-access",
        fate: Fate::Becomes(anonymous),
        says: "not translated: ACIs say who may read without signing in",
    },
    Row {
        name: "nsslapd-require-secure-binds",
        fate: Fate::Becomes(secure_binds),
        says: "not translated: `authentication.confidentiality` of roster.toml",
    },
    Row {
        name: "nsslapd-pwpolicy-local",
        fate: Fate::Becomes(local_policies),
        says: "not translated where it is off: password policies of users and subtrees hold here",
    },
    Row {
        name: "nsslapd-readonly",
        fate: Fate::Becomes(read_only),
        says: "not translated: deny `write` by an ACI",
    },
];

const REPLICATION: &str = "servers of a cluster replicate by themselves (docs/how-to/cluster.md)";

fn index(entry: &ConfigEntry, found: &mut Found<'_>) {
    let attribute = entry.value("cn").map_or_else(|| entry.leaf(), str::to_owned);
    let is_template = entry.dn.to_lowercase().contains("cn=default indexes,");
    let is_own = OWN_INDEXES.iter().any(|own| own.eq_ignore_ascii_case(&attribute));
    if is_template || is_own || entry.is_on("nsSystemIndex") {
        return;
    }
    for kind in entry.values("nsIndexType").flat_map(|value| value.split(',')) {
        if !kind.eq_ignore_ascii_case("none") {
            found.index(entry, &attribute, kind);
        }
    }
    if entry.value("nsMatchingRule").is_some() {
        let why = "an index serves the rules of its attribute; for others, add 'extensible'";
        found.left_out(entry, &format!("nsMatchingRule of {attribute}"), why);
    }
}

fn sasl_mapping(entry: &ConfigEntry, found: &mut Found<'_>) {
    let name = entry.leaf();
    if !SASL_MAPPINGS.iter().any(|usual| usual.eq_ignore_ascii_case(&name)) {
        let why = "names of SASL become entries by 'authentication' of roster.toml";
        found.left_out(entry, &format!("mapping {name}"), why);
    }
}

fn size_limit(entry: &ConfigEntry, found: &mut Found<'_>) {
    limit(entry, "nsslapd-sizelimit", "2000", "size_limit_entries", found);
}

fn time_limit(entry: &ConfigEntry, found: &mut Found<'_>) {
    limit(entry, "nsslapd-timelimit", "3600", "time_limit_s", found);
}

fn look_through_limit(entry: &ConfigEntry, found: &mut Found<'_>) {
    limit(entry, "nsslapd-lookthroughlimit", "5000", "look_through_limit_entries", found);
}

/// A limit that somebody has set: the usual one means nothing.
fn limit(entry: &ConfigEntry, name: &str, usual: &str, key: &'static str, found: &mut Found<'_>) {
    let value = entry.value(name).unwrap_or(usual);
    if value == usual {
        return;
    }
    match value.parse::<u32>() {
        Ok(number) => {
            found.file(entry, "limits", key, number.to_string());
        }
        Err(_) => found.left_out(entry, name, format!("see limits.{key} of roster.toml")),
    }
}

fn anonymous(entry: &ConfigEntry, found: &mut Found<'_>) {
    let value = entry.value("nsslapd-allow-anonymous-access").unwrap_or_default();
    if !value.eq_ignore_ascii_case("on") {
        let why = "ACIs say who may read without signing in (docs/how-to/access.md)";
        found.left_out(entry, &format!("nsslapd-allow-anonymous-access: {value}"), why);
    }
}

fn secure_binds(entry: &ConfigEntry, found: &mut Found<'_>) {
    if entry.is_on("nsslapd-require-secure-binds") {
        let why = "see authentication.confidentiality of roster.toml";
        found.left_out(entry, "nsslapd-require-secure-binds", why);
    }
}

fn local_policies(entry: &ConfigEntry, found: &mut Found<'_>) {
    if entry.is_off("nsslapd-pwpolicy-local") {
        let why = "password policies of users and subtrees hold here: delete those that must not";
        found.left_out(entry, "nsslapd-pwpolicy-local: off", why);
    }
}

fn read_only(entry: &ConfigEntry, found: &mut Found<'_>) {
    if entry.is_on("nsslapd-readonly") {
        found.left_out(entry, "nsslapd-readonly", "deny 'write' by an ACI (docs/how-to/access.md)");
    }
}

/// Types of plugins that every server has in its own way.
const TYPES: [&str; 7] = [
    "syntax",
    "matchingRule",
    "pwdstoragescheme",
    "reverpwdstoragescheme",
    "extendedop",
    "database",
    "index",
];
/// What such servers find their own entries by.
const OWN_INDEXES: [&str; 17] = [
    "aci",
    "ancestorid",
    "changeNumber",
    "entryDN",
    "entryUSN",
    "entryUUID",
    "entryrdn",
    "nsCertSubjectDN",
    "nsTombstoneCSN",
    "ntUniqueId",
    "ntUserDomainId",
    "nsds5ReplConflict",
    "nsuniqueid",
    "numsubordinates",
    "objectClass",
    "parentid",
    "targetuniqueid",
];
const SASL_MAPPINGS: [&str; 4] =
    ["Kerberos uid mapping", "rfc 2829 dn syntax", "rfc 2829 u syntax", "uid mapping"];
