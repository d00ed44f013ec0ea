//! Bind rules: what they say of an asker, and of an asker and an entry.

use ldap::message::Scope;
use ldap::url::LdapUrl;
use schema::{
    AttributeDescription, DnKey, EntryRead, ResolvedFilter, Schema, Truth, ValueKey, WithoutSecrets,
};

use super::target::Target;
use super::{AccessSubject, AuthenticationMethod, truth};
use crate::rule::pattern::{self, DnPattern, Source};
use crate::rule::{
    Bind, Condition, Connective, Method, Relation, Subject, Test, Url, UserAttribute,
};
use crate::set::Link;
use crate::text;

/// What a rule is asked about.
pub(super) struct RuleQuestion<'q> {
    pub(super) target: &'q Target<'q>,
    pub(super) link: &'q Link,
    /// The entry is not there yet: what it says of itself gives no right to add it.
    pub(super) adding: bool,
}

/// Who asks a rule, or a part of one.
#[derive(Clone, Copy)]
struct Inquiry<'q> {
    asker: &'q AccessSubject<'q>,
    schema: &'q Schema,
    /// The part stands within a `not`.
    within_not: bool,
}

impl Inquiry<'_> {
    fn within_not(self) -> Self {
        Self { within_not: true, ..self }
    }
}

/// What is left of a rule when all is known but the entry.
pub(super) fn reduce(rule: &Bind, asker: &AccessSubject<'_>, schema: &Schema) -> Bind {
    reduce_part(rule, Inquiry { asker, schema, within_not: false })
}

fn reduce_part(rule: &Bind, inquiry: Inquiry<'_>) -> Bind {
    match rule {
        Bind::Known(truth) => Bind::Known(*truth),
        Bind::Is(condition) => match holds(condition, inquiry, None) {
            Some(truth) => Bind::Known(truth),
            None => rule.clone(),
        },
        Bind::Not(rule) => match reduce_part(rule, inquiry.within_not()) {
            Bind::Known(truth) => Bind::Known(!truth),
            rule => Bind::Not(Box::new(rule)),
        },
        Bind::All(rules) => reduce_chain(rules, Connective::And, inquiry),
        Bind::Any(rules) => reduce_chain(rules, Connective::Or, inquiry),
        Bind::Mixed(rules, connectives) => {
            let rules: Vec<Bind> = rules.iter().map(|rule| reduce_part(rule, inquiry)).collect();
            let known = |rule: &Bind| match rule {
                Bind::Known(truth) => Some(*truth),
                _ => None,
            };
            match rules.iter().map(known).collect::<Option<Vec<Truth>>>() {
                Some(truths) => Bind::Known(mixed(&truths, connectives)),
                None => Bind::Mixed(rules, connectives.clone()),
            }
        }
    }
}

fn reduce_chain(rules: &[Bind], connective: Connective, inquiry: Inquiry<'_>) -> Bind {
    let mut known = neutral(connective);
    let mut left = Vec::new();
    for rule in rules {
        match reduce_part(rule, inquiry) {
            Bind::Known(truth) => known = join(connective, known, truth),
            rule => left.push(rule),
        }
        if known == !neutral(connective) {
            return Bind::Known(known);
        }
    }
    if left.is_empty() {
        return Bind::Known(known);
    }
    if known != neutral(connective) {
        left.push(Bind::Known(known));
    }
    match connective {
        Connective::And => Bind::All(left),
        Connective::Or => Bind::Any(left),
    }
}

/// What a rule says of an asker and an entry.
pub(super) fn evaluate(
    rule: &Bind,
    asker: &AccessSubject<'_>,
    schema: &Schema,
    asked: &RuleQuestion<'_>,
) -> Truth {
    evaluate_part(rule, Inquiry { asker, schema, within_not: false }, asked)
}

fn evaluate_part(rule: &Bind, inquiry: Inquiry<'_>, asked: &RuleQuestion<'_>) -> Truth {
    let each = |rule: &Bind| evaluate_part(rule, inquiry, asked);
    match rule {
        Bind::Known(truth) => *truth,
        // With an entry at hand nothing is left open.
        Bind::Is(condition) => holds(condition, inquiry, Some(asked)).unwrap_or(Truth::Undefined),
        Bind::Not(rule) => !evaluate_part(rule, inquiry.within_not(), asked),
        Bind::All(rules) => chain(rules, Connective::And, each),
        Bind::Any(rules) => chain(rules, Connective::Or, each),
        Bind::Mixed(rules, connectives) => {
            mixed(&rules.iter().map(each).collect::<Vec<_>>(), connectives)
        }
    }
}

fn chain(rules: &[Bind], connective: Connective, each: impl Fn(&Bind) -> Truth) -> Truth {
    let mut truth = neutral(connective);
    for rule in rules {
        truth = join(connective, truth, each(rule));
        if truth == !neutral(connective) {
            break;
        }
    }
    truth
}

fn neutral(connective: Connective) -> Truth {
    match connective {
        Connective::And => Truth::True,
        Connective::Or => Truth::False,
    }
}

fn join(connective: Connective, one: Truth, other: Truth) -> Truth {
    match connective {
        Connective::And => one.and(other),
        Connective::Or => one.or(other),
    }
}

/// The truth of `and` and `or` without parentheses: what both ways to read them agree in.
fn mixed(truths: &[Truth], connectives: &[Connective]) -> Truth {
    let [first, rest @ ..] = truths else { return Truth::Undefined };
    let from_left = rest
        .iter()
        .zip(connectives)
        .fold(*first, |left, (right, connective)| join(*connective, left, *right));
    let [before @ .., last] = truths else { return Truth::Undefined };
    let from_right = before
        .iter()
        .zip(connectives)
        .rev()
        .fold(*last, |right, (left, connective)| join(*connective, *left, right));
    if from_left == from_right { from_left } else { Truth::Undefined }
}

/// Whether a condition holds; none if it depends on the entry, and there is none.
fn holds(
    condition: &Condition,
    inquiry: Inquiry<'_>,
    asked: Option<&RuleQuestion<'_>>,
) -> Option<Truth> {
    let Inquiry { asker, schema, within_not } = inquiry;
    let world = asker.surroundings;
    let found = match &condition.test {
        Test::User(subjects) => any(subjects, |subject| is_subject(subject, asker, schema, asked))?,
        Test::Group(groups) => match asker.identity {
            None => Truth::False,
            Some(who) => any(groups, |group| is_in_group(group, who, asker, schema, asked))?,
        },
        Test::Attribute(attribute) => match (asker.identity, asked) {
            (None, _) => Truth::False,
            (Some(_), None) => return None,
            (Some(who), Some(asked)) => is_related(attribute, who, asker, schema, asked),
        },
        Test::Address(ranges) => {
            let is_in = |address| ranges.iter().any(|range| range.holds(address));
            truth(asker.address.is_some_and(is_in))
        }
        Test::Host(hosts) => match world.host_name() {
            None => Truth::Undefined,
            Some(name) => truth(hosts.iter().any(|host| host.holds(&name))),
        },
        Test::Time(comparator, minute) => world.time().map_or(Truth::Undefined, |now| {
            truth(comparator.holds(now.minute.into(), (*minute).into()))
        }),
        Test::Days(days) => world.time().map_or(Truth::Undefined, |now| {
            truth(days.checked_shr(now.day.into()).unwrap_or_default() & 1 == 1)
        }),
        Test::Method(methods) => truth(methods.iter().any(|method| is_method(method, asker))),
        Test::Strength(comparator, ssf) => truth(comparator.holds(asker.ssf, *ssf)),
    };
    // Nobody knows who somebody is who is not signed in, so not who they are not.
    let is_unknown = asker.identity.is_none()
        && found == Truth::False
        && (condition.negated || within_not)
        && condition.test.is_of_identity();
    let found = if is_unknown { Truth::Undefined } else { found };
    Some(if condition.negated { !found } else { found })
}

/// Whether one of them holds; none if that depends on the entry, and there is none.
fn any<T>(items: &[T], holds: impl Fn(&T) -> Option<Truth>) -> Option<Truth> {
    let mut found = Some(Truth::False);
    for item in items {
        match holds(item) {
            Some(Truth::True) => return Some(Truth::True),
            Some(truth) => found = found.map(|found| found.or(truth)),
            None => found = None,
        }
    }
    found
}

fn is_method(method: &Method, asker: &AccessSubject<'_>) -> bool {
    match (method, asker.method) {
        (Method::Any, _) => true,
        (Method::Simple, used) => used == AuthenticationMethod::Simple,
        (Method::Certificate, used) => used == AuthenticationMethod::Certificate,
        (Method::Sasl(own), AuthenticationMethod::Sasl(used)) => own.eq_ignore_ascii_case(used),
        (Method::Sasl(own), AuthenticationMethod::Certificate) => own == "EXTERNAL",
        (Method::Sasl(_), AuthenticationMethod::Anonymous | AuthenticationMethod::Simple) => false,
    }
}

fn is_subject(
    subject: &Subject,
    asker: &AccessSubject<'_>,
    schema: &Schema,
    asked: Option<&RuleQuestion<'_>>,
) -> Option<Truth> {
    if *subject == Subject::Anyone {
        return Some(Truth::True);
    }
    let Some(who) = asker.identity else { return Some(Truth::False) };
    Some(match subject {
        Subject::Anyone | Subject::All => Truth::True,
        Subject::Oneself => asked?.target.is(who),
        Subject::Parent => asked?.target.is_directly_below(who),
        Subject::Name(pattern) if pattern.has_macro() => {
            instances(pattern, asked?, schema, |rdns| {
                truth(pattern::matches_name(rdns, who, schema))
            })
        }
        Subject::Name(pattern) => pattern.matches(who, schema),
        Subject::Search(url) => finds(url, who, asker, schema),
    })
}

fn is_in_group(
    group: &DnPattern,
    who: &DnKey,
    asker: &AccessSubject<'_>,
    schema: &Schema,
    asked: Option<&RuleQuestion<'_>>,
) -> Option<Truth> {
    if let Some(group) = group.exact() {
        return Some(asker.surroundings.is_member(group, who));
    }
    Some(instances(group, asked?, schema, |rdns| match pattern::exact_key(rdns) {
        Some(group) => asker.surroundings.is_member(&group, who),
        None => Truth::Undefined,
    }))
}

/// Whether `holds` is true of one of the names that the macros make.
fn instances(
    pattern: &DnPattern,
    asked: &RuleQuestion<'_>,
    schema: &Schema,
    holds: impl Fn(&[pattern::RdnPattern]) -> Truth,
) -> Truth {
    let mut part = None;
    if pattern.needs_part() {
        let name = asked.link.entry_targets().and_then(|targets| targets.name.as_ref());
        let key = asked.target.key();
        part = name.zip(key).and_then(|(name, key)| name.pattern.part(key, schema));
        if part.is_none() {
            return Truth::Undefined;
        }
    }
    let source = Source { part: part.as_ref(), entry: asked.target.entry };
    let mut found = Truth::False;
    let all_made = pattern.instances(&source, schema, &mut |rdns| {
        found = found.or(holds(rdns));
        found != Truth::True
    });
    if all_made { found } else { found.or(Truth::Undefined) }
}

/// Whether a URL finds an entry.
fn finds(url: &Url, who: &DnKey, asker: &AccessSubject<'_>, schema: &Schema) -> Truth {
    finds_by(url, who, asker, &|filter, entry| filter.matches(schema, entry))
}

/// Whether a URL that is a value of an entry finds an entry. Secrets match nothing: whoever may
/// write the value learns nothing secret by what it gives.
fn finds_openly(url: &Url, who: &DnKey, asker: &AccessSubject<'_>, schema: &Schema) -> Truth {
    finds_by(url, who, asker, &|filter, entry| filter.matches(schema, &WithoutSecrets(entry)))
}

fn finds_by(
    url: &Url,
    who: &DnKey,
    asker: &AccessSubject<'_>,
    matches: &dyn Fn(&ResolvedFilter, &dyn EntryRead) -> Truth,
) -> Truth {
    let is_in_scope = match url.scope {
        Scope::Base => *who == url.base,
        Scope::One => who.parent().is_some_and(|parent| parent == url.base),
        Scope::Subtree => who.is_within(&url.base),
        Scope::Subordinate => *who != url.base && who.is_within(&url.base),
    };
    match &url.filter {
        _ if !is_in_scope => Truth::False,
        None => Truth::True,
        Some(filter) => of_entry(who, asker, |entry| matches(filter, entry)),
    }
}

/// What is said of another entry; of one that is not there, nothing is true.
fn of_entry(
    name: &DnKey,
    asker: &AccessSubject<'_>,
    holds: impl Fn(&dyn EntryRead) -> Truth,
) -> Truth {
    let mut found = Truth::Undefined;
    match asker.surroundings.visit_entry(name, &mut |entry| found = holds(entry)) {
        Truth::True => found,
        Truth::False => Truth::False,
        Truth::Undefined => Truth::Undefined,
    }
}

/// Whether the asker is to the entry, or to one above it, as `userattr` says.
fn is_related(
    attribute: &UserAttribute,
    who: &DnKey,
    asker: &AccessSubject<'_>,
    schema: &Schema,
    asked: &RuleQuestion<'_>,
) -> Truth {
    let Some(name) = attribute.attribute.known() else { return Truth::Undefined };
    let counts = |group: &DnKey| match &attribute.within {
        None => Truth::True,
        Some(within) => is_within(group, within, asked, schema),
    };
    let relation = |entry: &dyn EntryRead| {
        is_related_to(&attribute.relation, &counts, name, entry, who, asker, schema)
    };
    let mut found = Truth::False;
    for &level in &attribute.levels {
        let truth = if level == 0 {
            match relation(asked.target.entry) {
                Truth::True if asked.adding => Truth::Undefined,
                truth => truth,
            }
        } else {
            match asked.target.key() {
                None => Truth::Undefined,
                Some(key) => match above(key, level) {
                    None => Truth::False,
                    Some(superior) => of_entry(&superior, asker, relation),
                },
            }
        };
        found = found.or(truth);
        if found == Truth::True {
            break;
        }
    }
    found
}

fn above(key: &DnKey, levels: u8) -> Option<DnKey> {
    let mut above = key.parent()?;
    for _ in 1..levels {
        above = above.parent()?;
    }
    Some(above)
}

/// Whether a name is at or below one that may have macros.
fn is_within(name: &DnKey, within: &DnPattern, asked: &RuleQuestion<'_>, schema: &Schema) -> Truth {
    if let Some(within) = within.exact() {
        return truth(name.is_within(within));
    }
    instances(within, asked, schema, |rdns| match pattern::exact_key(rdns) {
        Some(within) => truth(name.is_within(&within)),
        None => Truth::Undefined,
    })
}

/// Of groups only those for which `counts` holds.
fn is_related_to(
    relation: &Relation,
    counts: &dyn Fn(&DnKey) -> Truth,
    attribute: &AttributeDescription,
    entry: &dyn EntryRead,
    who: &DnKey,
    asker: &AccessSubject<'_>,
    schema: &Schema,
) -> Truth {
    let each = |holds: &dyn Fn(&[u8]) -> Truth| {
        let mut found = Truth::False;
        entry.visit_values(attribute, &mut |_, value| {
            found = found.or(holds(value));
            found != Truth::True
        });
        found
    };
    match relation {
        // Of a value that is no name nobody knows whom it was to mean.
        Relation::User => {
            let is_who = |value: &[u8]| {
                key_of(value, schema).map_or(Truth::Undefined, |key| truth(key == *who))
            };
            let Some(rule) = attribute.kind.equality else { return each(&is_who) };
            let mut found = Truth::False;
            let key = ValueKey { rule, key: who.as_bytes() };
            entry.visit_matching(attribute, Some(&key), &mut |_, value| {
                found = found.or(is_who(value));
                found != Truth::True
            });
            found
        }
        Relation::Group => each(&|value| match key_of(value, schema) {
            Some(group) => match counts(&group) {
                Truth::False => Truth::False,
                counts => counts.and(asker.surroundings.is_member(&group, who)),
            },
            None => Truth::Undefined,
        }),
        Relation::Url => each(&|value| {
            let text = std::str::from_utf8(value).ok();
            let url = text.and_then(|text| LdapUrl::parse(text).ok());
            let url = url.and_then(|url| text::resolve_url(&url, schema));
            // Nobody knows whom it was to find.
            url.map_or(Truth::Undefined, |url| finds_openly(&url, who, asker, schema))
        }),
        Relation::Value(_, None) => Truth::Undefined,
        Relation::Value(_, Some(assertion)) => match assertion.holds(schema, entry) {
            Truth::False => Truth::False,
            of_target => {
                of_target.and(of_entry(who, asker, |entry| assertion.holds(schema, entry)))
            }
        },
    }
}

/// The key of a value that is a name.
pub(super) fn key_of(value: &[u8], schema: &Schema) -> Option<DnKey> {
    DnKey::from_text(schema, std::str::from_utf8(value).ok()?).ok()
}
