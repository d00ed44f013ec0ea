//! `cn=Naming Contexts,cn=config`: below which names there may be entries, a value each.
//!
//! Invariant: one goes only when there is no entry in it, and gets another name only together with
//! its entry, see `write/context_rename.rs`.

use aci::Permitted;
use history::record::CONTEXTS_LEVEL;
use ldap::dn::Dn;
use ldap::result::ResultCode;
use schema::{Change, DnKey, Schema};
use store::{CONTEXT_COUNT_MAX, NAMING_CONTEXTS, NamingContexts, Resolved, StoreError, View};

use crate::read::subschema::SUBSCHEMA_DN;
use crate::request::refusal::Refusal;
use crate::write::decision::Decide;

/// The attribute.
pub(super) const ATTRIBUTE: &str = "roster-naming-context";
/// What the store calls the setting.
pub(super) const SETTING: &str = NAMING_CONTEXTS;

/// The naming contexts of a view.
pub(crate) fn values(view: &View<'_>) -> Result<Vec<String>, StoreError> {
    Ok(view.naming_contexts().names().map(ToString::to_string).collect())
}

/// How a name is spelled: as it is there already, or in one way.
pub(super) fn spelling(
    decide: &Decide<'_>,
    others: &[String],
    text: &str,
) -> Result<String, Refusal> {
    let schema = &decide.state.schema;
    let dn = Dn::parse(text)?;
    let own = key(schema, &dn)?;
    let same = |other: &&String| DnKey::from_text(schema, other).is_ok_and(|other| other == own);
    Ok(others.iter().find(same).cloned().unwrap_or_else(|| dn.to_string()))
}

/// Refuses what cannot be a naming context beside the others.
#[expect(clippy::ptr_arg, reason = "it is one of a table of such functions")]
pub(super) fn put(
    decide: &Decide<'_>,
    others: &mut Vec<String>,
    text: &str,
) -> Result<(), Refusal> {
    let dn = Dn::parse(text)?;
    check_name(decide, &dn)?;
    for other in others.iter() {
        check_apart(decide, &dn, other)?;
    }
    match others.len() < CONTEXT_COUNT_MAX {
        true => Ok(()),
        false => Err(Refusal::new(
            ResultCode::AdminLimitExceeded,
            format!("there are at most {CONTEXT_COUNT_MAX} naming contexts"),
        )),
    }
}

/// Refuses a name that no naming context can have.
pub(crate) fn check_name(decide: &Decide<'_>, dn: &Dn) -> Result<(), Refusal> {
    let refuse = |why: String| Err(Refusal::new(ResultCode::UnwillingToPerform, why));
    let schema = &decide.state.schema;
    let own = key(schema, dn)?;
    if own.is_root() {
        return refuse("the empty name is that of the root DSE: a naming context has one".into());
    }
    let of_server =
        |name: &str| DnKey::from_text(schema, name).is_ok_and(|key| overlap(&own, &key));
    if decide.state.virtual_trees.hold(&own) || of_server(SUBSCHEMA_DN) {
        return refuse(format!("'{dn}' is a name of the server's own entries"));
    }
    if own == decide.directory.credentials.root.key {
        return refuse(format!("'{dn}' is the name of the administrator, who has no entry"));
    }
    // The schema may change, what the name means must not.
    let builtin = Schema::builtin();
    let mut types = dn.rdns().iter().flat_map(|rdn| rdn.avas()).map(|ava| &ava.attribute);
    let is_known = types.all(|name| builtin.attribute_type(name).is_some());
    if !is_known || DnKey::from_dn(&builtin, dn).ok().as_ref() != Some(&own) {
        return refuse(format!(
            "'{dn}' has attribute types that do not come with the server: name it by dc, o, \
             ou, c, l, st or cn"
        ));
    }
    Ok(())
}

/// Refuses a name that lies within another naming context, or above it.
pub(crate) fn check_apart(decide: &Decide<'_>, own: &Dn, other: &str) -> Result<(), Refusal> {
    let schema = &decide.state.schema;
    let own_key = key(schema, own)?;
    let key = DnKey::from_text(schema, other).unwrap_or_default();
    let place = match (own_key.is_within(&key), key.is_within(&own_key)) {
        (true, _) => "within",
        (_, true) => "above",
        (false, false) => return Ok(()),
    };
    let hint = match place {
        "within" => "add an entry there",
        _ => "drop that one first, or rename it",
    };
    Err(Refusal::new(
        ResultCode::UnwillingToPerform,
        format!("'{own}' lies {place} the naming context '{other}': {hint}"),
    ))
}

fn overlap(one: &DnKey, other: &DnKey) -> bool {
    one.is_within(other) || other.is_within(one)
}

/// What follows new naming contexts: refuses to drop those that have entries.
pub(super) fn follow(
    decide: &Decide<'_>,
    after: &[String],
) -> Result<Vec<Permitted<Change>>, Refusal> {
    let after = NamingContexts::of_setting(after, &decide.state.schema)?;
    let before = decide.view.naming_contexts();
    for (name, key) in before.names().zip(before.keys()) {
        if !after.keys().any(|kept| kept == key)
            && matches!(decide.view.resolve(key)?, Resolved::Found(_))
        {
            return Err(Refusal::new(
                ResultCode::NotAllowedOnNonLeaf,
                format!(
                    "the naming context '{name}' has entries: delete them first, or give its entry \
                     another name ('roster naming-context drop --with-entries', 'rename')"
                ),
            ));
        }
    }
    level(decide)
}

/// The level of records that know of naming contexts, where no other server says it: releases that
/// read less do not open the data then, and do not miss what is there.
pub(crate) fn level(decide: &Decide<'_>) -> Result<Vec<Permitted<Change>>, Refusal> {
    let is_alone = decide.directory.queue.forwarding().is_none();
    let is_low = decide.view.record_level()?.is_none_or(|level| level < CONTEXTS_LEVEL);
    Ok(match is_alone && is_low {
        true => vec![Permitted::internal(Change::Level(CONTEXTS_LEVEL))],
        false => Vec::new(),
    })
}

fn key(schema: &Schema, dn: &Dn) -> Result<DnKey, Refusal> {
    crate::write::named::key(schema, dn)
}
