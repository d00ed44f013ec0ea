//! Definitions of the Auto Membership Plugin of 389 Directory Server.

use schema::Schema;

use super::ds389_plugins::grouping_attribute;
use super::entries::ConfigEntry;
use super::found::{Found, Place};
use super::names::{enclosed, entry_name};
use super::pattern;

/// Reads the definitions below the entry of the plugin.
pub(super) fn read(plugin: &ConfigEntry, found: &mut Found<'_>) {
    let definitions = found.entries;
    let follows = !plugin.is_off("autoMemberProcessModifyOps");
    for entry in definitions.below(plugin) {
        if !entry.is("autoMemberDefinition") {
            continue;
        }
        if entry.values("autoMemberDisabled").next().is_some() {
            found.left_out(entry, &entry.leaf(), "it is switched off there");
        } else if follows {
            definition(entry, found);
        } else {
            // Whoever may write an attribute of his own would get into the group by it.
            let why = "there only new entries become members (autoMemberProcessModifyOps: off); an \
                       assignment here follows each change: see who may make those, and write it";
            found.left_out(entry, &entry.leaf(), why);
        }
    }
}

/// A group, and the filters by which entries are in it and out of it.
struct Rule {
    group: String,
    includes: Vec<String>,
    excludes: Vec<String>,
}

fn definition(entry: &ConfigEntry, found: &mut Found<'_>) {
    let name = entry.leaf();
    let text = entry.value("autoMemberGroupingAttr").unwrap_or("member:dn");
    let Some(attribute) = grouping_attribute(text) else {
        return found.left_out(
            entry,
            &name,
            format!("'{text}': members are names of entries here"),
        );
    };
    let filter = enclosed(entry.value("autoMemberFilter").unwrap_or("(objectClass=*)"));
    let mut rules = Vec::new();
    let all = found.entries;
    for rule in all.below(entry) {
        match regex_rule(rule, found.schema) {
            Ok(read) => rules.push(read),
            // Who is in the default group follows from all of them.
            Err(why) => {
                found.left_out(rule, &name, why);
                return found.left_out(entry, &name, "one of its rules is not translated");
            }
        }
    }
    let scope = entry.value("autoMemberScope");
    for Rule { group, includes, excludes } in &rules {
        let filter = joined(&filter, includes, excludes);
        let at = Place { below: scope, filter: Some(&filter) };
        found.assignment(entry, &name, &format!("member {attribute} of {group}"), at);
    }
    let others: Vec<String> =
        rules.iter().map(|rule| joined("", &rule.includes, &rule.excludes)).collect();
    let rest = match others.as_slice() {
        [] => filter,
        others => format!("(&{filter}(!(|{})))", others.concat()),
    };
    for group in entry.values("autoMemberDefaultGroup") {
        let group = match entry_name(group) {
            Ok(group) => group,
            Err(why) => {
                found.left_out(entry, &name, why);
                continue;
            }
        };
        let at = Place { below: scope, filter: Some(&rest) };
        found.assignment(entry, &name, &format!("member {attribute} of {group}"), at);
    }
    found.reference(entry, attribute);
}

/// What matches `filter`, one of those, and none of these.
fn joined(filter: &str, includes: &[String], excludes: &[String]) -> String {
    let any = |filters: &[String]| match filters {
        [one] => one.clone(),
        several => format!("(|{})", several.concat()),
    };
    let without = match excludes {
        [] => String::new(),
        excludes => format!("(!{})", any(excludes)),
    };
    match (filter, without.as_str()) {
        ("", "") => any(includes),
        _ => format!("(&{filter}{}{without})", any(includes)),
    }
}

fn regex_rule(entry: &ConfigEntry, schema: Option<&Schema>) -> Result<Rule, String> {
    let group = entry_name(entry.value("autoMemberTargetGroup").ok_or("it names no group")?)?;
    let filters = |name: &str| {
        let made = entry.values(name).map(|text| pattern::filter(text, schema));
        made.collect::<Result<Vec<String>, String>>()
    };
    let includes = filters("autoMemberInclusiveRegex")?;
    let excludes = filters("autoMemberExclusiveRegex")?;
    if includes.is_empty() {
        return Err("it includes nothing".to_owned());
    }
    Ok(Rule { group, includes, excludes })
}
