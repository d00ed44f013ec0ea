//! Decisions made the plain way: every ACI is asked whole for every question, and nothing is
//! prepared, remembered or left out. What `decide` answers must be the same.

use schema::{AttributeDescription, AttributeType, DnKey, Entry, EntryRead, Truth};

use super::{AccessSubject, AuthenticationMethod, Question, ValueChange};
use crate::rule::pattern::{OneValue, Source, exact_key, matches_name};
use crate::rule::{
    Aci, AttributeList, Bind, Condition, Connective, EntryTargets, Method, Relation, Right,
    Subject, TargetScope, Targets, Test, UserAttribute, ValueFilter,
};
use schema::Schema;

/// Everything that a question is about.
pub(super) struct Naive<'n> {
    pub(super) holders: &'n [(DnKey, Vec<std::sync::Arc<Aci>>)],
    pub(super) asker: &'n AccessSubject<'n>,
    pub(super) schema: &'n Schema,
    pub(super) entry: &'n Entry,
}

fn truth(holds: bool) -> Truth {
    if holds { Truth::True } else { Truth::False }
}

impl Naive<'_> {
    fn key(&self) -> DnKey {
        DnKey::from_text(self.schema, self.entry.dn()).unwrap()
    }

    pub(super) fn decide(&self, question: &Question<'_>) -> bool {
        match *question {
            Question::Entry(right) if right.is_of_attributes() => self.any_attribute(right),
            _ => self.by(&|aci, holder, number| self.applies(aci, holder, number, question)),
        }
    }

    /// Deny wins, else an allow is needed.
    fn by(&self, applies: &dyn Fn(&Aci, &DnKey, usize) -> Truth) -> bool {
        let (mut allowed, mut denied) = (false, false);
        for (holder, acis) in self.holders {
            if !self.key().is_within(holder) {
                continue;
            }
            for aci in acis {
                for (number, statement) in aci.statements.iter().enumerate() {
                    let applies = applies(aci, holder, number);
                    allowed |= statement.allows && applies == Truth::True;
                    denied |= !statement.allows && applies != Truth::False;
                }
            }
        }
        allowed && !denied
    }

    /// A right to the entry without attributes, or to any attribute there is.
    fn any_attribute(&self, right: Right) -> bool {
        let is_bare = |aci: &Aci, allows: bool| {
            aci.targets.entries().is_some_and(|targets| match &targets.attributes {
                _ if targets.values.is_some() => false,
                None => true,
                Some(list) => !allows && !list.negated && list.user && list.operational,
            })
        };
        let bare = |aci: &Aci, holder: &DnKey, number: usize| {
            let statement = &aci.statements[number];
            if is_bare(aci, statement.allows) && statement.rights.has(right) {
                self.condition(aci, holder, number, false)
            } else {
                Truth::False
            }
        };
        let denied = |aci: &Aci, holder: &DnKey, number: usize| {
            let allows = aci.statements[number].allows;
            if allows { Truth::True } else { bare(aci, holder, number) }
        };
        let has_allow = self.holders.iter().any(|(holder, acis)| {
            let allows = |aci: &std::sync::Arc<Aci>| aci.statements.iter().any(|one| one.allows);
            self.key().is_within(holder) && acis.iter().any(allows)
        });
        if has_allow && !self.by(&denied) {
            return false;
        }
        self.by(&bare)
            || self.schema.attribute_types().any(|kind| {
                let plain = self.schema.plain_description(&kind.oid).unwrap();
                self.decide(&Question::Attribute(right, plain))
            })
    }

    fn applies(&self, aci: &Aci, holder: &DnKey, number: usize, question: &Question<'_>) -> Truth {
        let statement = &aci.statements[number];
        let rights = statement.rights;
        let targets = match (&aci.targets, question) {
            (Targets::Requests(targets), Question::Control(oid)) => {
                let is_about = targets.controls.as_ref().is_some_and(|list| list.covers(oid));
                return truth(is_about && rights.has(Right::Read)).and(self.rule(
                    &statement.rule,
                    aci,
                    false,
                ));
            }
            (Targets::Requests(targets), Question::Operation(oid)) => {
                let is_about = targets.operations.as_ref().is_some_and(|list| list.covers(oid));
                return truth(is_about && rights.has(Right::Read)).and(self.rule(
                    &statement.rule,
                    aci,
                    false,
                ));
            }
            (Targets::Requests(_), _) => return Truth::False,
            (Targets::Entries(_), Question::Control(_) | Question::Operation(_)) => {
                return Truth::False;
            }
            (Targets::Entries(targets), _) => targets,
        };
        let about = match *question {
            Question::Attribute(right, attribute) => {
                truth(rights.has(right) && names(targets, attribute, statement.allows))
            }
            Question::Entry(right) => truth(rights.has(right)).and(match right {
                Right::Add => {
                    self.values(targets, |values| values.add.as_deref(), statement.allows)
                }
                Right::Delete => {
                    self.values(targets, |values| values.delete.as_deref(), statement.allows)
                }
                _ => Truth::True,
            }),
            Question::Value(change, attribute, value) => {
                let own = DnKey::from_text(self.schema, std::str::from_utf8(value).unwrap()).ok();
                let is_own = attribute.kind.syntax.name == "DN"
                    && own.is_some()
                    && own.as_ref() == self.asker.identity;
                let has = rights.has(Right::Write) || (is_own && rights.has(Right::SelfWrite));
                truth(has).and(self.value(targets, change, attribute, value, statement.allows))
            }
            Question::Control(_) | Question::Operation(_) => Truth::False,
        };
        let adding = matches!(question, Question::Entry(Right::Add));
        about.and(self.condition(aci, holder, number, adding))
    }

    fn value(
        &self,
        targets: &EntryTargets,
        change: ValueChange,
        attribute: &AttributeDescription,
        value: &[u8],
        allows: bool,
    ) -> Truth {
        let list = targets.values.as_ref().and_then(|values| match change {
            ValueChange::Add => values.add.as_ref(),
            ValueChange::Delete => values.delete.as_ref(),
        });
        let Some(list) = list else { return truth(names(targets, attribute, allows)) };
        let (mut is_named, mut all, mut any) = (false, Truth::True, Truth::False);
        for one in list {
            let Some(name) = one.attribute.known() else { continue };
            if name.covers(attribute) {
                let value = OneValue { description: attribute, value };
                let matches = one.filter.filter.matches(self.schema, &value);
                is_named |= name.kind.oid == attribute.kind.oid;
                (all, any) = (all.and(matches), any.or(matches));
            }
        }
        if allows { truth(is_named).and(all) } else { any }
    }

    fn values<'t>(
        &self,
        targets: &'t EntryTargets,
        list: impl Fn(&'t crate::rule::ValueFilters) -> Option<&'t [ValueFilter]>,
        allows: bool,
    ) -> Truth {
        let Some(list) = targets.values.as_ref().and_then(list) else { return Truth::True };
        let mut truths = Vec::new();
        for one in list {
            let Some(name) = one.attribute.known() else { continue };
            for attribute in self.entry.attributes() {
                if name.covers(&attribute.description) {
                    for value in &attribute.values {
                        let value = OneValue { description: &attribute.description, value };
                        truths.push(one.filter.filter.matches(self.schema, &value));
                    }
                }
            }
        }
        if allows {
            truths.into_iter().fold(Truth::True, Truth::and)
        } else {
            truths.into_iter().fold(Truth::False, Truth::or)
        }
    }

    /// Targets but attributes, and the rule.
    fn condition(&self, aci: &Aci, holder: &DnKey, number: usize, adding: bool) -> Truth {
        let Some(targets) = aci.targets.entries() else { return Truth::False };
        let key = self.key();
        let in_scope = |base: &DnKey| match targets.scope {
            TargetScope::Base => key == *base,
            TargetScope::OneLevel => key.parent().as_ref() == Some(base),
            TargetScope::Subtree => key.is_within(base),
            TargetScope::Subordinate => key != *base && key.is_within(base),
        };
        let above = |key: &DnKey| {
            std::iter::successors(Some(key.clone()), DnKey::parent).collect::<Vec<DnKey>>()
        };
        let is_outside = aci.is_outside(holder);
        if is_outside && aci.statements[number].allows {
            return Truth::False;
        }
        let name = match &targets.name {
            _ if is_outside => truth(key.is_within(holder)),
            None => truth(in_scope(holder)),
            Some(name) if !name.negated => above(&key)
                .iter()
                .filter(|base| in_scope(base))
                .filter(|base| name.pattern.exact().is_none() || base.is_within(holder))
                .fold(Truth::False, |found, base| {
                    found.or(name.pattern.matches(base, self.schema))
                }),
            Some(name) => truth(in_scope(holder)).and(
                !above(&key).iter().fold(Truth::False, |found, base| {
                    found.or(name.pattern.matches(base, self.schema))
                }),
            ),
        };
        let filter = match &targets.filter {
            None => Truth::True,
            Some(own) => {
                let matches = own.filter.filter.matches(self.schema, self.entry);
                if own.negated { !matches } else { matches }
            }
        };
        name.and(filter).and(self.rule(&aci.statements[number].rule, aci, adding))
    }

    fn rule(&self, rule: &Bind, aci: &Aci, adding: bool) -> Truth {
        match self.asker.identity {
            None => self.truth_of(&for_strangers(rule, 0), aci, adding),
            Some(_) => self.truth_of(rule, aci, adding),
        }
    }

    fn truth_of(&self, rule: &Bind, aci: &Aci, adding: bool) -> Truth {
        let each = |rule: &Bind| self.truth_of(rule, aci, adding);
        match rule {
            Bind::Known(truth) => *truth,
            Bind::Is(condition) => self.holds(condition, aci, adding),
            Bind::Not(rule) => !each(rule),
            Bind::All(rules) => rules.iter().map(each).fold(Truth::True, Truth::and),
            Bind::Any(rules) => rules.iter().map(each).fold(Truth::False, Truth::or),
            Bind::Mixed(rules, connectives) => {
                let truths: Vec<Truth> = rules.iter().map(each).collect();
                let (left, right) = (left(&truths, connectives), right(&truths, connectives));
                if left == right { left } else { Truth::Undefined }
            }
        }
    }

    fn holds(&self, condition: &Condition, aci: &Aci, adding: bool) -> Truth {
        let AccessSubject { identity, address, ssf, method, surroundings } = *self.asker;
        let any = |truths: &mut dyn Iterator<Item = Truth>| truths.fold(Truth::False, Truth::or);
        let found = match &condition.test {
            Test::User(subjects) => {
                any(&mut subjects.iter().map(|subject| self.is_subject(subject, aci)))
            }
            Test::Group(groups) => any(&mut groups.iter().map(|group| match identity {
                None => Truth::False,
                Some(who) => match group.exact() {
                    Some(group) => surroundings.is_member(group, who),
                    None => self.instances(group, aci, &|rdns| {
                        surroundings.is_member(&exact_key(rdns).unwrap(), who)
                    }),
                },
            })),
            Test::Attribute(attribute) => match identity {
                None => Truth::False,
                Some(who) => self.is_related(attribute, who, aci, adding),
            },
            Test::Address(ranges) => {
                truth(address.is_some_and(|own| ranges.iter().any(|range| range.holds(own))))
            }
            Test::Host(hosts) => surroundings
                .host_name()
                .map_or(Truth::Undefined, |own| truth(hosts.iter().any(|host| host.holds(&own)))),
            Test::Time(comparator, minute) => surroundings.time().map_or(Truth::Undefined, |now| {
                truth(comparator.holds(u32::from(now.minute), u32::from(*minute)))
            }),
            Test::Days(days) => surroundings
                .time()
                .map_or(Truth::Undefined, |now| truth(days & (1 << now.day) != 0)),
            Test::Method(methods) => any(&mut methods.iter().map(|own| {
                truth(match (own, method) {
                    (Method::Any, _)
                    | (Method::Simple, AuthenticationMethod::Simple)
                    | (Method::Certificate, AuthenticationMethod::Certificate) => true,
                    (Method::Sasl(own), AuthenticationMethod::Certificate) => own == "EXTERNAL",
                    (Method::Sasl(own), AuthenticationMethod::Sasl(used)) => own == used,
                    _ => false,
                })
            })),
            Test::Strength(comparator, own) => truth(comparator.holds(ssf, *own)),
        };
        if condition.negated { !found } else { found }
    }

    fn is_subject(&self, subject: &Subject, aci: &Aci) -> Truth {
        let key = self.key();
        match (subject, self.asker.identity) {
            (Subject::Anyone, _) => Truth::True,
            (_, None) => Truth::False,
            (Subject::All, Some(_)) => Truth::True,
            (Subject::Oneself, Some(who)) => truth(key == *who),
            (Subject::Parent, Some(who)) => truth(key.parent().as_ref() == Some(who)),
            (Subject::Name(pattern), Some(who)) if pattern.has_macro() => {
                self.instances(pattern, aci, &|rdns| truth(matches_name(rdns, who, self.schema)))
            }
            (Subject::Name(pattern), Some(who)) => pattern.matches(who, self.schema),
            (Subject::Search(url), Some(who)) => {
                use ldap::message::Scope;
                let in_scope = match url.scope {
                    Scope::Base => *who == url.base,
                    Scope::One => who.parent().as_ref() == Some(&url.base),
                    Scope::Subtree => who.is_within(&url.base),
                    Scope::Subordinate => *who != url.base && who.is_within(&url.base),
                };
                truth(in_scope).and(url.filter.as_ref().map_or(Truth::True, |filter| {
                    self.of(who, &|entry| filter.matches(self.schema, entry))
                }))
            }
        }
    }

    fn instances(
        &self,
        pattern: &crate::rule::pattern::DnPattern,
        aci: &Aci,
        holds: &dyn Fn(&[crate::rule::pattern::RdnPattern]) -> Truth,
    ) -> Truth {
        let key = self.key();
        let name = aci.targets.entries().and_then(|targets| targets.name.as_ref());
        let part = name.and_then(|name| name.pattern.part(&key, self.schema));
        if pattern.needs_part() && part.is_none() {
            return Truth::Undefined;
        }
        let mut found = Truth::False;
        let source = Source { part: part.as_ref(), entry: self.entry };
        let all = pattern.instances(&source, self.schema, &mut |rdns| {
            found = found.or(holds(rdns));
            true
        });
        if all { found } else { found.or(Truth::Undefined) }
    }

    fn of(&self, name: &DnKey, holds: &dyn Fn(&dyn EntryRead) -> Truth) -> Truth {
        let mut found = Truth::False;
        let visited = self.asker.surroundings.visit_entry(name, &mut |entry| found = holds(entry));
        if visited == Truth::Undefined { Truth::Undefined } else { found }
    }

    fn is_related(&self, attribute: &UserAttribute, who: &DnKey, aci: &Aci, adding: bool) -> Truth {
        let counts = |group: &DnKey| match &attribute.within {
            None => Truth::True,
            Some(within) => match within.exact() {
                Some(within) => truth(group.is_within(within)),
                None => self.instances(within, aci, &|rdns| {
                    exact_key(rdns).map_or(Truth::Undefined, |key| truth(group.is_within(&key)))
                }),
            },
        };
        let Some(name) = attribute.attribute.known() else { return Truth::Undefined };
        let of_entry = |entry: &dyn EntryRead| {
            let mut values: Vec<Vec<u8>> = Vec::new();
            entry.visit_values(name, &mut |_, value| {
                values.push(value.to_vec());
                true
            });
            let key = |value: &[u8]| {
                DnKey::from_text(self.schema, std::str::from_utf8(value).unwrap_or("?")).ok()
            };
            let of_value = |value: &Vec<u8>| match &attribute.relation {
                Relation::User => key(value).map_or(Truth::Undefined, |key| truth(key == *who)),
                Relation::Group => key(value).map_or(Truth::Undefined, |group| {
                    counts(&group).and(self.asker.surroundings.is_member(&group, who))
                }),
                Relation::Url => {
                    let text = String::from_utf8(value.clone()).unwrap();
                    let url = ldap::url::LdapUrl::parse(&text).ok();
                    match url.and_then(|url| crate::text::resolve_url(&url, self.schema)) {
                        None => Truth::Undefined,
                        Some(url) => {
                            let nobody = Aci::unreadable("");
                            self.is_subject(&Subject::Search(url), &nobody)
                        }
                    }
                }
                Relation::Value(text, _) => {
                    let folded = String::from_utf8_lossy(value).to_ascii_lowercase();
                    let own = truth(folded == text.to_ascii_lowercase());
                    own.and(self.of(who, &|entry| {
                        let mut found = Truth::False;
                        entry.visit_values(name, &mut |_, value| {
                            let folded = String::from_utf8_lossy(value).to_ascii_lowercase();
                            found = found.or(truth(folded == text.to_ascii_lowercase()));
                            true
                        });
                        found
                    }))
                }
            };
            values.iter().map(of_value).fold(Truth::False, Truth::or)
        };
        let mut found = Truth::False;
        for &level in &attribute.levels {
            let mut key = Some(self.key());
            for _ in 0..level {
                key = key.and_then(|key| key.parent());
            }
            let own = match key {
                _ if level == 0 => of_entry(self.entry),
                None => Truth::False,
                Some(key) => self.of(&key, &of_entry),
            };
            let counts_less = level == 0 && adding && own == Truth::True;
            found = found.or(if counts_less { Truth::Undefined } else { own });
        }
        found
    }
}

/// The rule as it is for those who are not signed in: what a `!=` or a `not` says of people is not
/// known, unless it is about anybody at all.
fn for_strangers(rule: &Bind, nots: usize) -> Bind {
    let all = |rules: &[Bind]| rules.iter().map(|one| for_strangers(one, nots)).collect();
    match rule {
        Bind::Known(truth) => Bind::Known(*truth),
        Bind::Not(rule) => Bind::Not(Box::new(for_strangers(rule, nots + 1))),
        Bind::All(rules) => Bind::All(all(rules)),
        Bind::Any(rules) => Bind::Any(all(rules)),
        Bind::Mixed(rules, connectives) => Bind::Mixed(all(rules), connectives.clone()),
        Bind::Is(condition) => {
            let is_of_some = match &condition.test {
                Test::User(subjects) => !subjects.contains(&Subject::Anyone),
                Test::Method(methods) => !methods.contains(&Method::Any),
                Test::Group(_) | Test::Attribute(_) => true,
                _ => false,
            };
            let is_negation = usize::from(condition.negated) + nots > 0;
            if is_of_some && is_negation { Bind::Known(Truth::Undefined) } else { rule.clone() }
        }
    }
}

fn join(connective: Connective, one: Truth, other: Truth) -> Truth {
    match connective {
        Connective::And => one.and(other),
        Connective::Or => one.or(other),
    }
}

fn left(truths: &[Truth], connectives: &[Connective]) -> Truth {
    match (truths, connectives) {
        ([before @ .., last], [most @ .., connective]) => {
            join(*connective, left(before, most), *last)
        }
        (truths, _) => truths[0],
    }
}

fn right(truths: &[Truth], connectives: &[Connective]) -> Truth {
    match (truths, connectives) {
        ([first, after @ ..], [connective, most @ ..]) => {
            join(*connective, *first, right(after, most))
        }
        (truths, _) => truths[0],
    }
}

/// Whether a `targetattr` is about an attribute: the rules as the reference page says them.
fn names(targets: &EntryTargets, asked: &AttributeDescription, allows: bool) -> bool {
    let Some(list) = &targets.attributes else { return false };
    let AttributeList { negated, user, operational, names, secret } = list;
    // An option that ends in a hyphen is a range of languages (RFC 3866 §3.2).
    let has = |option: &String| {
        let is_of_range = |range: &str, had: &String| format!("{had}-").starts_with(range);
        match option.ends_with('-') {
            true => asked.options().iter().any(|had| is_of_range(option, had)),
            false => asked.options().contains(option),
        }
    };
    let is_exactly = |name: &AttributeDescription| {
        name.kind.oid == asked.kind.oid && name.options().iter().all(has)
    };
    let is_derived = |name: &AttributeDescription| {
        let mut above: Option<&AttributeType> = Some(&asked.kind);
        let mut found = false;
        while let Some(kind) = above {
            found |= kind.oid == name.kind.oid;
            above = kind.superior.as_deref();
        }
        found && name.options().iter().all(has)
    };
    let is_operational = asked.is_operational();
    let star = if is_operational { *operational } else { *user };
    let known = || names.iter().filter_map(|name| name.known());
    if !*negated {
        let is_secret = secret.is_some() && asked.kind.is_secret();
        let is_named = known().any(|name| is_exactly(name) || (!allows && is_derived(name)));
        return star || is_secret || is_named;
    }
    let is_same_kind = |name: &crate::rule::AttributeName| {
        name.known().map_or(!is_operational, |name| name.is_operational() == is_operational)
    };
    let excepted = (secret.is_some() && asked.kind.is_secret())
        || known().any(|name| is_exactly(name) || (allows && is_derived(name)));
    !star && (secret.is_some() || names.iter().any(is_same_kind)) && !excepted
}
