//! A search, and both answers to it.

use std::fmt;
use std::time::Duration;

use ldap::filter::Filter;
use ldap::message::Scope;
use schema::{EntryId, ResolvedFilter, Schema, Truth};
use store::{Ask, Plan, View};

use crate::arbitrary::dice::Dice;
use crate::arbitrary::filters::{self, Asked, Condition};
use crate::arbitrary::naive::Judge;
use crate::arbitrary::tree::Tree;
use crate::arbitrary::vocabulary::Vocabulary;
use crate::world::World;

#[derive(Clone, Debug)]
pub struct Question {
    pub filter: Asked,
    pub base: u64,
    pub scope: Scope,
    /// A page begins after the entry at this place of the answer.
    pub page: usize,
    /// How many entries are said to be enough; the answer has all.
    pub wanted: Option<u64>,
}

/// What is wrong with an answer.
#[derive(Debug)]
pub struct Wrong {
    pub what: &'static str,
    pub want: Vec<u64>,
    pub got: Vec<u64>,
    pub plan: String,
}

impl Question {
    pub fn random(world: &World, dice: &mut Dice) -> Self {
        let ids = world.published.ids();
        Self::about(&world.words, &world.conditions, &ids, dice)
    }

    pub fn about(
        words: &Vocabulary,
        conditions: &[Condition],
        ids: &[u64],
        dice: &mut Dice,
    ) -> Self {
        let filter = if conditions.is_empty() || !dice.one_in(3) {
            let depth = dice.below(5);
            filters::filter(words, dice, depth)
        } else {
            filters::filter_with(words, dice, dice.clone().pick(conditions))
        };
        let base = if ids.is_empty() || dice.one_in(3) { 0 } else { *dice.pick_skewed(ids) };
        let scopes = [Scope::Subtree, Scope::Subtree, Scope::One, Scope::Subordinate, Scope::Base];
        let (scope, page) = (*dice.pick(&scopes), dice.below(8));
        let wanted = dice.one_in(2).then(|| dice.between(1, 5) as u64);
        Self { filter, base, scope, page, wanted }
    }

    /// Compares the answer of a view with that of a scan of the tree.
    pub fn ask(&self, view: &View<'_>, tree: &Tree) -> Result<(), Wrong> {
        let schema = view.schema();
        let want = self.scan(schema, tree);
        self.compare(view, want)
    }

    /// The naive answer.
    pub fn scan(&self, schema: &Schema, tree: &Tree) -> Vec<u64> {
        let judge = Judge::new(&self.filter, schema);
        let found = tree.nodes.iter().filter(|(id, node)| {
            tree.in_scope(**id, self.base, self.scope)
                && judge.says(schema, &node.entry) == Some(true)
        });
        found.map(|(id, _)| *id).collect()
    }

    pub fn compare(&self, view: &View<'_>, want: Vec<u64>) -> Result<(), Wrong> {
        let schema = view.schema();
        let text = self.filter.to_string();
        let parsed = Filter::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let filter = ResolvedFilter::resolve(&parsed, schema);
        let clock = || Duration::ZERO;
        let base = EntryId(self.base);
        let wanted = self.wanted;
        let asked = Ask { wanted, text: Some(&parsed), ..Ask::new(&filter, base, self.scope) };
        let plan = view.plan(&asked).unwrap();
        let got = self.answer(view, &plan, &filter, EntryId::ROOT);
        let wrong = |what, want: &[u64], got: Vec<u64>| {
            let plan = view.plan(&Ask { explain: Some(&clock), ..asked }).unwrap();
            let plan = format!("{plan:#?}");
            Err(Wrong { what, want: want.to_vec(), got, plan })
        };
        if got != want {
            return wrong("the answer", &want, got);
        }
        if let Some(&after) = want.get(self.page) {
            let rest = self.answer(view, &plan, &filter, EntryId(after));
            if rest != want[self.page + 1..] {
                return wrong("the next page", &want[self.page + 1..], rest);
            }
        }
        Ok(())
    }

    /// The answer as a search makes it of a plan.
    fn answer(
        &self,
        view: &View<'_>,
        plan: &Plan,
        filter: &ResolvedFilter,
        after: EntryId,
    ) -> Vec<u64> {
        let base = EntryId(self.base);
        let mut found = Vec::new();
        for entry in plan.entries(view, after) {
            let entry = entry.unwrap();
            let in_scope = plan.scope_exact
                || match self.scope {
                    Scope::Base => entry.id() == base,
                    Scope::One => entry.parent() == base,
                    Scope::Subtree => view.is_within(&entry, base).unwrap(),
                    Scope::Subordinate => {
                        entry.id() != base && view.is_within(&entry, base).unwrap()
                    }
                };
            if in_scope && (plan.exact || filter.matches(view.schema(), &entry) == Truth::True) {
                found.push(entry.id().0);
            }
        }
        found
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of entry {} for {}", self.scope, self.base, self.filter)
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, want, got, plan } = self;
        write!(f, "{what} should be {want:?} and is {got:?}\nplan: {plan}")
    }
}
