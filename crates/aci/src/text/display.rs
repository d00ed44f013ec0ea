//! ACIs written in one form: each keyword in lower case, each list in one pair of quotes.

use std::fmt;

use super::bind::DAYS;
use super::name::encoded;
use super::target::SECRET;
use crate::rule::pattern::DnPattern;
use crate::rule::{
    Aci, AttributeList, Bind, Condition, Connective, EntryTargets, Method, OidList, Relation,
    RequestTargets, Statement, Subject, TargetScope, Targets, Test, UserAttribute, ValueFilter,
};

pub(super) fn write(aci: &Aci, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match &aci.targets {
        Targets::Entries(targets) => write_targets(targets, f)?,
        Targets::Requests(RequestTargets { controls, operations }) => {
            write_oids("targetcontrol", controls.as_ref(), f)?;
            write_oids("extop", operations.as_ref(), f)?;
        }
    }
    write!(f, "(version 3.0; acl \"{}\";", aci.name)?;
    for Statement { allows, rights, rule } in &aci.statements {
        write!(f, " {} ({rights}) ", if *allows { "allow" } else { "deny" })?;
        write_rule(rule, f)?;
        f.write_str(";")?;
    }
    f.write_str(")")
}

fn operator(negated: bool) -> &'static str {
    if negated { "!=" } else { "=" }
}

fn write_targets(targets: &EntryTargets, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let EntryTargets { name, scope, attributes, filter, values } = targets;
    if let Some(name) = name {
        let (operator, pattern) = (operator(name.negated), shown(&name.pattern));
        write!(f, "(target {operator} \"{pattern}\")")?;
    }
    if *scope != TargetScope::default() {
        write!(f, "(targetscope = \"{}\")", scope.name())?;
    }
    if let Some(attributes) = attributes {
        let (operator, list) = (operator(attributes.negated), names(attributes).join(" || "));
        write!(f, "(targetattr {operator} \"{list}\")")?;
    }
    if let Some(filter) = filter {
        write!(f, "(targetfilter {} \"{}\")", operator(filter.negated), filter.filter.text)?;
    }
    if let Some(values) = values {
        let lists = [("add", &values.add), ("del", &values.delete)];
        let lists: Vec<String> = lists
            .into_iter()
            .filter_map(|(word, list)| Some(format!("{word}={}", value_filters(list.as_ref()?))))
            .collect();
        write!(f, "(targattrfilters = \"{}\")", lists.join(","))?;
    }
    Ok(())
}

fn names(list: &AttributeList) -> Vec<&str> {
    let stars = [(list.user, "*"), (list.operational, "+")];
    let stars = stars.into_iter().filter_map(|(is_there, star)| is_there.then_some(star));
    let secret = list.secret.iter().map(|_| SECRET);
    stars.chain(secret).chain(list.names.iter().map(|name| name.text())).collect()
}

fn value_filters(filters: &[ValueFilter]) -> String {
    let filters = filters.iter();
    let filters = filters.map(|one| format!("{}:{}", one.attribute.text(), one.filter.text));
    filters.collect::<Vec<_>>().join(" && ")
}

fn write_oids(keyword: &str, list: Option<&OidList>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(list) = list else { return Ok(()) };
    let mut oids: Vec<&str> = if list.all { vec!["*"] } else { Vec::new() };
    oids.extend(list.oids.iter().map(String::as_str));
    write!(f, "({keyword} {} \"{}\")", operator(list.negated), oids.join(" || "))
}

fn write_rule(rule: &Bind, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match rule {
        Bind::Is(condition) => write_condition(condition, f),
        Bind::Not(rule) => {
            f.write_str("not (")?;
            write_rule(rule, f)?;
            f.write_str(")")
        }
        Bind::All(rules) => write_chain(rules, |_| Connective::And, f),
        Bind::Any(rules) => write_chain(rules, |_| Connective::Or, f),
        Bind::Mixed(rules, connectives) => {
            let connective = |position| connectives.get(position).copied();
            write_chain(rules, |position| connective(position).unwrap_or(Connective::And), f)
        }
        Bind::Known(truth) => write!(f, "{truth:?}"),
    }
}

fn write_chain(
    rules: &[Bind],
    connective: impl Fn(usize) -> Connective,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    for (position, rule) in rules.iter().enumerate() {
        if position > 0 {
            f.write_str(match connective(position - 1) {
                Connective::And => " and ",
                Connective::Or => " or ",
            })?;
        }
        match rule {
            Bind::All(_) | Bind::Any(_) | Bind::Mixed(..) => {
                f.write_str("(")?;
                write_rule(rule, f)?;
                f.write_str(")")?;
            }
            Bind::Is(_) | Bind::Not(_) | Bind::Known(_) => write_rule(rule, f)?,
        }
    }
    Ok(())
}

fn write_condition(condition: &Condition, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let operator = operator(condition.negated);
    let (keyword, operator, value) = match &condition.test {
        Test::User(subjects) => ("userdn", operator, join(subjects, " || ", subject)),
        Test::Group(names) => ("groupdn", operator, join(names, " || ", shown)),
        Test::Attribute(attribute) => ("userattr", operator, user_attribute(attribute)),
        Test::Address(ranges) => ("ip", operator, join(ranges, ",", ToString::to_string)),
        Test::Host(hosts) => ("dns", operator, join(hosts, ",", ToString::to_string)),
        Test::Time(comparator, minute) => {
            let time = format!("{:02}{:02}", minute / 60, minute % 60);
            ("timeofday", comparator.name(), time)
        }
        Test::Days(days) => {
            let is_in = |(position, _): &(usize, &str)| days & (1 << position) != 0;
            let days = DAYS.into_iter().enumerate().filter(is_in).map(|(_, day)| day);
            ("dayofweek", operator, days.collect::<Vec<_>>().join(","))
        }
        Test::Method(methods) => ("authmethod", operator, join(methods, " || ", method)),
        Test::Strength(comparator, ssf) => ("ssf", comparator.name(), ssf.to_string()),
    };
    write!(f, "{keyword} {operator} \"{value}\"")
}

fn join<T>(items: &[T], separator: &str, text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(separator)
}

fn subject(subject: &Subject) -> String {
    match subject {
        Subject::Anyone => "ldap:///anyone".to_owned(),
        Subject::All => "ldap:///all".to_owned(),
        Subject::Oneself => "ldap:///self".to_owned(),
        Subject::Parent => "ldap:///parent".to_owned(),
        Subject::Name(pattern) => shown(pattern),
        // Without a question mark it would be a name.
        Subject::Search(url) if !url.text.contains('?') => format!("{}?", url.text),
        Subject::Search(url) => url.text.clone(),
    }
}

fn shown(pattern: &DnPattern) -> String {
    format!("ldap:///{}", encoded(&pattern.text))
}

fn user_attribute(attribute: &UserAttribute) -> String {
    let levels = match attribute.levels.as_slice() {
        [0] => String::new(),
        levels => format!("parent[{}].", join(levels, ",", ToString::to_string)),
    };
    let relation = match &attribute.relation {
        Relation::User => "USERDN",
        Relation::Group => "GROUPDN",
        Relation::Url => "LDAPURL",
        Relation::Value(text, _) => text,
    };
    // A `#` of the name is not the one that ends the attribute.
    let within = attribute.within.as_ref().map(|name| shown(name).replace('#', "%23") + "?");
    let within = within.unwrap_or_default();
    format!("{within}{levels}{}#{relation}", attribute.attribute.text())
}

fn method(method: &Method) -> String {
    match method {
        Method::Any => "none".to_owned(),
        Method::Simple => "simple".to_owned(),
        Method::Certificate => "ssl".to_owned(),
        Method::Sasl(mechanism) => format!("sasl {mechanism}"),
    }
}
