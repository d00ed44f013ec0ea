//! The bind rules of an ACI.

use std::sync::Arc;

use schema::{Assertion, Truth};

use super::error::{AciReason, PARENT_LEVELS};
use super::name::after_scheme;
use super::scan::{Fault, Part};
use super::{BIND_RULE_DEPTH_MAX, PARENT_LEVEL_MAX, Parser};
use crate::rule::network::{AddressRange, HostPattern};
use crate::rule::pattern::{Allowed, DnPattern, Macros};
use crate::rule::{
    AttributeName, Bind, Comparator, Condition, Connective, Method, Relation, Subject, Test,
    UserAttribute,
};

impl<'t> Parser<'t> {
    /// Reads operands with `and` and `or` between them.
    pub(super) fn bind_rule(&mut self, depth: u32) -> Result<Bind, Fault> {
        let first = self.operand(depth)?;
        let mut rules = vec![first];
        let mut connectives = Vec::new();
        while let Some(connective) = self.connective()? {
            connectives.push(connective);
            rules.push(self.operand(depth)?);
        }
        let Some(first) = connectives.first() else {
            return Ok(rules.pop().unwrap_or(Bind::Known(Truth::Undefined)));
        };
        if connectives.iter().any(|other| other != first) {
            return Ok(Bind::Mixed(rules, connectives));
        }
        Ok(match first {
            Connective::And => Bind::All(rules),
            Connective::Or => Bind::Any(rules),
        })
    }

    fn connective(&mut self) -> Result<Option<Connective>, Fault> {
        if self.scanner.is_at(";") || self.scanner.is_at(")") {
            return Ok(None);
        }
        let word = self.scanner.word();
        match word.text.to_ascii_lowercase().as_str() {
            "and" => Ok(Some(Connective::And)),
            "or" => Ok(Some(Connective::Or)),
            _ => Err(word.expected("'and', 'or' or ';' after a bind rule")),
        }
    }

    fn operand(&mut self, depth: u32) -> Result<Bind, Fault> {
        self.scanner.skip_spaces();
        if depth > BIND_RULE_DEPTH_MAX {
            return Err(self.scanner.fault(AciReason::TooDeep));
        }
        if self.scanner.eat("(") {
            let rule = self.bind_rule(depth + 1)?;
            self.scanner.expect(")", "')' after a bind rule")?;
            return Ok(rule);
        }
        let word = self.scanner.word();
        let keyword = word.text.to_ascii_lowercase();
        if keyword == "not" {
            return Ok(Bind::Not(Box::new(self.operand(depth + 1)?)));
        }
        self.condition(word, &keyword).map(|condition| Bind::Is(Arc::new(condition)))
    }

    fn condition(&mut self, word: Part<'t>, keyword: &str) -> Result<Condition, Fault> {
        let is = |negated: bool, test: Test| Condition { negated, test };
        Ok(match keyword {
            "userdn" => is(self.operator()?, Test::User(self.each(Self::subject)?)),
            "groupdn" => is(self.operator()?, Test::Group(self.each(Self::group)?)),
            "userattr" => {
                let negated = self.operator()?;
                let value = self.scanner.quoted()?.trim();
                is(negated, Test::Attribute(self.user_attribute(value)?))
            }
            "userdnattr" => {
                let negated = self.operator()?;
                is(negated, Test::Attribute(self.related(Relation::User)?))
            }
            "groupdnattr" => {
                let negated = self.operator()?;
                is(negated, Test::Attribute(self.related(Relation::Group)?))
            }
            "ip" => is(self.operator()?, Test::Address(self.each(Self::address)?.concat())),
            "dns" => is(self.operator()?, Test::Host(self.each(Self::host)?.concat())),
            "authmethod" => is(self.operator()?, Test::Method(self.each(Self::method)?)),
            "dayofweek" => {
                let negated = self.operator()?;
                let days = self.each(Self::day)?;
                is(negated, Test::Days(days.into_iter().fold(0, |all, day| all | day)))
            }
            "timeofday" => {
                let comparator = self.comparator()?;
                let value = self.scanner.quoted()?.trim();
                is(false, Test::Time(comparator, minute(value)?))
            }
            "ssf" => {
                let comparator = self.comparator()?;
                let value = self.scanner.quoted()?.trim();
                let is_number = value.text.bytes().all(|byte| byte.is_ascii_digit());
                let number = value.text.parse().ok().filter(|_| is_number);
                let number = number.ok_or_else(|| value.fault(AciReason::Value(SSF)))?;
                is(false, Test::Strength(comparator, number))
            }
            // Whoever is asked about a group knows what a role is.
            "roledn" => is(self.operator()?, Test::Group(self.each(Self::group)?)),
            "" => return Err(word.expected("a bind rule, such as userdn = \"ldap:///self\"")),
            _ => return Err(word.fault(AciReason::Keyword(word.text.to_owned()))),
        })
    }

    fn comparator(&mut self) -> Result<Comparator, Fault> {
        let found = Comparator::ALL.into_iter().find(|(_, name)| self.scanner.eat(name));
        let found = found.map(|(comparator, _)| comparator);
        found.ok_or_else(|| self.scanner.expected("'=', '!=', '<', '<=', '>' or '>='"))
    }

    /// Reads each value of a list.
    fn each<T>(
        &mut self,
        read: impl Fn(&mut Self, Part<'t>) -> Result<T, Fault>,
    ) -> Result<Vec<T>, Fault> {
        let mut values = Vec::new();
        for part in self.list(true)? {
            values.push(read(self, part)?);
        }
        Ok(values)
    }

    fn subject(&mut self, part: Part<'t>) -> Result<Subject, Fault> {
        let name = after_scheme(part)?;
        Ok(match name.text.to_ascii_lowercase().as_str() {
            "anyone" => Subject::Anyone,
            "all" => Subject::All,
            "self" => Subject::Oneself,
            "parent" => Subject::Parent,
            "" => return Err(name.expected("a name, 'anyone', 'all', 'self' or 'parent'")),
            text if text.contains('?') => Subject::Search(self.url(part)?),
            _ => {
                let allowed = Allowed { stars: true, macros: Macros::Subject };
                Subject::Name(self.pattern(part, allowed)?)
            }
        })
    }

    fn group(&mut self, part: Part<'t>) -> Result<DnPattern, Fault> {
        let name = after_scheme(part)?;
        if name.text.contains('?') {
            return Err(part.fault(AciReason::NotSupported(GROUP_URLS)));
        }
        self.pattern(part, Allowed { stars: false, macros: Macros::Subject })
    }

    /// Reads the attribute of an old keyword.
    fn related(&mut self, relation: Relation) -> Result<UserAttribute, Fault> {
        let value = self.scanner.quoted()?.trim();
        let (within, value) = self.groups_within(value, &relation)?;
        let (levels, name) = levels(value)?;
        Ok(UserAttribute { within, levels, attribute: self.attribute(name)?, relation })
    }

    /// Reads `ldap:///NAME?` before an attribute with groups, if it is there.
    fn groups_within(
        &mut self,
        part: Part<'t>,
        relation: &Relation,
    ) -> Result<(Option<DnPattern>, Part<'t>), Fault> {
        if after_scheme(part).is_err() {
            return Ok((None, part));
        }
        if *relation != Relation::Group {
            return Err(part.fault(AciReason::Value(ONLY_GROUPS_WITHIN)));
        }
        let (name, rest) = part.split_once("?").ok_or_else(|| part.expected(GROUPS_WITHIN))?;
        let allowed = Allowed { stars: false, macros: Macros::Subject };
        Ok((Some(self.pattern(name, allowed)?), rest))
    }

    fn user_attribute(&mut self, part: Part<'t>) -> Result<UserAttribute, Fault> {
        let (place, value) = part.split_once("#").ok_or_else(|| part.expected(USER_ATTRIBUTE))?;
        let is_of_groups =
            ["GROUPDN", "ROLEDN"].iter().any(|one| value.text.eq_ignore_ascii_case(one));
        let relation = if is_of_groups { Relation::Group } else { Relation::User };
        let (within, place) = self.groups_within(place, &relation)?;
        let (levels, name) = levels(place)?;
        let attribute = self.attribute(name.trim())?;
        let relation = match value.text.to_ascii_uppercase().as_str() {
            "USERDN" => Relation::User,
            "GROUPDN" | "ROLEDN" => Relation::Group,
            "LDAPURL" => Relation::Url,
            "SELFDN" => return Err(value.fault(AciReason::NotSupported(SELF_DN))),
            "" => return Err(value.expected("USERDN, GROUPDN, LDAPURL or a value after '#'")),
            _ => Relation::Value(value.text.to_owned(), self.assertion(&attribute, value)?),
        };
        Ok(UserAttribute { within, levels, attribute, relation })
    }

    fn assertion(
        &self,
        attribute: &AttributeName,
        value: Part<'_>,
    ) -> Result<Option<Assertion>, Fault> {
        let Some(description) = attribute.known() else { return Ok(None) };
        Assertion::equality(self.schema, Arc::clone(description), value.text.as_bytes())
            .map(Some)
            .map_err(|_| value.fault(AciReason::NotComparable(attribute.text().to_owned())))
    }

    fn address(&mut self, part: Part<'t>) -> Result<Vec<AddressRange>, Fault> {
        let mut ranges = Vec::new();
        for part in part.split(",") {
            self.count(part)?;
            let range = AddressRange::parse(part.text);
            ranges.push(range.map_err(|wrong| part.fault(AciReason::Value(wrong)))?);
        }
        Ok(ranges)
    }

    fn host(&mut self, part: Part<'t>) -> Result<Vec<HostPattern>, Fault> {
        let mut hosts = Vec::new();
        for part in part.split(",") {
            self.count(part)?;
            let host = HostPattern::parse(part.text);
            hosts.push(host.ok_or_else(|| part.fault(AciReason::Value(HOSTS)))?);
        }
        Ok(hosts)
    }

    fn method(&mut self, part: Part<'t>) -> Result<Method, Fault> {
        self.count(part)?;
        let lower = part.text.to_ascii_lowercase();
        match lower.as_str() {
            "none" => return Ok(Method::Any),
            "simple" => return Ok(Method::Simple),
            "ssl" => return Ok(Method::Certificate),
            _ => {}
        }
        let mechanism = lower.strip_prefix("sasl").map(str::trim_start).unwrap_or_default();
        let is_mechanism = !mechanism.is_empty()
            && mechanism.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        if !is_mechanism {
            return Err(part.fault(AciReason::Value(METHODS)));
        }
        Ok(Method::Sasl(mechanism.to_ascii_uppercase()))
    }

    fn day(&mut self, part: Part<'t>) -> Result<u8, Fault> {
        let mut days = 0;
        for part in part.split(",") {
            self.count(part)?;
            let found = DAYS.iter().position(|day| day.eq_ignore_ascii_case(part.text));
            let position = found.ok_or_else(|| part.fault(AciReason::Value(DAY_NAMES)))?;
            days |= 1 << position;
        }
        Ok(days)
    }
}

/// Reads `parent[0,1].`, if it is there.
fn levels(part: Part<'_>) -> Result<(Vec<u8>, Part<'_>), Fault> {
    let Some(rest) = part.strip_prefix("parent[") else { return Ok((vec![0], part)) };
    let fault = || rest.fault(PARENT_LEVELS);
    let (list, rest) = rest.split_once("].").ok_or_else(fault)?;
    let mut levels = Vec::new();
    for level in list.split(",") {
        let level: u8 = level.text.parse().map_err(|_| level.fault(PARENT_LEVELS))?;
        if level > PARENT_LEVEL_MAX {
            return Err(fault());
        }
        levels.push(level);
    }
    levels.sort_unstable();
    levels.dedup();
    Ok((levels, rest))
}

/// Reads hours and minutes, `0000` to `2400`.
fn minute(part: Part<'_>) -> Result<u16, Fault> {
    let is_time = part.text.len() == 4 && part.text.bytes().all(|byte| byte.is_ascii_digit());
    let number: u16 = part.text.parse().ok().filter(|_| is_time).unwrap_or(u16::MAX);
    let (hours, minutes) = (number / 100, number % 100);
    if minutes > 59 || hours > 24 || number > 2400 {
        return Err(part.fault(AciReason::Value(TIMES)));
    }
    Ok(hours * 60 + minutes)
}

/// The days of the week, as [`Test::Days`] numbers them.
pub(super) const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const SSF: &str = "the strength must be a number, such as \"128\"";
const TIMES: &str = "the time must be hours and minutes, \"0000\" to \"2400\"";
const DAY_NAMES: &str = "days are sun, mon, tue, wed, thu, fri and sat";
const METHODS: &str = "methods are none, simple, ssl, and sasl with a mechanism: \"sasl EXTERNAL\"";
const HOSTS: &str = "hosts are names, with a star for what is before a dot: \"*.example.com\"";
const SELF_DN: &str = "SELFDN is not supported: use USERDN, or the right selfwrite";
const GROUP_URLS: &str = "groupdn takes names of groups, no searches";
const GROUPS_WITHIN: &str = "'?' and an attribute after the name that groups are within";
const ONLY_GROUPS_WITHIN: &str = "a URL can stand before an attribute with GROUPDN only";
const USER_ATTRIBUTE: &str = "an attribute, '#', and USERDN, GROUPDN, LDAPURL or a value";
