//! The targets of an ACI.

use std::sync::Arc;

use ldap::description::is_numeric_oid;
use ldap::filter::Filter;
use schema::{AttributeDescription, ResolvedFilter, Schema};

use super::Parser;
use super::error::AciReason;
use super::scan::{Fault, Part};
use crate::rule::pattern::{Allowed, Macros};
use crate::rule::template;
use crate::rule::{
    AttributeList, EntryTargets, FilterTarget, FilterText, NameTarget, OidList, RequestTargets,
    TargetScope, Targets, ValueFilter, ValueFilters,
};

/// What was read of the targets.
#[derive(Default)]
struct Read<'t> {
    entries: EntryTargets,
    requests: RequestTargets,
    /// The keywords.
    seen: Vec<Part<'t>>,
}

impl<'t> Parser<'t> {
    /// Reads all targets, and `(version`.
    pub(super) fn targets(&mut self) -> Result<Targets, Fault> {
        let mut read = Read::default();
        loop {
            self.scanner.expect("(", "'(' and a target or 'version 3.0'")?;
            let word = self.scanner.word();
            let keyword = word.text.to_ascii_lowercase();
            if keyword == "version" {
                break;
            }
            if read.seen.iter().any(|seen| seen.text.eq_ignore_ascii_case(&keyword)) {
                return Err(word.fault(AciReason::TargetTwice(keyword)));
            }
            if read.seen.first().is_some_and(|first| is_of_requests(first) != is_of_requests(&word))
            {
                return Err(word.fault(AciReason::MixedTargets));
            }
            self.target(word, &keyword, &mut read)?;
            self.scanner.expect(")", "')' after a target")?;
            read.seen.push(word);
        }
        let Read { entries, requests, seen } = read;
        Ok(if seen.first().is_some_and(is_of_requests) {
            Targets::Requests(requests)
        } else {
            Targets::Entries(Box::new(entries))
        })
    }

    fn target(&mut self, word: Part<'t>, keyword: &str, read: &mut Read<'t>) -> Result<(), Fault> {
        let Read { entries, requests, .. } = read;
        match keyword {
            "target" => {
                let negated = self.operator()?;
                let name = self.one_value()?;
                let macros = if negated { Macros::None } else { Macros::Target };
                let pattern = self.pattern(name, Allowed { stars: true, macros })?;
                entries.name = Some(NameTarget { negated, pattern });
            }
            "targetattr" => {
                let negated = self.operator()?;
                entries.attributes = Some(self.attributes(negated)?);
            }
            "targetfilter" => {
                let negated = self.operator()?;
                let text = self.one_value()?;
                entries.filter = Some(self.filter_target(negated, text)?);
            }
            "targattrfilters" | "targetattrfilters" => {
                self.equal_sign()?;
                let text = self.one_value()?;
                entries.values = Some(self.value_filters(text)?);
            }
            "targetscope" => {
                self.equal_sign()?;
                let text = self.one_value()?;
                let found = TargetScope::ALL
                    .into_iter()
                    .find(|(_, name)| name.eq_ignore_ascii_case(text.text));
                let (scope, _) = found.ok_or_else(|| text.fault(AciReason::Value(SCOPES)))?;
                entries.scope = scope;
            }
            "targetcontrol" => {
                let negated = self.operator()?;
                requests.controls = Some(self.oids(negated)?);
            }
            "extop" => {
                let negated = self.operator()?;
                requests.operations = Some(self.oids(negated)?);
            }
            "target_to" | "target_from" => {
                return Err(word.fault(AciReason::NotSupported(TARGET_TO)));
            }
            "" => return Err(word.expected("a target or 'version 3.0'")),
            _ => return Err(word.fault(AciReason::Target(word.text.to_owned()))),
        }
        Ok(())
    }

    /// Reads a filter, which may have `($dn)` or `[$dn]` in it.
    fn filter_target(&mut self, negated: bool, part: Part<'t>) -> Result<FilterTarget, Fault> {
        let has_macro = template::has_macro(part.text);
        if !has_macro {
            return Ok(FilterTarget { negated, filter: self.filter(part)?, has_macro });
        }
        self.count(part)?;
        // Whatever is put in, the form stays the same.
        if template::instance(part.text, SAMPLE, self.schema).is_none() {
            return Err(part.fault(AciReason::Value(FILTER_MACROS)));
        }
        if let Ok(filter) = Filter::parse(&template::filled(part.text, SAMPLE)) {
            self.note_unknown_in(&filter);
        }
        let filter = FilterText { text: part.text.to_owned(), filter: ResolvedFilter::Undefined };
        Ok(FilterTarget { negated, filter, has_macro })
    }

    /// Reads `=` or `!=`; true if it negates.
    pub(super) fn operator(&mut self) -> Result<bool, Fault> {
        if self.scanner.eat("!=") {
            return Ok(true);
        }
        self.scanner.expect("=", "'=' or '!='")?;
        Ok(false)
    }

    fn equal_sign(&mut self) -> Result<(), Fault> {
        self.scanner.expect("=", "'='")
    }

    /// Reads one value in quotes, or up to the end of the target.
    fn one_value(&mut self) -> Result<Part<'t>, Fault> {
        if self.scanner.is_at("\"") {
            return self.scanner.quoted().map(Part::trim);
        }
        self.scanner.before_close()
    }

    /// Reads a list with two bars, inside the quotes or between them, or without quotes.
    pub(super) fn list(&mut self, needs_quotes: bool) -> Result<Vec<Part<'t>>, Fault> {
        if !needs_quotes && !self.scanner.is_at("\"") {
            return Ok(self.scanner.before_close()?.split("||").collect());
        }
        let mut parts = Vec::new();
        loop {
            parts.extend(self.scanner.quoted()?.split("||"));
            if !self.scanner.eat("||") {
                return Ok(parts);
            }
        }
    }

    fn attributes(&mut self, negated: bool) -> Result<AttributeList, Fault> {
        let mut list = AttributeList { negated, ..AttributeList::default() };
        for part in self.list(false)? {
            match part.text {
                "*" => list.user = true,
                "+" => list.operational = true,
                "" => return Err(part.expected("an attribute, '*' or '+'")),
                word if word.eq_ignore_ascii_case(SECRET) => {
                    self.count(part)?;
                    list.secret = Some(secrets(self.schema));
                }
                _ => {
                    let name = self.attribute(part)?;
                    if !list.names.contains(&name) {
                        list.names.push(name);
                    }
                }
            }
        }
        Ok(list)
    }

    fn oids(&mut self, negated: bool) -> Result<OidList, Fault> {
        let mut list = OidList { negated, all: false, oids: Vec::new() };
        for part in self.list(false)? {
            self.count(part)?;
            match part.text {
                "*" => list.all = true,
                oid if is_numeric_oid(oid) => list.oids.push(oid.to_owned()),
                _ => return Err(part.fault(AciReason::Value(OIDS))),
            }
        }
        Ok(list)
    }

    /// Reads `add=attribute:filter && attribute:filter, del=…`.
    fn value_filters(&mut self, part: Part<'t>) -> Result<ValueFilters, Fault> {
        let mut filters = ValueFilters::default();
        let mut rest = part;
        loop {
            let (word, after) =
                rest.split_once("=").ok_or_else(|| rest.expected("'add=' or 'del='"))?;
            let word = word.trim();
            let list = match word.text.to_ascii_lowercase().as_str() {
                "add" => &mut filters.add,
                "del" | "delete" => &mut filters.delete,
                _ => return Err(word.expected("'add=' or 'del='")),
            };
            if list.is_some() {
                return Err(word.fault(AciReason::TargetTwice(word.text.to_ascii_lowercase())));
            }
            let read = list.insert(Vec::new());
            rest = after;
            loop {
                let (filter, after) = self.value_filter(rest)?;
                read.push(filter);
                rest = after;
                match rest.strip_prefix("&&") {
                    Some(after) => rest = after,
                    None => break,
                }
            }
            match rest.text.bytes().next() {
                None => return Ok(filters),
                Some(b',' | b';') => rest = rest.from(1).trim(),
                Some(_) => return Err(rest.expected("'&&', ',' or the end of the value")),
            }
        }
    }

    /// Reads `attribute:filter`, and returns what follows it.
    fn value_filter(&mut self, part: Part<'t>) -> Result<(ValueFilter, Part<'t>), Fault> {
        let (name, after) =
            part.split_once(":").ok_or_else(|| part.trim().expected("an attribute and ':'"))?;
        let attribute = self.attribute(name.trim())?;
        let after = after.trim();
        let mut depth = 0_usize;
        for (position, byte) in after.text.bytes().enumerate() {
            match byte {
                b'(' => depth += 1,
                b')' if depth == 1 => {
                    let filter = self.filter(after.to(position + 1))?;
                    let rest = after.from(position + 1).trim();
                    return Ok((ValueFilter { attribute, filter }, rest));
                }
                b')' if depth > 1 => depth -= 1,
                _ if depth == 0 => break,
                _ => {}
            }
        }
        Err(after.expected("a filter in parentheses"))
    }
}

/// Every type that is secret.
fn secrets(schema: &Schema) -> Vec<Arc<AttributeDescription>> {
    let kinds = schema.attribute_types().filter(|kind| kind.is_secret());
    kinds.filter_map(|kind| schema.plain_description(&kind.oid)).cloned().collect()
}

/// Whether a target is about controls and extended operations.
fn is_of_requests(keyword: &Part<'_>) -> bool {
    ["targetcontrol", "extop"].iter().any(|own| keyword.text.eq_ignore_ascii_case(own))
}

/// Stands for all attributes that the schema knows to be secret.
pub(super) const SECRET: &str = "#secret";
const SAMPLE: &str = "dc=x";
const FILTER_MACROS: &str = "the filter is wrong where '($dn)' or '[$dn]' are replaced by a name";
const SCOPES: &str = "the scope must be base, onelevel, subtree or subordinate";
const OIDS: &str = "controls and extended operations are given by OIDs, or as '*'";
const TARGET_TO: &str = "'target_to' and 'target_from' are not supported: use the right 'export' \
                         on what is moved and 'import' where it goes";
