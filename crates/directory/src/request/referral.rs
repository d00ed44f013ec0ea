//! Referral objects (RFC 3296): entries that say "this part of the tree is elsewhere".

use aci::Rights;
use ldap::message::Scope;
use ldap::result::ResultCode;
use ldap::url::LdapUrl;
use schema::{DnKey, EntryId, EntryRead, ResolvedFilter, Schema, WellKnown};
use store::{Ask, View};

use crate::access::guard::Guard;
use crate::directory::State;
use crate::read::lookup::Lookup;
use crate::request::refusal::Refusal;

/// Whether the directory holds any referral object: one index look-up. Everything else in this
/// file is skipped when there is none.
pub(crate) fn any(view: &View<'_>, known: &WellKnown) -> Result<bool, Refusal> {
    Ok(view.has_any(&known.ref_)?)
}

/// Whether there is a referral object at `base` or below it.
pub(crate) fn any_below(view: &View<'_>, state: &State, base: EntryId) -> Result<bool, Refusal> {
    let known = state.schema.well_known();
    let plan = view.plan(&Ask::new(&filter(known), base, Scope::Subtree))?;
    for stored in plan.entries(view, EntryId::ROOT) {
        let stored = stored?;
        if is_referral(&stored, known) && view.is_within(&stored, base)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The filter that finds all referral objects.
pub(crate) fn filter(known: &WellKnown) -> ResolvedFilter {
    ResolvedFilter::Present(known.ref_.clone())
}

/// Whether an entry is a referral object: of class `referral`, with a `ref`.
pub(crate) fn is_referral(entry: &dyn EntryRead, known: &WellKnown) -> bool {
    let mut found = false;
    entry.visit_values(&known.object_class, &mut |_, value| {
        found = is_class(value);
        !found
    });
    found
}

/// Whether a value of `objectClass` is the class of referral objects.
pub(crate) fn is_class(value: &[u8]) -> bool {
    value.eq_ignore_ascii_case(b"referral") || value == REFERRAL_OID
}

/// The refusal `referral` when `start` or a superior of it is a referral object; `noSuchObject`
/// for whoever may not read what it refers to.
pub(crate) fn above(
    view: &View<'_>,
    state: &State,
    guard: &Guard<'_>,
    start: EntryId,
    lookup: &Lookup<'_>,
) -> Result<Option<Refusal>, Refusal> {
    let known = state.schema.well_known();
    let mut next = start;
    while next != EntryId::ROOT {
        let Some(entry) = view.entry(next)? else { break };
        if is_referral(&entry, known) {
            if !guard.anywhere(|guard| may_follow(&guard.on(&entry), known)) {
                return Ok(Some(guard.missing(view, entry.parent())?));
            }
            let urls = urls(&entry, &state.schema, Some((lookup.name, lookup.key)), lookup.scope);
            return Ok(Some(Refusal {
                matched: entry.dn().to_owned(),
                referrals: urls,
                ..Refusal::new(ResultCode::Referral, "")
            }));
        }
        next = entry.parent();
    }
    Ok(None)
}

/// Whether it may be known where a referral object leads: the asker may see it, and what it says.
pub(crate) fn may_follow(rights: &Rights<'_>, known: &WellKnown) -> bool {
    rights.may_read(&known.ref_) && rights.may_see()
}

/// Whether an entry below `parent` lies below a referral object, which a search does not enter.
pub(crate) fn is_below(
    view: &View<'_>,
    known: &WellKnown,
    parent: EntryId,
) -> Result<bool, Refusal> {
    let mut next = parent;
    while next != EntryId::ROOT
        && let Some(entry) = view.entry(next)?
    {
        if is_referral(&entry, known) {
            return Ok(true);
        }
        next = entry.parent();
    }
    Ok(false)
}

/// The URLs that continue a search below a referral object found in its scope
/// (RFC 4511 §4.5.3): a search of one level goes on with the base alone.
pub(crate) fn continuation(entry: &dyn EntryRead, schema: &Schema, scope: Scope) -> Vec<String> {
    let onward = match scope {
        Scope::Base | Scope::One => Scope::Base,
        Scope::Subtree | Scope::Subordinate => Scope::Subtree,
    };
    urls(entry, schema, None, Some(onward))
}

/// The values of `ref` made into URLs for a client. `asked` is the name (and key) that was asked
/// for, when it lies at or below the referral object: its lower part is put before the DN of the
/// URL, because that is what the object is called over there.
fn urls(
    entry: &dyn EntryRead,
    schema: &Schema,
    asked: Option<(&str, &DnKey)>,
    scope: Option<Scope>,
) -> Vec<String> {
    let mut urls = Vec::new();
    entry.visit_values(&schema.well_known().ref_, &mut |_, value| {
        if let Ok(text) = std::str::from_utf8(value) {
            urls.push(rewrite(text, entry.dn(), schema, asked, scope));
        }
        true
    });
    urls
}

fn rewrite(
    text: &str,
    referral_dn: &str,
    schema: &Schema,
    asked: Option<(&str, &DnKey)>,
    scope: Option<Scope>,
) -> String {
    // A URL of another scheme is for the client to understand (RFC 4511 §4.1.10).
    let Ok(mut url) = LdapUrl::parse(text) else {
        return text.to_owned();
    };
    let over_there = if url.dn.is_root() { referral_dn.to_owned() } else { url.dn.to_string() };
    let name = match asked {
        Some((name, key)) => {
            let depth_here = DnKey::from_text(schema, referral_dn).map_or(0, |here| here.depth());
            let below = key.depth().saturating_sub(depth_here);
            lower_part(name, below, &over_there)
        }
        None => over_there,
    };
    if let Ok(dn) = ldap::dn::Dn::parse(&name) {
        url.dn = dn;
    }
    url.scope = scope;
    url.to_string()
}

/// The lowest `count` RDNs of `name`, put before `upper`.
fn lower_part(name: &str, count: usize, upper: &str) -> String {
    let Ok(dn) = ldap::dn::Dn::parse(name) else {
        return upper.to_owned();
    };
    let mut text = String::new();
    for rdn in dn.rdns().iter().take(count) {
        text.push_str(&rdn.to_string());
        text.push(',');
    }
    text.push_str(upper);
    text
}

/// The OID of the object class `referral` (RFC 3296 §2.2).
const REFERRAL_OID: &[u8] = b"2.16.840.1.113730.3.2.6";
