//! Values of the configuration in a few words: what each is called, and what became of it.

use super::{AREAS, INDEX, REBUILD, SETTING};

/// What a value is about, to tell a new value from one in place of another.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Subject {
    /// The kind of thing.
    pub(crate) what: &'static str,
    /// Which of them.
    pub(crate) name: String,
}

/// The subject of a value of an attribute.
pub(crate) fn subject(attribute: &str, value: &str) -> Subject {
    let is = |name: &str| attribute.eq_ignore_ascii_case(name);
    let subject = |what, name: &str| Subject { what, name: name.trim().to_owned() };
    if is(SETTING) {
        return subject("setting", value.split('=').next().unwrap_or_default());
    }
    if is(INDEX) || is(REBUILD) {
        return subject("index", value);
    }
    if let Some(area) = AREAS.iter().find(|area| is(area.attribute)) {
        let name = match area.is_named {
            true => value.split(':').next().unwrap_or_default(),
            false => acl(value).unwrap_or(value),
        };
        return subject(area.what, name);
    }
    let what = SCHEMA.iter().find(|(name, _)| is(name)).map_or("value", |(_, what)| what);
    subject(what, definition(value).unwrap_or(value))
}

/// The name of an ACI.
fn acl(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("acl \"")?;
    rest.split_once('"').map(|(name, _)| name)
}

/// The first name of a definition of the schema, or else its OID.
fn definition(value: &str) -> Option<&str> {
    let (oid, rest) = value.trim_start().strip_prefix('(')?.trim_start().split_once(' ')?;
    let name = rest.split_once("NAME ").and_then(|(_, rest)| {
        let (_, rest) = rest.split_once('\'')?;
        rest.split_once('\'').map(|(name, _)| name)
    });
    Some(name.unwrap_or(oid))
}

/// What went and what came, each of an attribute, in as few words as a line of a list takes.
pub(crate) fn summary(gone: &[(&str, &str)], come: &[(&str, &str)]) -> Vec<String> {
    let mut subjects: Vec<(Subject, Vec<&str>, Vec<&str>)> = Vec::new();
    for (is_come, values) in [(false, gone), (true, come)] {
        for (attribute, value) in values {
            let own = subject(attribute, value);
            let at = subjects.iter().position(|(one, ..)| *one == own);
            let at = at.unwrap_or_else(|| {
                subjects.push((own, Vec::new(), Vec::new()));
                subjects.len() - 1
            });
            let Some((_, went, came)) = subjects.get_mut(at) else { continue };
            if is_come { came.push(value) } else { went.push(value) }
        }
    }
    let is_rebuild = |value: &str| come.contains(&(REBUILD, value));
    subjects
        .iter()
        .map(|(Subject { what, name }, went, came)| {
            match (*what, went.is_empty(), came.is_empty()) {
                ("setting", true, _) => format!("{name} = {}", joined(came)),
                ("setting", false, true) => format!("{name} reset, was {}", joined(went)),
                ("setting", false, false) => format!("{name} {} -> {}", joined(went), joined(came)),
                ("index", true, _) if is_rebuild(name) => format!("index {name} rebuilt"),
                (_, true, _) => format!("{what} {name} added"),
                (_, false, true) => format!("{what} {name} dropped"),
                (_, false, false) => format!("{what} {name} changed"),
            }
        })
        .collect()
}

/// The values of lines of a setting.
fn joined(lines: &[&str]) -> String {
    let values = lines.iter().map(|line| line.split_once('=').map_or(*line, |(_, value)| value));
    values.collect::<Vec<_>>().join(", ")
}

/// Attributes of the schema, and what a value of each is called.
const SCHEMA: [(&str, &str); 8] = [
    ("attributeTypes", "attribute type"),
    ("objectClasses", "object class"),
    ("nameForms", "name form"),
    ("dITStructureRules", "structure rule"),
    ("dITContentRules", "content rule"),
    ("matchingRuleUse", "matching rule use"),
    ("matchingRules", "matching rule"),
    ("ldapSyntaxes", "syntax"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_in_a_few_words() {
        let come = [
            (SETTING, "limits.size_limit_entries=7"),
            (SETTING, "limits.time_limit_s=9"),
            ("roster-constraint", "mail: unique mail"),
            ("roster-constraint", "new: unique uid"),
            (REBUILD, "equality cn"),
            ("attributeTypes", "( 1.2.3 NAME ( 'shoeSize' 'size' ) SYNTAX 1.2 )"),
            ("ds-cfg-global-aci", "(targetattr=\"*\")(version 3.0; acl \"all\"; allow (read) …;)"),
        ];
        let gone = [
            (SETTING, "limits.size_limit_entries=5"),
            (SETTING, "log.level=debug"),
            ("roster-constraint", "mail: unique mail,uid"),
            ("roster-sink", "log: file x"),
        ];
        let want = [
            "limits.size_limit_entries 5 -> 7",
            "log.level reset, was debug",
            "constraint mail changed",
            "sink log dropped",
            "limits.time_limit_s = 9",
            "constraint new added",
            "index equality cn rebuilt",
            "attribute type shoeSize added",
            "global ACI all added",
        ];
        assert_eq!(summary(&gone, &come), want);
    }
}
