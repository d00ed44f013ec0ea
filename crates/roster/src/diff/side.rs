//! One of the two that are compared: a server or a file, and its entries in the order of their
//! names.
//!
//! Invariant: what was not read as a whole is not compared: everything else is a failure.

use std::io::{self, BufReader};
use std::path::PathBuf;

use client::{Connection, SearchAnswer, SearchFor};
use indicatif::ProgressBar;
use ldap::dn::{DnLimits, parse_dn};
use ldap::filter::Filter;
use ldap::ldif::{LdifLimits, LdifReader, LdifReason};
use ldap::message::{Controls, Scope};
use ldap::url::LdapUrl;
use offline::Source;
use schema::DnKey;

use super::body::BodyWriter;
use super::known::{Attributes, REFERRAL};
use super::sort::{Record, Sorted, Sorter};
use crate::failure::Failure;
use crate::online::server::Server;

/// Where entries are.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    /// Of a server, those that the URL names.
    Server(Box<LdapUrl>),
    File(PathBuf),
    StandardInput,
}

impl Place {
    /// A URL, a file, or `-`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text == "-" {
            return Ok(Self::StandardInput);
        }
        if !text.contains("://") {
            return Ok(Self::File(PathBuf::from(text)));
        }
        let url = LdapUrl::parse(text).map_err(|error| error.to_string())?;
        if !url.attributes.is_empty() {
            return Err("the URL names attributes: name them with --only".to_owned());
        }
        match url.extensions.iter().find(|extension| extension.critical) {
            Some(extension) => Err(format!("the extension '{}' is not known", extension.name)),
            None => Ok(Self::Server(Box::new(url))),
        }
    }

    /// That of a server.
    pub(crate) fn url(&self) -> Option<&LdapUrl> {
        match self {
            Self::Server(url) => Some(url),
            Self::File(_) | Self::StandardInput => None,
        }
    }

    /// What messages call it.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Server(url) => url.to_string(),
            Self::File(path) => path.display().to_string(),
            Self::StandardInput => "standard input".to_owned(),
        }
    }
}

/// Reads the entries of one place.
pub(super) struct Reading<'a> {
    pub(super) place: &'a Place,
    pub(super) attributes: Attributes,
    pub(super) sorter: Sorter,
    /// Only entries within this one.
    pub(super) base: Option<DnKey>,
    /// As a search asks for it.
    pub(super) asked: &'a [&'a str],
    pub(super) bar: ProgressBar,
    pub(super) entries: u64,
    /// The key of the current entry, and its octets.
    pub(super) record: Record,
}

impl Reading<'_> {
    /// Reads all entries.
    pub(super) fn all(mut self, connection: Option<Connection>) -> Result<Side, Failure> {
        let place = self.place;
        match (place, connection) {
            (Place::Server(url), Some(connection)) => self.search(url, connection)?,
            (Place::Server(_), None) => return Err(Failure::local("the server is not there")),
            (Place::StandardInput, _) => self.ldif(Source::new(place.name(), io::stdin()))?,
            (Place::File(path), _) => {
                let source = Source::open(path);
                self.ldif(source.map_err(|error| Failure::path("read", path, &error))?)?;
            }
        }
        let is_file = !matches!(place, Place::Server(_));
        Ok(Side {
            name: place.name(),
            entries: self.entries,
            sorted: self.sorter.sorted()?,
            refuses_doubles: is_file,
            is_double: false,
        })
    }

    fn ldif(&mut self, source: Source<'_>) -> Result<(), Failure> {
        let name = source.name().to_owned();
        let failed = |reason: &dyn std::fmt::Display| {
            Failure::local(format!("{name} cannot be compared: {reason}"))
        };
        let (_, text) = source.plain().map_err(|error| failed(&crate::failure::plain(&error)))?;
        let text = BufReader::with_capacity(BUFFER_BYTES, text);
        let mut reader = LdifReader::new(text, LdifLimits::default());
        loop {
            match reader.next_entry() {
                Ok(None) => return Ok(()),
                Ok(Some(entry)) => {
                    // What a search of the root DSE prints is no entry of the tree.
                    if !entry.dn.is_empty() {
                        let attributes = || entry.attributes();
                        self.take(entry.dn, attributes).map_err(|failure| Failure {
                            message: format!(
                                "{name} cannot be compared: line {}: {}",
                                entry.line, failure.message
                            ),
                            ..failure
                        })?;
                    }
                }
                Err(error) if is_search_note(&error.reason) => {
                    reader.skip_record().map_err(|error| failed(&error))?;
                }
                Err(error) => return Err(failed(&error)),
            }
        }
    }

    fn search(&mut self, url: &LdapUrl, mut connection: Connection) -> Result<(), Failure> {
        let server = Server::look(&mut connection)?;
        let bases = match url.dn.is_root() {
            true => server.contexts.clone(),
            false => vec![url.dn.to_string()],
        };
        if bases.is_empty() {
            let hint = "name an entry in the URL, as in ldap://host/dc=example,dc=com";
            return Err(Failure::refused(format!("{} shows no naming context", self.place.name()))
                .hint(hint));
        }
        let filter =
            url.filter.as_deref().map_or(Ok(Filter::Present("objectClass")), Filter::parse);
        let filter = filter.map_err(|error| Failure::local(format!("the filter: {error}")))?;
        let scope = url.scope.unwrap_or(Scope::Subtree);
        for base in &bases {
            for controls in server.controls_for_all(scope) {
                self.pages(&mut connection, base, scope, &filter, controls.as_ref())?;
            }
        }
        Ok(())
    }

    fn pages(
        &mut self,
        connection: &mut Connection,
        base: &str,
        scope: Scope,
        filter: &Filter<'_>,
        controls: Controls<'_>,
    ) -> Result<(), Failure> {
        let asked = SearchFor {
            scope,
            attributes: self.asked,
            stored_only: true,
            ..SearchFor::below(base, filter.clone())
        };
        let mut cookie = Vec::new();
        loop {
            let mut each = |found: SearchAnswer<'_>| match found {
                SearchAnswer::Entry { dn, attributes } => {
                    let values = || {
                        attributes.iter().flat_map(|attribute| {
                            let description = attribute.description;
                            attribute.values.iter().map(move |value| (description, value))
                        })
                    };
                    self.take(dn, values)
                }
                SearchAnswer::Reference(urls) => {
                    let urls: Vec<&str> = urls.iter().collect();
                    Err(Failure::refused(format!(
                        "a part of the directory is elsewhere: {}",
                        urls.join(" or ")
                    ))
                    .hint("compare the parts one by one"))
                }
            };
            let page =
                connection.search_page_with(&asked, PAGE_ENTRIES, &cookie, controls, &mut each)?;
            page.outcome.into_result("search").map_err(|error| {
                let failure = Failure::from(error);
                let message = format!("{}: {}", self.place.name(), failure.message);
                Failure { message, ..failure }
            })?;
            if page.cookie.is_empty() {
                return Ok(());
            }
            cookie = page.cookie;
        }
    }

    /// Takes an entry.
    fn take<'v, I>(&mut self, dn: &str, values: impl Fn() -> I) -> Result<(), Failure>
    where
        I: Iterator<Item = (&'v str, &'v [u8])>,
    {
        let Record { key, body } = &mut self.record;
        key.clear();
        DnKey::write(&self.attributes.schema, dn, key)
            .map_err(|error| Failure::local(format!("the name '{dn}' cannot be read: {error}")))?;
        if self.base.as_ref().is_some_and(|base| !key.starts_with(base.as_bytes())) {
            return Ok(());
        }
        let mut identity = Vec::new();
        for (description, value) in values() {
            let known = self.attributes.get(description);
            if known.is_identity {
                self.attributes.value_key(&known, value, &mut identity);
                break;
            }
        }
        let mut writer = BodyWriter::new(body, &identity, dn);
        for (description, value) in values() {
            if self.attributes.get(description).is_read {
                writer.value(description, value);
            }
        }
        // An entry has the values of its name, whether or not they are written once more.
        for ava in parse_dn(dn, DnLimits::default()).map_while(Result::ok) {
            let named = self.attributes.get(ava.attribute);
            let mut is_there = !named.is_read;
            let mut key = Vec::new();
            let mut own = Vec::new();
            for (description, value) in values() {
                if is_there {
                    break;
                }
                if self.attributes.get(description).key == named.key {
                    is_there = value == &*ava.value || {
                        self.attributes.value_key(&named, value, &mut key);
                        self.attributes.value_key(&named, &ava.value, &mut own);
                        key == own
                    };
                }
            }
            if !is_there {
                writer.value(ava.attribute, &ava.value);
            }
            if !ava.more_in_rdn {
                break;
            }
        }
        self.sorter.push(key, body)?;
        self.entries += 1;
        if self.entries.is_multiple_of(BAR_ENTRIES) {
            self.bar.inc(BAR_ENTRIES);
        }
        Ok(())
    }
}

/// What ldapsearch prints around entries: the number of the search, its result.
fn is_search_note(reason: &LdifReason) -> bool {
    matches!(reason, LdifReason::MissingDn(found)
        if ["search", "result"].iter().any(|note| note.eq_ignore_ascii_case(found)))
}

/// Entries in the order of their names.
pub(super) struct Side {
    name: String,
    pub(super) entries: u64,
    sorted: Sorted,
    /// A file must not hold an entry twice; a server may send one again that changed meanwhile.
    refuses_doubles: bool,
    is_double: bool,
}

impl Side {
    pub(super) const fn spilled_bytes(&self) -> u64 {
        self.sorted.spilled_bytes()
    }

    /// Whether some entry came twice.
    pub(super) const fn has_doubles(&self) -> bool {
        self.is_double
    }
}

/// Something that gives records in the order of their keys.
pub(super) trait Ordered {
    /// Puts the record behind the one in `into` there; false at the end.
    fn advance(&mut self, into: &mut Record) -> Result<bool, Failure>;
}

impl Ordered for Sorted {
    fn advance(&mut self, into: &mut Record) -> Result<bool, Failure> {
        self.next(into)
    }
}

impl Ordered for Side {
    fn advance(&mut self, into: &mut Record) -> Result<bool, Failure> {
        let last = std::mem::take(&mut into.key);
        while self.sorted.next(into)? {
            if into.key != last {
                return Ok(true);
            }
            if self.refuses_doubles {
                let dn = super::body::Body::read(&into.body)?.dn;
                return Err(Failure::local(format!(
                    "{} cannot be compared: it holds '{dn}' twice",
                    self.name
                )));
            }
            self.is_double = true;
        }
        Ok(false)
    }
}

/// The attributes that a search asks for.
pub(super) fn asked(has_operational: bool, identity: Option<&str>) -> Vec<&str> {
    let mut all = vec!["*", REFERRAL];
    all.extend(has_operational.then_some("+"));
    all.extend(identity.filter(|name| !name.eq_ignore_ascii_case(REFERRAL)));
    all
}

/// Entries that are asked for at a time.
const PAGE_ENTRIES: u32 = 1_000;
/// The bar moves by so many.
const BAR_ENTRIES: u64 = 1_000;
const BUFFER_BYTES: usize = 256 << 10;
