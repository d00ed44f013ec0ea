//! The root DSE (RFC 4512 §5.1): what this server is and can do, made from the tables it works by.

use aci::Privilege;
use ldap::dn::Dn;
use schema::{Entry, Schema};
use store::{Lsn, Mark};

use crate::bind::sasl;
use crate::changelog::{CHANGELOG_DN, ChangeCookie};
use crate::directory::Directory;
use crate::read::subschema::SUBSCHEMA_DN;
use crate::request::session::Session;
use crate::request::{controls, extended};

/// The root DSE as this session finds it.
pub(crate) fn entry(directory: &Directory, schema: &Schema, offer: Offer) -> Entry {
    let mut entry = Entry::new(Dn::root());
    let mut put = |name: &str, values: Vec<String>| {
        if let Ok(description) = schema.describe(name)
            && !values.is_empty()
        {
            let values = values.into_iter().map(String::into_bytes).collect();
            // Made of distinct values by construction.
            let _ = entry.replace_values(schema, &description, values);
        }
    };
    let text = |values: &[&str]| values.iter().map(|&value| value.to_owned()).collect();
    put("objectClass", text(&["top", "extensibleObject"]));
    put("structuralObjectClass", text(&["top"]));
    put(
        "namingContexts",
        directory.storage.store.naming_contexts().names().map(ToString::to_string).collect(),
    );
    put("subschemaSubentry", text(&[SUBSCHEMA_DN]));
    put("supportedLDAPVersion", text(&["3"]));
    put("supportedControl", controls::supported().map(str::to_owned).collect());
    put("supportedExtension", extended::supported(offer.tls).map(str::to_owned).collect());
    put("supportedFeatures", FEATURES.iter().map(|(oid, _)| (*oid).to_owned()).collect());
    put("supportedSASLMechanisms", offer.sasl.names().map(str::to_owned).collect());
    put("vendorName", text(&["roster"]));
    put("vendorVersion", vec![format!("roster {}", env!("CARGO_PKG_VERSION"))]);
    put("entryDN", vec![String::new()]);
    if let Some(Kept { first, last, end }) = offer.changes {
        put("changelog", text(&[CHANGELOG_DN]));
        put("firstChangeNumber", vec![first.0.to_string()]);
        put("lastChangeNumber", vec![last.0.to_string()]);
        let cookie = ChangeCookie { lsn: end.lsn, hash: end.hash, part: None };
        put("lastExternalChangelogCookie", vec![directory.change_cookies.write(&cookie)]);
    }
    entry
}

/// What depends on the connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Offer {
    /// These SASL mechanisms can succeed.
    sasl: sasl::Offered,
    /// StartTLS can succeed.
    tls: bool,
    /// The changes, for who may read them.
    changes: Option<Kept>,
}

/// Which changes there are.
#[derive(Clone, Copy, Debug)]
struct Kept {
    first: Lsn,
    last: Lsn,
    /// The last one that readers find.
    end: Mark,
}

impl Offer {
    /// What the server offers this session.
    pub(crate) fn to(session: &Session, directory: &Directory) -> Self {
        let may_read = session.access().has(Privilege::ChangelogRead);
        let changes = may_read.then(|| directory.changes());
        Self {
            changes: changes.map(|changes| Kept {
                first: changes.first(),
                last: changes.last(),
                end: directory.storage.store.published(),
            }),
            sasl: sasl::Offered::to(session, directory),
            tls: extended::offers_tls(directory, session),
        }
    }
}

/// OIDs for `supportedFeatures` (RFC 3674), with what each stands for.
const FEATURES: &[(&str, &str)] = &[
    ("1.3.6.1.4.1.4203.1.5.1", "all operational attributes, RFC 3673"),
    ("1.3.6.1.4.1.4203.1.5.2", "attributes by object class, RFC 4529"),
    ("1.3.6.1.4.1.4203.1.5.3", "absolute true and false filters, RFC 4526"),
    ("1.3.6.1.4.1.4203.1.5.4", "language tag options, RFC 3866"),
    ("1.3.6.1.4.1.4203.1.5.5", "language range options, RFC 3866"),
    ("1.3.6.1.1.14", "modify-increment, RFC 4525"),
];
