//! Class of Service, as Sun's and 389's servers have it: entries below the superior of a definition
//! get attributes of a template.
//!
//! A pointer definition names its template. A classic one names the entry above its templates, and
//! the attribute by whose value an entry finds its own. An indirect one names the attribute that
//! names another entry, whatever it is, which is the template.

use std::sync::Arc;

use ldap::dn::Dn;
use schema::{AttributeDescription, DnKey, EntryRead, Schema};

use super::definition::{Area, Beside, Definition, Source};
use crate::password_policy::switches;

/// The classes of definitions, with what each looks its template up by.
pub(super) const CLASSES: [(&str, &str, Kind); 3] = [
    ("cosPointerDefinition", "2.16.840.1.113730.3.2.101", Kind::Pointer),
    ("cosClassicDefinition", "2.16.840.1.113730.3.2.100", Kind::Classic),
    ("cosIndirectDefinition", "2.16.840.1.113730.3.2.102", Kind::Indirect),
];

/// The class of templates, by name and OID.
const TEMPLATE: [&str; 2] = ["cosTemplate", "2.16.840.1.113730.3.2.128"];
/// Of several templates the one with the lowest wins; without it, it is the highest.
pub(super) const PRIORITY: &str = "cosPriority";

/// How a definition finds its template.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Pointer,
    Classic,
    Indirect,
}

/// How a value of `objectClass` makes an entry such a definition.
pub(super) fn kind_of_class(value: &[u8]) -> Option<Kind> {
    let is_one = |(name, oid, _): &&(&str, &str, Kind)| {
        value.eq_ignore_ascii_case(name.as_bytes()) || value == oid.as_bytes()
    };
    CLASSES.iter().find(is_one).map(|(_, _, kind)| *kind)
}

/// Whether an entry is a template.
pub(super) fn is_template(entry: &dyn EntryRead, schema: &Schema) -> bool {
    let mut found = false;
    entry.visit_values(&schema.well_known().object_class, &mut |_, value| {
        found = TEMPLATE.iter().any(|name| value.eq_ignore_ascii_case(name.as_bytes()));
        !found
    });
    found
}

/// What such a definition gives. Of attributes that cannot be given, and where it is not clear what
/// is meant, it gives nothing, and the log says so: it may come from another server.
pub(super) fn read(entry: &dyn EntryRead, kind: Kind, schema: &Schema) -> Vec<Definition> {
    let definition = entry.dn();
    let parsed = Dn::parse_stored(definition).ok();
    let key = parsed.and_then(|name| DnKey::from_dn(schema, &name).ok()).unwrap_or_default();
    let Some(above) = key.parent().filter(|above| above.depth() > 0) else { return Vec::new() };
    let base = match text(entry, schema, "cosTargetTree").first() {
        Some(name) => DnKey::from_text(schema, name).ok().filter(|base| base.is_within(&above)),
        None => Some(above),
    };
    let mut all = Vec::new();
    for named in text(entry, schema, "cosAttribute") {
        let read = Named::parse(&named, schema);
        let source = |named: &Named| source(entry, kind, named, schema);
        match read.and_then(|named| Ok((source(&named)?, named))) {
            Ok((source, Named { description, beside, merges, named_only })) => {
                let Some(base) = base.clone() else { continue };
                let area = Area::Below(base);
                let subentry = None;
                all.push(Definition {
                    description,
                    source,
                    beside,
                    merges,
                    named_only,
                    area,
                    subentry,
                });
            }
            Err(reason) => {
                tracing::warn!(definition, reason, "a Class of Service gives nothing");
            }
        }
    }
    all
}

/// A value of `cosAttribute`.
struct Named {
    description: Arc<AttributeDescription>,
    beside: Beside,
    merges: bool,
    named_only: bool,
}

impl Named {
    fn parse(text: &str, schema: &Schema) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_default();
        let description =
            schema.describe(name).map_err(|_| format!("the schema has no attribute '{name}'"))?;
        // What switches accounts off is heeded where it is given, too.
        let refusal = Definition::refusal(&description);
        if let Some(reason) = refusal.filter(|_| !switches::disables(&description)) {
            return Err(format!("'{name}' is not given: {reason}"));
        }
        let (mut beside, mut merges, mut named_only) = (Beside::Stored, false, false);
        for word in words {
            match word.to_ascii_lowercase().as_str() {
                "default" => beside = Beside::Stored,
                "override" => beside = Beside::Given,
                "operational-default" => (beside, named_only) = (Beside::Stored, true),
                "operational" => (beside, named_only) = (Beside::Given, true),
                "merge-schemes" => merges = true,
                other => return Err(format!("'{other}' means nothing behind '{name}'")),
            }
        }
        Ok(Self { description, beside, merges, named_only })
    }
}

fn source(
    entry: &dyn EntryRead,
    kind: Kind,
    named: &Named,
    schema: &Schema,
) -> Result<Source, String> {
    let template = || {
        let name = text(entry, schema, "cosTemplateDn");
        let name = name.first().ok_or("it has no cosTemplateDn")?;
        DnKey::from_text(schema, name).map_err(|error| format!("cosTemplateDn: {error}"))
    };
    let attribute = |by: &str| {
        let name = text(entry, schema, by);
        let name = name.first().ok_or(format!("it has no {by}"))?;
        let found = schema.describe(name).map_err(|_| format!("{by}: no attribute '{name}'"))?;
        match found.kind.is_secret() {
            true => Err(format!("{by}: '{name}' is secret")),
            false => Ok(found),
        }
    };
    Ok(match kind {
        Kind::Pointer => Source::Template(template()?),
        Kind::Classic => Source::Named { below: template()?, by: attribute("cosSpecifier")? },
        Kind::Indirect => Source::Referenced {
            of: Arc::clone(&named.description),
            by: attribute("cosIndirectSpecifier")?,
        },
    })
}

/// The values of an attribute that are text.
fn text(entry: &dyn EntryRead, schema: &Schema, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    if let Ok(description) = schema.describe(name) {
        entry.visit_values(&description, &mut |_, value| {
            found.extend(std::str::from_utf8(value).map(str::to_owned));
            found.len() < VALUES_MAX
        });
    }
    found
}

/// Attributes that one definition gives, at the most.
const VALUES_MAX: usize = 64;
