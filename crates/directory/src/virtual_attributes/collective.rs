//! Collective attributes (RFC 3671): what a `collectiveAttributeSubentry` holds of collective types
//! is shared by the entries of its subtree. Attributes with the option `collective` are shared
//! without it, as in OpenDJ.

use std::sync::Arc;

use ldap::dn::Dn;
use schema::{AttributeDescription, AttributeType, DnKey, EntryRead, Schema};

use super::definition::{Area, Beside, Constant, Definition, Source};
use crate::read::subtree::{Subtree, SubtreeFault};

/// The class of subentries with collective attributes.
pub(crate) const CLASS: &str = "collectiveAttributeSubentry";
const CLASS_OID: &[u8] = b"2.5.17.2";
const SUBTREE_SPECIFICATION: &str = "subtreeSpecification";
const CONFLICT_BEHAVIOR: &str = "collectiveConflictBehavior";
/// In `collectiveExclusions`: none is shared (RFC 3671 §2.3).
const EXCLUDE_ALL: [&str; 2] = ["2.5.18.0", "excludeAllCollectiveAttributes"];
/// The option of an attribute that is shared without it.
const OPTION: &str = "collective";

/// Whether a value of `objectClass` makes an entry such a subentry.
pub(super) fn is_class(value: &[u8]) -> bool {
    value.eq_ignore_ascii_case(CLASS.as_bytes()) || value == CLASS_OID
}

/// What such a subentry shares.
///
/// # Errors
/// When its subtree cannot be understood.
pub(super) fn read(
    entry: &dyn EntryRead,
    schema: &Schema,
) -> Result<Vec<Definition>, SubtreeFault> {
    let name = Dn::parse_stored(entry.dn()).ok();
    let key = name.and_then(|name| DnKey::from_dn(schema, &name).ok()).unwrap_or_default();
    let point = key.parent().unwrap_or_default();
    let text = first(entry, schema, SUBTREE_SPECIFICATION).unwrap_or_default();
    let beside = match first(entry, schema, CONFLICT_BEHAVIOR).as_deref() {
        Some("virtual-overrides-real") => Beside::Given,
        Some("merge-real-and-virtual") => Beside::Both,
        Some(_) | None => Beside::Stored,
    };
    let subentry: Arc<str> = entry.dn().into();
    let subtree = Arc::new(Subtree::parse(&text, &point, schema)?);
    let mut all = Vec::new();
    entry.visit_attributes(&mut |description, values| {
        let is_shared = description.kind.collective && description.options().is_empty();
        let plain = match description.options() {
            [option] if option == OPTION => schema.describe(description.kind.name()).ok(),
            _ if is_shared => schema.describe(description.text()).ok(),
            _ => None,
        };
        let Some(description) = plain else { return };
        if Definition::refusal(&description).is_some() {
            return;
        }
        let values = values.iter().map(<[u8]>::to_vec);
        let constant = Constant::new(&description, values, schema);
        all.push(Definition {
            description,
            source: Source::Constant(constant),
            beside: if is_shared { Beside::Both } else { beside },
            merges: true,
            named_only: false,
            area: Area::Subtree(Arc::clone(&subtree)),
            subentry: Some(Arc::clone(&subentry)),
        });
    });
    Ok(all)
}

/// Whether an entry does not share an attribute, by its `collectiveExclusions`.
pub(super) fn is_excluded(
    entry: &dyn EntryRead,
    exclusions: &AttributeDescription,
    kind: &AttributeType,
    schema: &Schema,
) -> bool {
    let mut found = false;
    entry.visit_values(exclusions, &mut |_, value| {
        let text = std::str::from_utf8(value).unwrap_or_default();
        let excluded = schema.attribute_type(text);
        found = EXCLUDE_ALL.iter().any(|all| text.eq_ignore_ascii_case(all))
            || excluded.is_some_and(|excluded| kind.is_subtype_of(excluded));
        !found
    });
    found
}

fn first(entry: &dyn EntryRead, schema: &Schema, name: &str) -> Option<String> {
    let description = schema.describe(name).ok()?;
    let mut found = None;
    entry.visit_values(&description, &mut |_, value| {
        found = std::str::from_utf8(value).ok().map(str::to_owned);
        false
    });
    found
}
