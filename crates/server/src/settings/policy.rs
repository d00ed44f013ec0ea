//! `[[policy]]`: what connections may ask for, by where they come from. A table for each policy.

use directory::{Policy, PolicyAddress, PolicyOperation};
use toml::Spanned;
use toml::de::DeValue;

use super::SettingsError;
use super::load::unknown;

/// The name of the tables.
pub(super) const NAME: &str = "policy";

/// The end of the sample file.
pub(super) const SAMPLE: &str = r#"
# Which requests a connection may send. The first policy whose conditions all hold applies; without
# one, all requests are allowed. See reference/settings.md.
#[[policy]]
#name = "applications"
#addresses = ["10.0.0.0/8", "2001:db8::/32"]
#tls = true
#identities = ["ou=applications,dc=example,dc=com"]
#operations = ["bind", "search", "compare"]
#suffixes = ["ou=people,dc=example,dc=com"]
"#;

/// The end of the reference page.
pub(super) const REFERENCE: &str = include_str!("policy/reference.md");

/// Reads all tables.
pub(super) fn read(
    value: &Spanned<DeValue<'_>>,
    location: &dyn Fn(usize) -> String,
) -> Result<Vec<Policy>, SettingsError> {
    let DeValue::Array(items) = value.get_ref() else {
        return Err(wrong(location(value.span().start), "write [[policy]] and its keys below"));
    };
    items.iter().map(|item| read_one(item, location)).collect()
}

fn read_one(
    item: &Spanned<DeValue<'_>>,
    location: &dyn Fn(usize) -> String,
) -> Result<Policy, SettingsError> {
    let at = || location(item.span().start);
    let DeValue::Table(table) = item.get_ref() else {
        return Err(wrong(at(), "write [[policy]] and its keys below"));
    };
    let mut policy = Policy::default();
    for (key, value) in table {
        let at = || location(value.span().start);
        let name = key.get_ref().as_ref();
        match name {
            "name" => policy.name = text(value, name, &at)?,
            "tls" => match (value.get_ref(), value.get_ref().as_str()) {
                (DeValue::Boolean(tls), _) => policy.tls = Some(*tls),
                (_, Some("true" | "on")) => policy.tls = Some(true),
                (_, Some("false" | "off")) => policy.tls = Some(false),
                _ => return Err(wrong(at(), "policy.tls must be true or false, or on or off")),
            },
            "addresses" => {
                let parse = |text: String| text.parse::<PolicyAddress>().map_err(|_| text);
                let wanted = "an address like 192.0.2.1, a network like 192.0.2.0/24, or local";
                policy.addresses = list(value, name, &at)?
                    .into_iter()
                    .map(|one| parse(one).map_err(|text| not_accepted(&at, name, wanted, &text)))
                    .collect::<Result<_, _>>()?;
            }
            "identities" => policy.identities = list(value, name, &at)?,
            "suffixes" => policy.suffixes = list(value, name, &at)?,
            "connections_per_identity_max" => {
                policy.connections_per_identity_max = Some(count(value, name, &at)?);
            }
            "operations_per_identity_max" => {
                policy.operations_per_identity_max = Some(count(value, name, &at)?);
            }
            "operations" => {
                let names: Vec<_> = PolicyOperation::all().map(PolicyOperation::name).collect();
                let find = |text: &str| PolicyOperation::all().find(|one| one.name() == text);
                let wanted = format!("of {}", names.join(", "));
                let operations = list(value, name, &at)?
                    .into_iter()
                    .map(|one| find(&one).ok_or_else(|| not_accepted(&at, name, &wanted, &one)));
                policy.operations = Some(operations.collect::<Result<_, _>>()?);
            }
            _ => {
                let known = KEYS.iter().map(|key| format!("policy.{key}"));
                let location = location(key.span().start);
                return Err(unknown(location, &format!("policy.{name}"), known));
            }
        }
    }
    if policy.name.is_empty() {
        return Err(wrong(at(), "a policy needs a name"));
    }
    Ok(policy)
}

fn text(
    value: &Spanned<DeValue<'_>>,
    name: &str,
    at: &dyn Fn() -> String,
) -> Result<String, SettingsError> {
    let text = value.get_ref().as_str().map(str::to_owned);
    text.ok_or_else(|| wrong(at(), &format!("policy.{name} must be text")))
}

/// A number of things, 0 = any.
fn count(
    value: &Spanned<DeValue<'_>>,
    name: &str,
    at: &dyn Fn() -> String,
) -> Result<u32, SettingsError> {
    let number = match value.get_ref() {
        DeValue::Integer(number) => u32::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    };
    let number = number.filter(|number| *number <= COUNT_MAX);
    number.ok_or_else(|| {
        wrong(at(), &format!("policy.{name} must be a number from 0, which means any, to 1000000"))
    })
}

fn list(
    value: &Spanned<DeValue<'_>>,
    name: &str,
    at: &dyn Fn() -> String,
) -> Result<Vec<String>, SettingsError> {
    let not_a_list = || wrong(at(), &format!("policy.{name} must be a list of texts"));
    let DeValue::Array(items) = value.get_ref() else { return Err(not_a_list()) };
    let texts = items.iter().map(|item| item.get_ref().as_str().map(str::to_owned));
    texts.collect::<Option<_>>().ok_or_else(not_a_list)
}

fn not_accepted(at: &dyn Fn() -> String, name: &str, wanted: &str, given: &str) -> SettingsError {
    wrong(at(), &format!("policy.{name} must be {wanted}, not '{given}'"))
}

fn wrong(location: String, reason: &str) -> SettingsError {
    SettingsError::Value { location, reason: reason.to_owned() }
}

const KEYS: [&str; 8] = [
    "name",
    "addresses",
    "tls",
    "identities",
    "operations",
    "suffixes",
    "connections_per_identity_max",
    "operations_per_identity_max",
];

/// As the rows of the same names have it.
const COUNT_MAX: u32 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::super::Loaded;
    use super::super::load::from_toml;
    use super::*;

    fn parse(text: &str) -> Result<Vec<Policy>, String> {
        let mut draft = Loaded::default();
        from_toml(&mut draft, "roster.toml", text).map_err(|error| error.to_string())?;
        Ok(draft.settings.policies)
    }

    #[test]
    fn policies_are_read_in_their_order() {
        let sample = SAMPLE.replace("\n#", "\n");
        let (_, table) = sample.split_once("settings.md.\n").unwrap();
        let text = format!("{table}\n[[policy]]\nname = \"rest\"\noperations = []");
        let policies = parse(&text).unwrap();
        assert_eq!(policies.len(), 2);
        let first = &policies[0];
        assert_eq!((first.name.as_str(), first.tls), ("applications", Some(true)));
        let ranges = first.addresses.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(ranges, ["10.0.0.0/8", "2001:db8::/32"]);
        assert_eq!(first.operations.as_ref().map(Vec::len), Some(3));
        let want =
            Policy { name: "rest".to_owned(), operations: Some(Vec::new()), ..Policy::default() };
        assert_eq!(policies[1], want);
        let text = "[[policy]]\nname = \"a\"\nconnections_per_identity_max = 100\n\
                    operations_per_identity_max = 0";
        let policy = parse(text).unwrap().remove(0);
        assert_eq!(policy.connections_per_identity_max, Some(100));
        assert_eq!(policy.operations_per_identity_max, Some(0));
        let (_, examples) = REFERENCE.split_once("```toml").unwrap();
        assert_eq!(parse(examples.trim_end_matches("```\n")).unwrap().len(), 3);
    }

    #[track_caller]
    fn check(text: &str, want: &str) {
        assert_eq!(parse(text).unwrap_err(), want);
    }

    #[test]
    fn what_a_policy_does_not_take_is_refused_with_its_place() {
        check("policy = 3", "roster.toml:1: write [[policy]] and its keys below");
        check("[[policy]]\ntls = true", "roster.toml:1: a policy needs a name");
        check(
            "[[policy]]\nname = \"a\"\nsufixes = []",
            "roster.toml:3: there is no setting 'policy.sufixes'; did you mean 'policy.suffixes'?",
        );
        check(
            "[[policy]]\nname = \"a\"\naddresses = [\"10.0.0.0/33\"]",
            "roster.toml:3: policy.addresses must be an address like 192.0.2.1, a network like \
             192.0.2.0/24, or local, not '10.0.0.0/33'",
        );
        check(
            "[[policy]]\nname = \"a\"\noperations = [\"read\"]",
            "roster.toml:3: policy.operations must be of bind, search, modify, add, delete, \
             modify_dn, compare, extended, password_modify, not 'read'",
        );
        check("[[policy]]\nname = 1", "roster.toml:2: policy.name must be text");
        for wrong in ["-1", "1000001", "\"x\"", "1.5"] {
            check(
                &format!("[[policy]]\nconnections_per_identity_max = {wrong}"),
                "roster.toml:2: policy.connections_per_identity_max must be a number from 0, \
                 which means any, to 1000000",
            );
        }
        check(
            "[[policy]]\ntls = 1",
            "roster.toml:2: policy.tls must be true or false, or on or off",
        );
    }
}
