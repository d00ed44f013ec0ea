//! The kinds of job there are, made from texts with values in them.

use clap::ValueEnum;
use ldap::message::OperationKind;

use super::answer::Expected;
use super::keys::Order;
use super::pattern::{Pattern, Variables, with_generators};
use super::plan::{Ask, Job, People, Step, Stream};
use super::request::{Blueprint, ScopeName};
use crate::failure::Failure;
use crate::template::PEOPLE;

/// How the texts of jobs are read.
#[derive(Clone, Debug)]
pub(crate) struct Maker {
    pub(crate) order: Order,
    /// Generators of OpenDJ's tools, which make the first values.
    pub(crate) generators: Vec<String>,
}

/// What a search asks for.
#[derive(Clone, Debug)]
pub(crate) struct Searched {
    pub(crate) base: String,
    pub(crate) scope: ScopeName,
    pub(crate) filter: String,
    pub(crate) attributes: Vec<String>,
    /// How many entries are to be found.
    pub(crate) expect: Expected,
}

/// Where the bind after a search goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum BindOver {
    /// The connection that searched, which is the user from then on.
    Same,
    /// A second connection.
    Second,
}

impl Maker {
    pub(crate) const fn new(order: Order) -> Self {
        Self { order, generators: Vec::new() }
    }

    /// Searches.
    pub(crate) fn search(&self, searched: &Searched) -> Result<Job, Failure> {
        let mut texts = self.texts()?;
        let step = texts.search(searched)?;
        Ok(texts.job(vec![step], self.order, false))
    }

    /// Searches, then binds as who was found.
    pub(crate) fn auth(
        &self,
        searched: &Searched,
        password: &str,
        over: BindOver,
    ) -> Result<Job, Failure> {
        let mut texts = self.texts()?;
        let search = texts.search(searched)?;
        let password = texts.pattern(password)?;
        let bind = Step::succeeds(Ask::BindFound { password }, OperationKind::Bind);
        Ok(texts.job(vec![search, bind], self.order, over == BindOver::Second))
    }

    /// Binds; over a connection of its own if `is_apart`.
    pub(crate) fn bind(&self, dn: &str, password: &str, is_apart: bool) -> Result<Job, Failure> {
        let mut texts = self.texts()?;
        let blueprint =
            Blueprint::Bind { dn: texts.pattern(dn)?, password: texts.pattern(password)? };
        let step = Step::succeeds(Ask::Prepared(blueprint), OperationKind::Bind);
        Ok(texts.job(vec![step], self.order, is_apart))
    }

    /// Compares; the right answer is `is_true`.
    pub(crate) fn compare(
        &self,
        dn: &str,
        attribute: &str,
        value: &str,
        is_true: bool,
    ) -> Result<Job, Failure> {
        let mut texts = self.texts()?;
        let blueprint = Blueprint::Compare {
            dn: texts.pattern(dn)?,
            attribute: attribute.to_owned(),
            value: texts.pattern(value)?,
        };
        let code = if is_true { COMPARE_TRUE } else { COMPARE_FALSE };
        let expected = Expected::Code(OperationKind::Compare, code);
        let step = Step { ask: Ask::Prepared(blueprint), expected };
        Ok(texts.job(vec![step], self.order, false))
    }

    /// Replaces an attribute by one value.
    pub(crate) fn modify(&self, dn: &str, attribute: &str, value: &str) -> Result<Job, Failure> {
        let mut texts = self.texts()?;
        let blueprint = Blueprint::Modify {
            dn: texts.pattern(dn)?,
            attribute: attribute.to_owned(),
            value: texts.pattern(value)?,
        };
        let step = Step::succeeds(Ask::Prepared(blueprint), OperationKind::Modify);
        Ok(texts.job(vec![step], self.order, false))
    }

    /// Renames each once.
    pub(crate) fn modify_dn(&self, dn: &str, new_rdn: &str) -> Result<Job, Failure> {
        let mut texts = self.texts()?;
        let blueprint =
            Blueprint::ModifyDn { dn: texts.pattern(dn)?, new_rdn: texts.pattern(new_rdn)? };
        let step = Step::succeeds(Ask::Prepared(blueprint), OperationKind::ModifyDn);
        Ok(texts.job(vec![step], Order::Once, false))
    }

    /// Deletes each once.
    pub(crate) fn delete(&self, dn: &str) -> Result<Job, Failure> {
        let mut texts = self.texts()?;
        let blueprint = Blueprint::Delete { dn: texts.pattern(dn)? };
        let step = Step::succeeds(Ask::Prepared(blueprint), OperationKind::Delete);
        Ok(texts.job(vec![step], Order::Once, false))
    }

    fn texts(&self) -> Result<Texts<'_>, Failure> {
        let variables = Variables::of_generators(&self.generators)?;
        Ok(Texts { generators: &self.generators, variables })
    }
}

/// Adds the entries of a template, each once.
pub(crate) fn add(people: People) -> Job {
    lone(Step::succeeds(Ask::Add(people), OperationKind::Add))
}

/// Deletes what the same stream has added, the oldest first.
pub(crate) fn delete_added() -> Job {
    lone(Step::succeeds(Ask::DeleteAdded, OperationKind::Delete))
}

/// The people of the demo below this suffix, but for the first so many.
pub(crate) fn people(suffix: &str, first: u64) -> People {
    let definitions = vec![("suffix".to_owned(), suffix.to_owned())];
    People::new("people.template".to_owned(), PEOPLE.to_owned(), None, definitions, first)
}

fn lone(step: Step) -> Job {
    let variables = Variables::default();
    Job { variables, order: Order::Sequential, steps: vec![step], binds_apart: false }
}

/// The texts of one job share their values.
struct Texts<'g> {
    generators: &'g [String],
    variables: Variables,
}

impl Texts<'_> {
    fn pattern(&mut self, text: &str) -> Result<Pattern, Failure> {
        Pattern::parse(&with_generators(text, self.generators), &mut self.variables)
    }

    fn search(&mut self, searched: &Searched) -> Result<Step, Failure> {
        let blueprint = Blueprint::Search {
            base: self.pattern(&searched.base)?,
            scope: searched.scope,
            filter: self.pattern(&searched.filter)?,
            attributes: searched.attributes.clone(),
        };
        Ok(Step { ask: Ask::Prepared(blueprint), expected: searched.expect })
    }

    fn job(self, steps: Vec<Step>, order: Order, binds_apart: bool) -> Job {
        Job { variables: self.variables, order, steps, binds_apart }
    }
}

/// Jobs that are done at the same time.
#[derive(Clone, Debug)]
pub(crate) struct Mix {
    /// Each with its share.
    pub(crate) jobs: Vec<(u32, Job)>,
    pub(crate) by: MixBy,
}

/// What shares are of.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum MixBy {
    /// Each connection draws what it does next
    Requests,
    /// Each connection does one kind of operation only
    Clients,
}

impl Mix {
    /// The streams that so many connections make.
    pub(crate) fn streams(self, connections: usize) -> Result<Vec<Stream>, Failure> {
        if self.by == MixBy::Requests {
            let Some((_, first)) = self.jobs.first().cloned() else { return Ok(Vec::new()) };
            return Ok(vec![Stream { jobs: self.jobs, ..Stream::of(first, connections) }]);
        }
        if self.jobs.len() > connections {
            let count = self.jobs.len();
            return Err(Failure::local(format!(
                "{connections} connections are too few for {count} kinds of clients"
            )));
        }
        let all: u64 = self.jobs.iter().map(|(share, _)| u64::from(*share)).sum();
        let mut passed = 0;
        let mut counts: Vec<usize> = Vec::new();
        for (share, _) in &self.jobs {
            let before = connections as u64 * passed / all.max(1);
            passed += u64::from(*share);
            counts.push((connections as u64 * passed / all.max(1) - before) as usize);
        }
        // Everybody gets one, from those who have most.
        while let Some(none) = counts.iter().position(|count| *count == 0) {
            let most = counts.iter().copied().max();
            let most = counts.iter().position(|count| Some(*count) == most);
            most.and_then(|most| counts.get_mut(most)).into_iter().for_each(|count| *count -= 1);
            counts.get_mut(none).into_iter().for_each(|count| *count = 1);
        }
        let streams = self.jobs.into_iter().zip(counts);
        let streams = streams.map(|((_, job), count)| Stream::of(job, count));
        Ok(streams.collect())
    }
}

/// What is modified: an attribute that no index knows, by a value of eleven digits.
pub(crate) const MODIFIED: &str = "description";
pub(crate) const MODIFIED_VALUE: &str = "[10000000000-99999999999]";
/// Asks for no attributes at all (RFC 4511 §4.5.1.8).
pub(crate) const NO_ATTRIBUTES: &str = "1.1";
/// Result codes (RFC 4511 §4.1.9).
const COMPARE_FALSE: u32 = 5;
const COMPARE_TRUE: u32 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_shared_out_so_that_they_add_up() {
        for (shares, connections, want) in [
            (vec![650, 300, 50], 1000, vec![650, 300, 50]),
            (vec![60, 30, 10], 10, vec![6, 3, 1]),
            (vec![650, 300, 50], 3, vec![1, 1, 1]),
        ] {
            let jobs = shares.into_iter().map(|share| (share, delete_added())).collect();
            let streams = Mix { jobs, by: MixBy::Clients }.streams(connections).unwrap();
            let counts: Vec<usize> = streams.iter().map(|stream| stream.connections).collect();
            assert_eq!(counts, want);
        }
        let jobs = vec![(1, delete_added()), (1, delete_added())];
        assert!(Mix { jobs, by: MixBy::Clients }.streams(1).is_err());
    }
}
