//! Why: what each ACI within reach says to a question, and which of them decides.
//!
//! Invariant: the answer is that of `EntryRights::decide`; it is found by asking every rule whole,
//! without what was decided before.

use std::fmt;
use std::sync::Arc;

use schema::{AttributeDescription, DnKey, Truth};

use super::target::{name_truth, target_truth};
use super::{EntryRights, Question, bind};
use crate::rule::{Aci, Bind, Right, Targets};
use crate::set::Link;

/// How a decision came about.
#[derive(Clone, Debug)]
pub struct AccessExplanation {
    /// The decision.
    pub allowed: bool,
    /// The place in `considered` of what decides; none where nothing applies, which refuses.
    pub decided_by: Option<usize>,
    /// Every statement within reach, the nearest ACIs first and global ones last.
    pub considered: Vec<Considered>,
}

/// What one statement of an ACI says.
#[derive(Clone, Debug)]
pub struct Considered {
    /// The entry that holds the ACI; the root of the tree for a global one.
    pub holder: DnKey,
    /// The ACI.
    pub aci: Arc<Aci>,
    /// Whether the statement allows; else it denies.
    pub allows: bool,
    /// Whether it applies, and why not.
    pub outcome: RuleOutcome,
}

/// Whether a statement applies, and why not.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RuleOutcome {
    /// It applies.
    Applies,
    /// A deny whose condition cannot be found out applies.
    AppliesUnknown,
    /// An allow whose condition cannot be found out does not.
    Unknown,
    /// It is about entries, not about controls and operations, or the other way round.
    OtherKind,
    /// It does not have the right.
    OtherRight,
    /// It is not about the attribute.
    OtherAttribute,
    /// It is about another control or operation.
    OtherRequest,
    /// Its target or scope does not hold the entry.
    OtherEntry,
    /// Its filter does not match the entry.
    OtherContent,
    /// Its value filters do not match.
    OtherValue,
    /// Its bind rule is false.
    OtherSubject,
}

impl RuleOutcome {
    /// Whether the statement takes part in the decision.
    pub const fn applies(self) -> bool {
        matches!(self, Self::Applies | Self::AppliesUnknown)
    }
}

impl fmt::Display for RuleOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Applies => "applies",
            Self::AppliesUnknown => "applies, since its condition cannot be found out",
            Self::Unknown => "does not apply: its condition cannot be found out",
            Self::OtherKind => "is about requests of another kind",
            Self::OtherRight => "does not name the right",
            Self::OtherAttribute => "is not about the attribute",
            Self::OtherRequest => "is about another control or operation",
            Self::OtherEntry => "is not about the entry: target or targetscope",
            Self::OtherContent => "is not about the entry: targetfilter",
            Self::OtherValue => "is not about the value: targattrfilters",
            Self::OtherSubject => "is not for who asks: its bind rule is false",
        })
    }
}

impl EntryRights<'_> {
    /// Says what each ACI within reach has to do with a question.
    pub fn explain(&self, question: &Question<'_>) -> AccessExplanation {
        let chain = match question {
            Question::Control(_) | Question::Operation(_) => &self.reach.base.chain,
            Question::Attribute(..) | Question::Entry(_) | Question::Value(..) => {
                &self.applied.chain
            }
        };
        let considered: Vec<Considered> = chain
            .links
            .iter()
            .map(|link| Considered {
                holder: (*link.placed.holder).clone(),
                aci: Arc::clone(&link.placed.aci),
                allows: link.statement().allows,
                outcome: self.outcome(link, question),
            })
            .collect();
        let allowed = self.decide(question);
        let decides = |one: &Considered| one.allows == allowed && one.outcome.applies();
        let decided_by = considered.iter().position(decides);
        AccessExplanation { allowed, decided_by, considered }
    }

    fn outcome(&self, link: &Link, question: &Question<'_>) -> RuleOutcome {
        let statement = link.statement();
        let is_of_request = matches!(question, Question::Control(_) | Question::Operation(_));
        match (&link.placed.aci.targets, question) {
            (Targets::Requests(targets), _) if is_of_request => {
                if !statement.rights.has(Right::Read) {
                    return RuleOutcome::OtherRight;
                }
                let (list, oid) = match question {
                    Question::Operation(oid) => (&targets.operations, oid),
                    Question::Control(oid) => (&targets.controls, oid),
                    _ => return RuleOutcome::OtherKind,
                };
                if !list.as_ref().is_some_and(|list| list.covers(oid)) {
                    return RuleOutcome::OtherRequest;
                }
                let schema = self.reach.rules.set.schema();
                let left = bind::reduce(&statement.rule, self.reach.asker, schema);
                let truth = match left {
                    Bind::Known(truth) => truth,
                    _ => Truth::Undefined,
                };
                return of_rule(truth, statement.allows);
            }
            (Targets::Requests(_), _) => return RuleOutcome::OtherKind,
            (Targets::Entries(_), _) if is_of_request => return RuleOutcome::OtherKind,
            (Targets::Entries(_), _) => {}
        }
        match *question {
            Question::Attribute(right, attribute) => {
                if !statement.rights.has(right) {
                    RuleOutcome::OtherRight
                } else if !self.is_about(link, attribute) {
                    RuleOutcome::OtherAttribute
                } else {
                    self.of_entry(link, Truth::True, false)
                }
            }
            Question::Entry(right) => self.of_whole(link, right),
            Question::Value(change, attribute, value) => {
                let rights = statement.rights;
                let by_self = rights.has(Right::SelfWrite) && self.names_asker(attribute, value);
                if !rights.has(Right::Write) && !by_self {
                    return RuleOutcome::OtherRight;
                }
                let is_about = self.is_about(link, attribute);
                match self.about_value(link, is_about, change, attribute, value) {
                    Truth::False if is_about => RuleOutcome::OtherValue,
                    Truth::False => RuleOutcome::OtherAttribute,
                    truth => self.of_entry(link, truth, false),
                }
            }
            Question::Control(_) | Question::Operation(_) => RuleOutcome::OtherKind,
        }
    }

    /// A right to the entry as a whole, or to some attribute of it.
    fn of_whole(&self, link: &Link, right: Right) -> RuleOutcome {
        if !link.statement().rights.has(right) {
            return RuleOutcome::OtherRight;
        }
        let allows = link.statement().allows;
        let is_of_whole =
            || link.entry_targets().is_some_and(|targets| targets.is_of_whole_entry(allows));
        if right.is_of_attributes() && !allows && !is_of_whole() {
            // It may take some attributes away; the others keep the entry in sight.
            return RuleOutcome::OtherAttribute;
        }
        let values = match right {
            Right::Add | Right::Delete => self.entry_values_truth(link, right),
            _ => Truth::True,
        };
        if values == Truth::False {
            return RuleOutcome::OtherValue;
        }
        self.of_entry(link, values, right == Right::Add)
    }

    fn is_about(&self, link: &Link, attribute: &AttributeDescription) -> bool {
        let list = link.entry_targets().and_then(|targets| targets.attributes.as_ref());
        list.is_some_and(|list| list.covers(attribute, link.statement().allows))
    }

    /// Asks the targets and the whole bind rule; `so_far` is what is known already.
    fn of_entry(&self, link: &Link, so_far: Truth, adding: bool) -> RuleOutcome {
        let schema = self.reach.rules.set.schema();
        if name_truth(link, &self.target, schema) == Truth::False {
            return RuleOutcome::OtherEntry;
        }
        let targets = target_truth(link, &self.target, schema);
        if targets == Truth::False {
            return RuleOutcome::OtherContent;
        }
        let asked = bind::RuleQuestion { target: &self.target, link, adding };
        let statement = link.statement();
        let rule = bind::evaluate(&statement.rule, self.reach.asker, schema, &asked);
        of_rule(so_far.and(targets).and(rule), statement.allows)
    }
}

fn of_rule(truth: Truth, allows: bool) -> RuleOutcome {
    match (truth, allows) {
        (Truth::True, _) => RuleOutcome::Applies,
        (Truth::False, _) => RuleOutcome::OtherSubject,
        (Truth::Undefined, true) => RuleOutcome::Unknown,
        (Truth::Undefined, false) => RuleOutcome::AppliesUnknown,
    }
}
