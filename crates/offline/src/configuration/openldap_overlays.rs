//! Overlays of OpenLDAP.

use ldap::message::Scope;
use ldap::url::LdapUrl;

use super::entries::ConfigEntry;
use super::found::{Found, Place};
use super::names::is_number;
use super::openldap::{bases, unnumbered};
use super::pattern;
use super::row::{Fate, Row};

/// Every overlay that is known.
pub(super) static OVERLAYS: &[Row] = &[
    Row {
        name: "memberof",
        fate: Fate::Becomes(member_of),
        says: "`roster-member-of: direct`: `memberOf` is computed, and has direct groups as there",
    },
    Row {
        name: "nestgroup",
        fate: Fate::BuiltIn,
        says: "members of groups in groups are members of these, too",
    },
    Row {
        name: "refint",
        fate: Fate::Becomes(references),
        says: "`roster-reference` for each attribute, with an equality index",
    },
    Row { name: "unique", fate: Fate::Becomes(unique), says: "a constraint `unique` for each URI" },
    Row {
        name: "constraint",
        fate: Fate::Becomes(constraints),
        says: "constraints `pattern`, `count` and `length`",
    },
    Row { name: "dynlist", fate: Fate::Becomes(dynamic_lists), says: DYNAMIC },
    Row { name: "dyngroup", fate: Fate::BuiltIn, says: DYNAMIC },
    Row {
        name: "autogroup",
        fate: Fate::LeftOut,
        says: "dynamic groups have their members at each moment; for static ones, add an \
               assignment 'member'",
    },
    Row {
        name: "ppolicy",
        fate: Fate::Becomes(policies),
        says: "`password_policy.default_dn` in roster.toml: the first one that is named",
    },
    Row {
        name: "lastbind",
        fate: Fate::Becomes(last_bind),
        says: "`password_policy.last_login` in roster.toml",
    },
    Row { name: "sssvlv", fate: Fate::BuiltIn, says: "sorting and lists by position are there" },
    Row { name: "deref", fate: Fate::BuiltIn, says: "the control is there" },
    Row { name: "noopsrch", fate: Fate::LeftOut, says: "the control is not there" },
    Row { name: "syncprov", fate: Fate::LeftOut, says: REPLICATION },
    Row { name: "accesslog", fate: Fate::LeftOut, says: LOGS },
    Row { name: "auditlog", fate: Fate::LeftOut, says: LOGS },
    Row { name: "valsort", fate: Fate::LeftOut, says: "values have no order; clients sort them" },
    Row { name: "dds", fate: Fate::LeftOut, says: "entries do not expire by themselves" },
    Row { name: "rwm", fate: Fate::LeftOut, says: NO_PROXY },
    Row { name: "translucent", fate: Fate::LeftOut, says: NO_PROXY },
    Row { name: "pcache", fate: Fate::LeftOut, says: NO_PROXY },
    Row { name: "chain", fate: Fate::LeftOut, says: REPLICATION },
    Row {
        name: "remoteauth",
        fate: Fate::LeftOut,
        says: "passwords are checked here, and nowhere else",
    },
];

const DYNAMIC: &str = "groups with `memberURL` are dynamic; `isMemberOf` finds their members, \
                       which are not listed in the entry of the group";
const REPLICATION: &str = "servers of a cluster replicate by themselves (docs/how-to/cluster.md)";
const LOGS: &str = "changes and requests are in the audit log and the access log \
                    (docs/how-to/logs.md)";
const NO_PROXY: &str = "this server is no proxy, and rewrites nothing";

fn member_of(entry: &ConfigEntry, found: &mut Found<'_>) {
    let differs = |name: &str, usual: &[&str]| {
        let value = entry.value(name)?;
        (!usual.iter().any(|usual| usual.eq_ignore_ascii_case(value))).then(|| value.to_owned())
    };
    if let Some(name) = differs("olcMemberOfMemberOfAD", &["memberOf"]) {
        let why =
            format!("the groups of an entry are in 'memberOf' and 'isMemberOf', not '{name}'");
        return found.left_out(entry, "memberof", why);
    }
    if let Some(name) = differs("olcMemberOfMemberAD", &["member", "uniqueMember"]) {
        let why = format!("members are in 'member' and 'uniqueMember', not in '{name}'");
        return found.left_out(entry, "memberof", why);
    }
    found.direct_groups(entry);
    match entry.value("olcMemberOfDangling").map(str::to_lowercase).as_deref() {
        Some("error") => {
            // It is one of two: others have ended above.
            let member = entry.value("olcMemberOfMemberAD").unwrap_or("member");
            for below in bases(entry, found) {
                let at = Place { below, filter: None };
                found.constraint(entry, "members-exist", &format!("exists {member}"), at);
            }
        }
        Some("drop") => {
            let why = "members that do not exist are kept; a constraint 'exists' refuses them";
            found.left_out(entry, "memberof olcMemberOfDangling: drop", why);
        }
        Some(_) | None => {}
    }
}

fn references(entry: &ConfigEntry, found: &mut Found<'_>) {
    for value in entry.values("olcRefintAttribute") {
        for attribute in unnumbered(value).split_whitespace() {
            found.reference(entry, attribute);
        }
    }
    if entry.value("olcRefintNothing").is_some() {
        let why = "a group may be empty here: nothing takes the place of the last member";
        found.left_out(entry, "refint olcRefintNothing", why);
    }
}

fn unique(entry: &ConfigEntry, found: &mut Found<'_>) {
    let own = bases(entry, found);
    for value in entry.values("olcUniqueURI") {
        let mut words = unnumbered(value).split_whitespace().peekable();
        let mut is_negative = false;
        while let Some(word) = words.next_if(|word| !word.contains(':')) {
            is_negative |= word.eq_ignore_ascii_case("ignore");
        }
        let urls: Vec<&str> = words.collect();
        if is_negative {
            let why = "it names those attributes that are not unique; name those that are";
            found.left_out(entry, value, why);
            continue;
        }
        if urls.len() > 1 {
            let why = "each URI is a constraint of its own: between them values may be the same";
            found.left_out(entry, value, why);
        }
        for url in urls {
            unique_url(entry, found, url, &own);
        }
    }
    // The form of old releases.
    let attributes: Vec<&str> =
        entry.values("olcUniqueAttribute").flat_map(str::split_whitespace).collect();
    if !attributes.is_empty() {
        let bases = entry.value("olcUniqueBase").map_or(own, |base| vec![Some(base)]);
        for below in bases {
            let at = Place { below, filter: None };
            found.unique(entry, attributes.first().unwrap_or(&""), "", &attributes, at);
        }
    }
}

fn unique_url(entry: &ConfigEntry, found: &mut Found<'_>, text: &str, own: &[Option<&str>]) {
    let url = match LdapUrl::parse(text) {
        Ok(url) => url,
        Err(error) => return found.left_out(entry, text, format!("it is no URL: {error}")),
    };
    if url.attributes.is_empty() {
        let why = "it is about every attribute; name those that are unique";
        return found.left_out(entry, text, why);
    }
    if matches!(url.scope, Some(Scope::Base | Scope::One)) {
        let why = "a constraint holds for an entry and all below it";
        return found.left_out(entry, text, why);
    }
    let attributes: Vec<&str> = url.attributes.iter().map(String::as_str).collect();
    let base = url.dn.to_string();
    let bases = if base.is_empty() { own.to_vec() } else { vec![Some(base.as_str())] };
    for below in bases {
        let at = Place { below, filter: url.filter.as_deref() };
        let hint = format!("unique-{}", attributes.join("-"));
        found.unique(entry, &hint, "", &attributes, at);
    }
}

fn constraints(entry: &ConfigEntry, found: &mut Found<'_>) {
    let own = bases(entry, found);
    for value in entry.values("olcConstraintAttribute") {
        let words = words(unnumbered(value));
        let mut words = words.iter().map(String::as_str);
        let (attributes, kind, argument) = (words.next(), words.next(), words.next());
        let (Some(attributes), Some(kind), Some(argument)) = (attributes, kind, argument) else {
            found.left_out(entry, value, "an attribute, a kind and a value are expected");
            continue;
        };
        let hint = format!("{kind}-{}", attributes.replace(',', "-"));
        let names: Vec<&str> = attributes.split(',').collect();
        if !found.are_attributes(entry, &names) {
            continue;
        }
        let rule = match kind.to_ascii_lowercase().as_str() {
            "count" | "size" if !is_number(argument) => Err("a number is expected"),
            "count" => Ok(format!("count {attributes} ..{argument}")),
            "size" => Ok(format!("length {attributes} ..{argument}")),
            "regex" => match pattern::whole(argument) {
                Some(pattern) => Ok(format!("pattern {attributes} /{pattern}/")),
                None => Err("the expression would mean something else here; write a 'pattern'"),
            },
            "negregex" => Err("a pattern says what matches; write one that does"),
            "uri" => Err("values are not looked up in other entries; 'exists' asks for names"),
            _ => Err("there is no such kind here"),
        };
        let restriction = words.find_map(|word| {
            word.get(..9).filter(|head| head.eq_ignore_ascii_case("restrict=")).and(word.get(9..))
        });
        match rule {
            Ok(rule) => {
                let about = About { hint: &hint, rule: &rule, restriction };
                restricted(entry, found, about, &own);
            }
            Err(why) => found.left_out(entry, value, why),
        }
    }
}

/// A constraint: what its name is made of, what it asks for, and the URL that restricts it.
#[derive(Clone, Copy)]
struct About<'a> {
    hint: &'a str,
    rule: &'a str,
    restriction: Option<&'a str>,
}

/// A constraint on those entries that a URL restricts it to.
fn restricted(entry: &ConfigEntry, found: &mut Found<'_>, about: About<'_>, own: &[Option<&str>]) {
    let About { hint, rule, restriction } = about;
    let url = match restriction.map(LdapUrl::parse).transpose() {
        Ok(url) => url,
        Err(error) => return found.left_out(entry, rule, format!("it is no URL: {error}")),
    };
    let base = url.as_ref().map(|url| url.dn.to_string()).filter(|base| !base.is_empty());
    let filter = url.as_ref().and_then(|url| url.filter.as_deref());
    let is_part = url.as_ref().is_some_and(|url| {
        matches!(url.scope, None | Some(Scope::Base | Scope::One)) && base.is_some()
    });
    if is_part {
        let why = "a constraint holds for an entry and all below it";
        return found.left_out(entry, rule, why);
    }
    let bases = base.as_deref().map_or_else(|| own.to_vec(), |base| vec![Some(base)]);
    for below in bases {
        found.constraint(entry, hint, rule, Place { below, filter });
    }
}

/// Words with blanks between; in quotes, blanks and quotes behind backslashes belong to them.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => is_quoted = !is_quoted,
            '\\' if is_quoted => {
                let next = letters.next_if(|next| matches!(next, '"' | '\\'));
                word.push(next.unwrap_or('\\'));
            }
            _ if letter.is_whitespace() && !is_quoted => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            _ => word.push(letter),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

fn dynamic_lists(entry: &ConfigEntry, found: &mut Found<'_>) {
    let sets = entry.values("olcDynListAttrSet");
    let sets = sets.chain(entry.values("olcDlAttrSet")).chain(entry.values("olcDLattrSet"));
    let mut any = false;
    for value in sets {
        let mut words = unnumbered(value).split_whitespace();
        let (class, url, member) = (words.next(), words.next(), words.next());
        let is_group = class.is_some_and(|class| class.eq_ignore_ascii_case("groupOfURLs"))
            && url.is_some_and(|url| url.eq_ignore_ascii_case("memberURL"));
        if is_group && member.is_some() {
            any = true;
        } else {
            let why = "only groups of the class groupOfURLs are dynamic, by memberURL; no other \
                       entry shows attributes of those that it finds";
            found.left_out(entry, value, why);
        }
    }
    if any {
        found.built_in(entry, "dynlist", DYNAMIC);
    }
}

fn policies(entry: &ConfigEntry, found: &mut Found<'_>) {
    if let Some(name) = entry.value("olcPPolicyDefault") {
        found.default_policy(entry, name);
    }
    if entry.is_on("olcPPolicyHashCleartext") {
        found.built_in(entry, "ppolicy olcPPolicyHashCleartext", "passwords are always hashed");
    }
    if entry.value("olcPPolicyCheckModule").is_some() {
        let why = "the quality of passwords is part of the policy (docs/how-to/password-policy.md)";
        found.left_out(entry, "ppolicy olcPPolicyCheckModule", why);
    }
}

fn last_bind(entry: &ConfigEntry, found: &mut Found<'_>) {
    found.file(entry, "password_policy", "last_login", "\"on\"".to_owned());
}
