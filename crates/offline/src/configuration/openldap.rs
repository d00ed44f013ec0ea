//! `slapcat -n 0`: the configuration of OpenLDAP.

use super::entries::ConfigEntry;
use super::found::{Found, or_all};
use super::openldap_overlays::OVERLAYS;
use super::row::{Fate, Row};

/// Whether an entry is of OpenLDAP.
pub(super) fn owns(entry: &ConfigEntry) -> bool {
    entry.is("olcGlobal") || entry.is("olcDatabaseConfig") || entry.is("olcOverlayConfig")
}

/// Reads all of it.
pub(super) fn read(found: &mut Found<'_>) {
    for entry in found.entries.iter() {
        if let Some(overlay) = entry.value("olcOverlay") {
            let name = unnumbered(overlay);
            if entry.is_on("olcDisabled") {
                found.left_out(entry, name, "it is disabled there");
            } else if !Row::apply(OVERLAYS, name, entry, found) {
                found.left_out(entry, name, "there is no such thing here");
            }
        }
        if entry.is("olcSchemaConfig") {
            schema(entry, found);
        }
        for row in ATTRIBUTES {
            if entry.value(row.name).is_some() {
                Row::apply(ATTRIBUTES, row.name, entry, found);
            }
        }
    }
}

/// `{0}name` without its number.
pub(super) fn unnumbered(value: &str) -> &str {
    let rest = value.strip_prefix('{').and_then(|rest| rest.split_once('}'));
    match rest {
        Some((number, rest)) if number.bytes().all(|it| it.is_ascii_digit() || it == b'-') => rest,
        _ => value,
    }
}

/// The naming contexts of the database that an overlay belongs to; none means all, as of the
/// frontend.
pub(super) fn bases<'e>(entry: &'e ConfigEntry, found: &Found<'e>) -> Vec<Option<&'e str>> {
    let database = found.entries.above(entry).unwrap_or(entry);
    or_all(database.values("olcSuffix").collect())
}

/// Attributes of the server and of databases.
pub(super) static ATTRIBUTES: &[Row] = &[
    Row { name: "olcDbIndex", fate: Fate::Becomes(indexes), says: "indexes" },
    Row {
        name: "olcAccess",
        fate: Fate::Becomes(access),
        says: "not translated: the rules have another language; they are counted",
    },
    Row {
        name: "olcLimits",
        fate: Fate::LeftOut,
        says: "give the entry of the user ds-rlim-size-limit, ds-rlim-time-limit and \
               ds-rlim-lookthrough-limit",
    },
    Row {
        name: "olcSizeLimit",
        fate: Fate::Becomes(size_limit),
        says: "that of the whole server: `limits.size_limit_entries` in roster.toml",
    },
    Row {
        name: "olcTimeLimit",
        fate: Fate::Becomes(time_limit),
        says: "that of the whole server: `limits.time_limit_s` in roster.toml",
    },
    Row {
        name: "olcReadOnly",
        fate: Fate::Becomes(read_only),
        says: "not translated: deny `write` by an ACI",
    },
    Row {
        name: "olcRestrict",
        fate: Fate::LeftOut,
        says: "deny what it forbids by an ACI (docs/how-to/access.md)",
    },
    Row {
        name: "olcSyncrepl",
        fate: Fate::LeftOut,
        says: "servers of a cluster replicate by themselves (docs/how-to/cluster.md)",
    },
    Row {
        name: "olcLastBind",
        fate: Fate::Becomes(last_bind),
        says: "`password_policy.last_login` in roster.toml",
    },
    Row {
        name: "olcPasswordHash",
        fate: Fate::LeftOut,
        says: "new passwords are stored by `password.scheme` of roster.toml",
    },
    Row {
        name: "olcAuthzRegexp",
        fate: Fate::LeftOut,
        says: "names of SASL become entries by `authentication` of roster.toml",
    },
    Row {
        name: "olcSecurity",
        fate: Fate::LeftOut,
        says: "see `authentication.confidentiality` of roster.toml",
    },
    Row {
        name: "olcRequires",
        fate: Fate::LeftOut,
        says: "who may read without signing in is a matter of ACIs (docs/how-to/access.md)",
    },
    Row {
        name: "olcDisallows",
        fate: Fate::LeftOut,
        says: "who may read without signing in is a matter of ACIs (docs/how-to/access.md)",
    },
];

fn indexes(entry: &ConfigEntry, found: &mut Found<'_>) {
    let mut usual: Vec<String> = Vec::new();
    for value in entry.values("olcDbIndex") {
        let mut words = unnumbered(value).split_whitespace();
        let Some(attributes) = words.next() else { continue };
        let own = words.flat_map(|word| word.split(',')).map(str::to_owned);
        let kinds: Vec<String> = own.filter(|kind| !kind.starts_with("no")).collect();
        if attributes.eq_ignore_ascii_case("default") {
            usual = kinds;
            continue;
        }
        let kinds = if kinds.is_empty() { usual.clone() } else { kinds };
        for attribute in attributes.split(',') {
            if OWN_INDEXES.iter().any(|own| own.eq_ignore_ascii_case(attribute)) {
                continue;
            }
            for kind in &kinds {
                found.index(entry, attribute, kind);
            }
        }
    }
}

fn access(entry: &ConfigEntry, found: &mut Found<'_>) {
    let is_bookkeeping = entry
        .value("olcDatabase")
        .is_some_and(|name| matches!(unnumbered(name), "config" | "frontend" | "monitor"));
    if is_bookkeeping {
        return;
    }
    let count = entry.values("olcAccess").count();
    let rules = if count == 1 { "access rule" } else { "access rules" };
    let why =
        format!("{count} {rules} in the language of OpenLDAP: write ACIs (docs/how-to/access.md)");
    found.left_out(entry, "olcAccess", why);
}

fn size_limit(entry: &ConfigEntry, found: &mut Found<'_>) {
    limit(entry, "olcSizeLimit", "size_limit_entries", found);
}

fn time_limit(entry: &ConfigEntry, found: &mut Found<'_>) {
    limit(entry, "olcTimeLimit", "time_limit_s", found);
}

fn limit(entry: &ConfigEntry, name: &str, key: &'static str, found: &mut Found<'_>) {
    let is_of_all = entry.is("olcGlobal") || entry.is("olcFrontendConfig") || is_frontend(entry);
    match entry.value(name).map(str::parse::<u32>) {
        Some(_) if !is_of_all => {
            let why = format!("of one database: limits.{key} of roster.toml is that of all");
            found.left_out(entry, name, why);
        }
        Some(Ok(number)) => {
            found.file(entry, "limits", key, number.to_string());
        }
        Some(Err(_)) => {
            let why = format!("'unlimited' and parts of a limit: see limits.{key}");
            found.left_out(entry, name, why);
        }
        None => {}
    }
}

fn is_frontend(entry: &ConfigEntry) -> bool {
    entry.value("olcDatabase").is_some_and(|name| unnumbered(name).eq_ignore_ascii_case("frontend"))
}

fn read_only(entry: &ConfigEntry, found: &mut Found<'_>) {
    if entry.is_on("olcReadOnly") {
        found.left_out(entry, "olcReadOnly", "deny 'write' by an ACI (docs/how-to/access.md)");
    }
}

fn last_bind(entry: &ConfigEntry, found: &mut Found<'_>) {
    if entry.is_on("olcLastBind") {
        found.file(entry, "password_policy", "last_login", "\"on\"".to_owned());
    }
}

/// A schema that is none of those that come with OpenLDAP.
fn schema(entry: &ConfigEntry, found: &mut Found<'_>) {
    let name = entry.value("cn").map_or_else(String::new, |name| unnumbered(name).to_lowercase());
    if !name.is_empty() && name != "schema" && !SCHEMAS.contains(&name.as_str()) {
        let why = "put its definitions into a file in the directory 'schema' of the data directory";
        found.left_out(entry, &format!("schema {name}"), why);
    }
}

/// What this server finds quickly without an index that is asked for.
const OWN_INDEXES: [&str; 4] = ["objectClass", "entryCSN", "entryUUID", "entryDN"];
/// Schemas that this server knows, too, or that say nothing of entries.
const SCHEMAS: [&str; 8] =
    ["core", "cosine", "inetorgperson", "nis", "dyngroup", "ppolicy", "rfc2307bis", "misc"];
