//! `docs/standards.md`: which section of which RFC is obeyed where, as the references in the
//! product say. Written by `ROSTER_WRITE_REFERENCE=1 cargo test -p xtask standards`.
//!
//! Invariant: every RFC that the product names has a row in [`TITLES`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::Finding;
use super::source::File;

const PAGE: &str = "docs/standards.md";

/// A section of a document, in the order of its numbers.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
struct Section(Vec<(u32, String)>);

/// The page must be what the code says now.
pub(crate) fn check(files: &[File], findings: &mut Vec<Finding>) {
    let mut report = |message: String| {
        findings.push(Finding { rule: "standards", path: PAGE.to_owned(), line: 0, message });
    };
    let found = files.iter().find(|file| file.path == PAGE);
    match page(files) {
        Err(unknown) => report(format!("xtask/src/tidy/standards.rs has no title of {unknown}")),
        Ok(page) if found.is_none_or(|file| file.text != page) => {
            report("not what the code says; write it again as its head says".to_owned());
        }
        Ok(_) => {}
    }
}

/// The page; or the RFC that has no title.
fn page(files: &[File]) -> Result<String, String> {
    let mut sections: BTreeMap<u32, BTreeMap<Section, BTreeSet<&str>>> = BTreeMap::new();
    for file in files.iter().filter(|file| is_product(&file.path)) {
        for line in file.text.lines().take(file.product_lines()) {
            for (rfc, section) in references(line) {
                sections.entry(rfc).or_default().entry(section).or_default().insert(&file.path);
            }
        }
    }
    let mut page = String::from(HEAD);
    for (rfc, sections) in &sections {
        let title = TITLES.iter().find(|(number, _)| number == rfc);
        let (_, title) = title.ok_or_else(|| format!("RFC {rfc}"))?;
        let _ = write!(page, "\n## RFC {rfc}: {title}\n\n| section | files |\n|---|---|\n");
        for (section, files) in sections {
            let files: Vec<_> = files.iter().map(|path| format!("`{}`", shortened(path))).collect();
            let _ = writeln!(page, "| {} | {} |", section.text(), files.join(" "));
        }
    }
    Ok(page)
}

fn is_product(path: &str) -> bool {
    let is_dev = path.starts_with("crates/testing/");
    path.starts_with("crates/") && !is_dev && path.contains("/src/") && path.ends_with(".rs")
}

/// The path without what all have.
fn shortened(path: &str) -> String {
    path.trim_start_matches("crates/").replacen("/src/", "/", 1)
}

/// The references in a line: `RFC 4511`, `RFC 4511 §4.5.1`, and what follows as `, §4.6` or
/// ` and §4.6`.
fn references(line: &str) -> Vec<(u32, Section)> {
    let mut all = Vec::new();
    for (at, _) in line.match_indices("RFC ") {
        let rest = line.get(at + 4..).unwrap_or_default();
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, mut rest) = rest.split_at(digits);
        let Some(rfc) = number.parse().ok().filter(|number| *number > 999) else { continue };
        let mut is_bare = true;
        while let Some(after) = [" §", ", §", " and §", "–§", "–"]
            .iter()
            .find_map(|mark| rest.strip_prefix(mark).filter(|_| !is_bare || *mark == " §"))
        {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '.';
            let length = after.len() - after.trim_start_matches(is_part).len();
            let (section, left) = after.split_at(length);
            all.push((rfc, Section::of(section.trim_end_matches('.'))));
            (rest, is_bare) = (left, false);
        }
        if is_bare {
            all.push((rfc, Section::default()));
        }
    }
    all
}

impl Section {
    fn of(text: &str) -> Self {
        let parts = text.split('.').filter(|part| !part.is_empty());
        Self(parts.map(|part| (part.parse().unwrap_or(u32::MAX), part.to_owned())).collect())
    }

    fn text(&self) -> String {
        match self.0.is_empty() {
            true => "as a whole".to_owned(),
            false => {
                let parts: Vec<_> = self.0.iter().map(|(_, part)| part.as_str()).collect();
                format!("§{}", parts.join("."))
            }
        }
    }
}

const HEAD: &str = "# Standards

Which section of which RFC is obeyed in which file, as the comments of the code say. What roster
supports is in the [reference](reference/); where it answers otherwise than other servers, and why,
is in [differences.md](differences.md).

This page is generated from the code; `cargo xtask tidy` compares it. To regenerate it:
`ROSTER_WRITE_REFERENCE=1 cargo test -p xtask standards`.
";

/// The RFCs that the product names.
const TITLES: &[(u32, &str)] = &[
    (1035, "Domain names: implementation and specification"),
    (1952, "GZIP file format"),
    (2247, "Domains in X.500 distinguished names"),
    (2252, "LDAPv3 attribute syntax definitions (obsolete)"),
    (2253, "LDAPv3 string representation of DNs (obsolete)"),
    (2254, "LDAPv3 string representation of filters (obsolete)"),
    (2256, "X.500 user schema for LDAPv3 (obsolete)"),
    (2307, "LDAP as a network information service"),
    (2589, "Dynamic directory services"),
    (2696, "Simple paged results"),
    (2782, "DNS SRV records"),
    (2798, "inetOrgPerson"),
    (2849, "LDIF"),
    (2891, "Server side sorting"),
    (3045, "Vendor information in the root DSE"),
    (3062, "Password modify"),
    (3112, "Authentication password schema"),
    (3296, "Named subordinate references"),
    (3339, "Date and time on the internet"),
    (3454, "Stringprep"),
    (3629, "UTF-8"),
    (3641, "Generic string encoding rules"),
    (3671, "Collective attributes"),
    (3672, "Subentries"),
    (3673, "All operational attributes"),
    (3674, "Feature discovery"),
    (3687, "Component matching rules"),
    (3698, "Additional matching rules"),
    (3829, "Authorization identity controls"),
    (3866, "Language tags and ranges"),
    (3876, "Matched values"),
    (3909, "Cancel"),
    (3928, "LDAP client update protocol"),
    (3986, "Uniform resource identifiers"),
    (4013, "SASLprep"),
    (4291, "IPv6 addressing architecture"),
    (4370, "Proxied authorization"),
    (4422, "SASL"),
    (4505, "Anonymous SASL mechanism"),
    (4510, "LDAP: road map"),
    (4511, "LDAP: the protocol"),
    (4512, "LDAP: directory information models"),
    (4513, "LDAP: authentication methods and security"),
    (4514, "LDAP: string representation of distinguished names"),
    (4515, "LDAP: string representation of search filters"),
    (4516, "LDAP: uniform resource locator"),
    (4517, "LDAP: syntaxes and matching rules"),
    (4518, "LDAP: internationalized string preparation"),
    (4519, "LDAP: schema for user applications"),
    (4522, "The binary encoding option"),
    (4523, "Schema for X.509 certificates"),
    (4524, "COSINE schema"),
    (4525, "Modify-increment"),
    (4526, "Absolute true and false filters"),
    (4527, "Read entry controls"),
    (4528, "Assertion control"),
    (4529, "Attributes of an object class in searches"),
    (4530, "entryUUID"),
    (4532, "Who am I?"),
    (4533, "Content synchronization"),
    (4616, "PLAIN SASL mechanism"),
    (4648, "Base16, base32 and base64"),
    (4752, "Kerberos V5 SASL mechanism"),
    (4876, "Configuration profile for LDAP agents"),
    (5020, "entryDN"),
    (5056, "Channel bindings"),
    (5280, "X.509 certificates and revocation lists"),
    (5424, "Syslog"),
    (5802, "SCRAM"),
    (5803, "SCRAM secrets in LDAP"),
    (5805, "Transactions"),
    (5929, "Channel bindings for TLS"),
    (6171, "Don't use copy control"),
    (7515, "JSON web signature"),
    (7517, "JSON web key"),
    (7518, "JSON web algorithms"),
    (7519, "JSON web token"),
    (7613, "Internationalized user names and passwords"),
    (7628, "OAUTHBEARER SASL mechanism"),
    (7677, "SCRAM-SHA-256"),
    (7914, "scrypt"),
    (8018, "PBKDF2"),
    (8452, "AES-GCM-SIV"),
    (8878, "Zstandard"),
    (9106, "Argon2"),
    (9266, "Channel bindings for TLS 1.3"),
    (9562, "UUIDs"),
];

#[cfg(test)]
mod tests {
    use super::super::source::files;
    use super::*;
    use crate::shell::root;

    #[test]
    fn references_have_sections_or_none() {
        let texts = |line: &str| {
            let all = references(line).into_iter();
            all.map(|(rfc, section)| format!("{rfc} {}", section.text())).collect::<Vec<_>>()
        };
        assert_eq!(
            texts("as RFC 4511 §4.5.1.7 says, and RFC 4532."),
            ["4511 §4.5.1.7", "4532 as a whole"]
        );
        assert_eq!(texts("(RFC 4511 §4.2–§4.12, §A.2)"), ["4511 §4.2", "4511 §4.12", "4511 §A.2"]);
        assert_eq!(texts("the RFC says"), [""; 0]);
        assert!(Section::of("4.10") > Section::of("4.2") && Section::of("A.2") > Section::of("9"));
    }

    #[test]
    fn standards_are_those_of_the_code() {
        let files = files(&root());
        let page = page(&files).unwrap();
        if std::env::var_os("ROSTER_WRITE_REFERENCE").is_some() {
            std::fs::write(root().join(PAGE), &page).unwrap();
        }
        let written = std::fs::read_to_string(root().join(PAGE)).unwrap_or_default();
        assert!(written == page, "the page is not what the code says");
    }
}
