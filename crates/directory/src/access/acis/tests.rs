//! The pages about who reads what say what the program does.

use aci::{Aci, GlobalAcis};
use ldap::ldif::{LdifBody, LdifChange, LdifLimits, LdifReader};
use schema::{AttributeDescription, KNOWN_SECRETS, Schema};

use crate::access::grants::GrantTypes;

const HEAD: &str = "\
# Access without rules of your own

The global ACIs of a directory that nobody has given any, as `ds-cfg-global-aci` of
`cn=Access Control Handler,cn=config` shows them. How to write your own:
[how to say who reads what](../how-to/access.md), [the language](access-control.md).

`ROSTER_WRITE_REFERENCE=1 cargo test -p directory --lib reference` writes this page again.

";

const SECRETS: &str = "\
## What is secret

`#secret` in a `targetattr` stands for every attribute type of the schema

- whose definition has `X-SECRET 'TRUE'`,
- of which a name or the OID is in this table,
- that is derived from such a type.

| type | OID | its values |
|---|---|---|
";

fn reference_page() -> String {
    let mut page = HEAD.to_owned();
    let sets = [
        (GlobalAcis::SignedIn, "After `roster init`, or `roster import --access signed-in`"),
        (GlobalAcis::Public, "After `roster init --public`, or `roster import --access public`"),
        (
            GlobalAcis::Closed,
            "After the import of data with ACIs, or `roster import --access closed`",
        ),
    ];
    for (acis, title) in sets {
        page.push_str(&format!("## {title}\n\n```text\n"));
        for text in acis.texts() {
            page.push_str(&format!("{text}\n"));
        }
        page.push_str("```\n\n");
    }
    page.push_str(SECRETS);
    for known in KNOWN_SECRETS {
        let oid = known.oid.unwrap_or_default();
        page.push_str(&format!("| `{}` | {oid} | {} |\n", known.name, known.what));
    }
    page
}

/// `ROSTER_WRITE_REFERENCE=1 cargo test -p directory --lib reference` writes it again.
#[test]
fn the_reference_page_of_default_access_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/default-access.md");
    if std::env::var_os("ROSTER_WRITE_REFERENCE").is_some() {
        std::fs::write(path, reference_page()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), reference_page());
}

#[test]
fn the_acis_of_the_how_to_can_be_read() {
    let page = include_str!("../../../../../docs/how-to/access.md");
    let schema = Schema::builtin();
    let mut count = 0;
    for block in page.split("```ldif\n").skip(1) {
        let text = block.split("```").next().unwrap();
        let mut reader = LdifReader::new(text.as_bytes(), LdifLimits::default());
        let record = reader.next_record().unwrap().unwrap();
        let LdifBody::Change(LdifChange::Modify(changes)) = record.body else { panic!("{text}") };
        for value in changes.iter().flat_map(|change| &change.values) {
            let aci = Aci::parse(std::str::from_utf8(value).unwrap(), &schema).unwrap();
            assert_eq!(aci.unknown_names(), [""; 0]);
            count += 1;
        }
    }
    assert_eq!(count, 3);
}

/// What gives power or limits it is for administrators to see: none of it is left out of the list.
#[test]
fn the_default_acis_hide_what_gives_power() {
    let schema = Schema::builtin();
    let texts = [GlobalAcis::SignedIn, GlobalAcis::Public].map(GlobalAcis::texts).concat();
    let reading: Vec<&str> =
        texts.into_iter().filter(|text| text.contains("reads what is not secret")).collect();
    assert_eq!(reading.len(), 2);
    let types = GrantTypes::new(&schema);
    let names = types.all().into_iter().map(AttributeDescription::text).chain(["aci"]);
    for name in names {
        for text in &reading {
            let list = text.split('"').nth(1).unwrap();
            assert!(list.split(" || ").any(|one| one == name), "{name}: {text}");
        }
    }
}
