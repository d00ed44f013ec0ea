//! Tests of decisions: each feature of the language, and random ACIs beside the plain evaluator.

mod cases;
mod entry_rights;
mod model;
mod options;
mod standing;
mod strangers;

use std::net::IpAddr;
use std::sync::Arc;

use ldap::dn::Dn;
use schema::{DnKey, Entry, EntryRead, Schema, Truth};

use super::naive::Naive;
use super::*;
use crate::Aci;

/// Entries and what else rules ask for.
pub(super) struct World {
    entries: Vec<(DnKey, Entry)>,
    time: Option<TimeOfWeek>,
    host: Option<&'static str>,
}

pub(super) fn key(name: &str) -> DnKey {
    DnKey::from_text(&Schema::builtin(), name).unwrap()
}

fn entry(name: &str, pairs: &[(&str, &str)]) -> (DnKey, Entry) {
    let pairs = pairs.iter().map(|(name, value)| (*name, value.as_bytes()));
    let entry = Entry::from_pairs(Dn::parse(name).unwrap(), pairs, &Schema::builtin()).unwrap();
    (key(name), entry)
}

impl World {
    pub(super) fn new() -> Self {
        let entries = vec![
            entry("dc=x", &[("objectClass", "domain"), ("dc", "x"), ("l", "Rome")]),
            entry("ou=people,dc=x", &[("ou", "people"), ("manager", "uid=carl,ou=people,dc=x")]),
            entry(
                "uid=anna,ou=people,dc=x",
                &[
                    ("objectClass", "inetOrgPerson"),
                    ("uid", "anna"),
                    ("cn", "Anna"),
                    ("cn;lang-de", "Änni"),
                    ("l", "Rome"),
                    ("manager", "UID=Bert, ou=People,dc=X"),
                    ("owner", "cn=staff,ou=groups,dc=x"),
                    ("seeAlso", "cn=lost,ou=groups,dc=x"),
                    ("labeledURI", "ldap:///ou=people,dc=x??one?(uid=c*)"),
                    ("createTimestamp", "20200101000000Z"),
                ],
            ),
            entry(
                "uid=bert,ou=people,dc=x",
                &[("uid", "bert"), ("cn", "Bert"), ("l", "rome"), ("title", "boss")],
            ),
            entry("uid=carl,ou=people,dc=x", &[("uid", "carl"), ("l", "Oslo"), ("title", "x")]),
            entry("cn=dora,uid=anna,ou=people,dc=x", &[("cn", "dora")]),
            entry("ou=groups,dc=x", &[("ou", "groups")]),
            entry("cn=staff,ou=groups,dc=x", &[("member", "uid=bert,ou=people,dc=x")]),
            entry("cn=admins,ou=groups,dc=x", &[("member", "uid=carl,ou=people,dc=x")]),
            entry(
                "dc=a,dc=x",
                &[("dc", "a"), ("ou", "people,dc=x"), ("owner", "cn=staff,ou=groups,dc=a,dc=x")],
            ),
            entry("cn=staff,ou=groups,dc=a,dc=x", &[("member", "uid=bert,ou=people,dc=x")]),
            entry("ou=people,dc=b,dc=a,dc=x", &[("ou", "people"), ("cn", "staff")]),
            entry("cn=staff,ou=groups,dc=b,dc=a,dc=x", &[("cn", "staff")]),
            entry(
                "CN=Erik,Ou=People,DC=X",
                &[
                    ("cn", "Erik"),
                    ("description", "a+b"),
                    ("l", "Rome"),
                    ("labeledURI", "see below"),
                    ("labeledURI", "ldap:///ou=people,dc=x??one?(uid=c*)"),
                ],
            ),
            entry("cn=fritz,UID=Anna,ou=People,dc=X", &[("cn", "fritz"), ("l", "Oslo")]),
        ];
        Self { entries, time: None, host: None }
    }

    pub(super) fn find(&self, name: &DnKey) -> Option<&Entry> {
        self.entries.iter().find(|(key, _)| key == name).map(|(_, entry)| entry)
    }
}

impl Surroundings for World {
    fn is_member(&self, group: &DnKey, who: &DnKey) -> Truth {
        let Some(group) = self.find(group) else { return Truth::Undefined };
        let schema = Schema::builtin();
        let mut found = Truth::False;
        group.visit_values(&schema.well_known().member, &mut |_, value| {
            if bind::key_of(value, &schema).as_ref() == Some(who) {
                found = Truth::True;
            }
            true
        });
        found
    }

    fn visit_entry(&self, name: &DnKey, visit: &mut dyn FnMut(&dyn EntryRead)) -> Truth {
        match self.find(name) {
            Some(entry) => {
                visit(entry);
                Truth::True
            }
            None => Truth::False,
        }
    }

    fn time(&self) -> Option<TimeOfWeek> {
        self.time
    }

    fn host_name(&self) -> Option<String> {
        self.host.map(str::to_owned)
    }
}

/// ACIs and the entries that hold them.
pub(super) type Holders = Vec<(DnKey, Vec<Arc<Aci>>)>;

pub(super) fn set_of(holders: &Holders) -> Arc<AciSet> {
    Arc::new(AciSet::new(Schema::builtin()).with_holders(holders.iter().cloned()))
}

/// An entry as the store has it: its leaf and its superior apart.
struct Split<'e>(&'e Entry);

impl EntryRead for Split<'_> {
    fn dn(&self) -> &str {
        self.0.dn()
    }

    fn split_dn(&self) -> Option<(&str, &str)> {
        self.0.dn().split_once(',')
    }

    fn visit_matching(
        &self,
        asked: &AttributeDescription,
        only: Option<&schema::ValueKey<'_>>,
        visit: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
    ) -> bool {
        self.0.visit_matching(asked, only, visit)
    }

    fn visit_wanted(
        &self,
        wants: &dyn Fn(&AttributeDescription) -> bool,
        visit: &mut dyn FnMut(&AttributeDescription, Option<ldap::message::Values<'_>>),
    ) {
        self.0.visit_wanted(wants, visit);
    }
}

/// What asking for some attributes gets.
const KINDS: [&str; 6] = ["cn", "cn;lang-de", "sn", "title", "l", "uid"];

/// The answer to a question, which is the same whatever way it is asked.
#[track_caller]
pub(super) fn answer(
    set: &Arc<AciSet>,
    holders: &Holders,
    asker: &AccessSubject<'_>,
    name: &DnKey,
    entry: &Entry,
    question: &Question<'_>,
) -> bool {
    let schema = Schema::builtin();
    let naive = Naive { holders, asker, schema: &schema, entry };
    let is_of_request = matches!(question, Question::Control(_) | Question::Operation(_));
    let rules = Rules::new(set, 0);
    let of_base = rules.below(asker, name);
    let want = of_base.of(entry).decide(question);
    let told = || {
        let acis = holders
            .iter()
            .flat_map(|(holder, acis)| acis.iter().map(move |aci| format!("\n  {holder:?} {aci}")));
        format!("{question:?} of {name:?} by {:?}{}", asker.identity, acis.collect::<String>())
    };
    if !is_of_request {
        assert_eq!(want, naive.decide(question), "{}", told());
        for base in std::iter::successors(Some(name.clone()), DnKey::parent) {
            let reach = rules.below(asker, &base);
            assert_eq!(reach.named(entry, name).decide(question), want, "{base:?} {}", told());
            let split = Split(entry);
            for rights in [reach.of(entry), reach.of(&split), reach.of(&split)] {
                assert_eq!(rights.decide(question), want, "{base:?} {}", told());
                assert_eq!(rights.decide(question), want, "again {base:?} {}", told());
            }
            if let Question::Entry(right) = question {
                let always = reach.always_entry(*right);
                assert_eq!(reach.always_entry(*right), always);
                let known = if base == *name { reach.may_base(*right) } else { None };
                for known in [always, known].into_iter().flatten() {
                    assert_eq!(known, want, "{base:?} {}", told());
                }
            }
            let Question::Attribute(right, attribute) = *question else { continue };
            let always = reach.always(right, attribute);
            assert_eq!(reach.always(right, attribute), always);
            assert!(always.is_none_or(|always| always == want), "{base:?} {}", told());
            let may_all = reach.of(&split).may_all(right, attribute);
            assert!(want || !may_all, "{base:?} {}", told());
            let always = (may_all || reach.always_all(right, attribute)).then_some(true);
            let kinds = KINDS.map(|kind| schema.describe(kind).unwrap());
            for kind in kinds.iter().filter(|kind| attribute.covers(kind)) {
                let of_kind = naive.decide(&Question::Attribute(right, kind));
                assert!(always.is_none_or(|always| always == of_kind), "{kind:?} {}", told());
            }
        }
    }
    let explanation = of_base.of(entry).explain(question);
    assert_eq!(explanation.allowed, want);
    let decides = explanation.decided_by.map(|place| explanation.considered[place].allows);
    let is_of_any = matches!(question, Question::Entry(right) if right.is_of_attributes());
    if want || !is_of_any {
        let none_denies =
            explanation.considered.iter().all(|one| one.allows || !one.outcome.applies());
        assert_eq!(decides, (want || !none_denies).then_some(want), "{explanation:?} {}", told());
    }
    want
}

/// ACIs that are asked about, by one who asks.
pub(super) struct Case {
    pub(super) world: World,
    holders: Holders,
    set: Arc<AciSet>,
    address: Option<IpAddr>,
    ssf: u32,
    method: AuthenticationMethod<'static>,
}

/// The ACIs, each with the name of its holder before it.
#[track_caller]
pub(super) fn case(acis: &[(&str, &str)]) -> Case {
    let mut holders = Holders::new();
    for (holder, text) in acis {
        let aci =
            Aci::parse(text, &Schema::builtin()).unwrap_or_else(|error| panic!("{text}: {error}"));
        let holder = key(holder);
        match holders.iter_mut().find(|(known, _)| *known == holder) {
            Some((_, acis)) => acis.push(Arc::new(aci)),
            None => holders.push((holder, vec![Arc::new(aci)])),
        }
    }
    let set = set_of(&holders);
    let (world, method) = (World::new(), AuthenticationMethod::Simple);
    Case { world, holders, set, address: None, ssf: 0, method }
}

impl Case {
    /// Asks as `uid=WHO,ou=people,dc=x`, or as nobody.
    fn asked<T>(&self, who: &str, ask: impl FnOnce(&AccessSubject<'_>) -> T) -> T {
        let identity = match who {
            "" => None,
            who if who.contains('=') => Some(key(who)),
            who => Some(key(&format!("uid={who},ou=people,dc=x"))),
        };
        ask(&AccessSubject {
            identity: identity.as_ref(),
            address: self.address,
            ssf: self.ssf,
            method: self.method,
            surroundings: &self.world,
        })
    }

    /// Checks what WHO may do with an entry: `read cn`, `delete`, `+member=VALUE`.
    #[track_caller]
    pub(super) fn check(&self, who: &str, what: &str, name: &str, want: bool) -> &Self {
        assert_eq!(self.ask(who, what, name), want, "{what} of {name:?} by '{who}'");
        self
    }

    /// Asks what WHO may do with an entry.
    #[track_caller]
    pub(super) fn ask(&self, who: &str, what: &str, name: &str) -> bool {
        let name = key(name);
        let entry = self.world.find(&name).unwrap();
        self.question(what, |question| {
            self.asked(who, |asker| answer(&self.set, &self.holders, asker, &name, entry, question))
        })
    }

    /// Asks what WHO may do with each entry below another, one after the other, as a search does.
    #[track_caller]
    pub(super) fn walk(&self, who: &str, what: &str, base: &str) {
        let (schema, base) = (Schema::builtin(), key(base));
        self.question(what, |question| {
            self.asked(who, |asker| {
                let rules = Rules::new(&self.set, 0);
                for _ in 0..2 {
                    let reach = rules.below(asker, &base);
                    let below = self.world.entries.iter().filter(|(key, _)| key.is_within(&base));
                    for (_, entry) in below {
                        let naive = Naive { holders: &self.holders, asker, schema: &schema, entry };
                        let answer = reach.of(&Split(entry)).decide(question);
                        assert_eq!(answer, naive.decide(question), "{question:?} {:?}", entry.dn());
                    }
                }
            });
        });
    }

    /// Calls `ask` with a question in the words of [`Self::check`].
    fn question<T>(&self, what: &str, ask: impl FnOnce(&Question<'_>) -> T) -> T {
        let schema = Schema::builtin();
        let attribute;
        let question = if what.starts_with(['+', '-']) {
            let (change, rest) = what.split_at(1);
            let (name, value) = rest.split_once('=').unwrap();
            attribute = schema.describe(name).unwrap();
            let change = if change == "+" { ValueChange::Add } else { ValueChange::Delete };
            Question::Value(change, &attribute, value.as_bytes())
        } else {
            match what.split_once(' ') {
                Some(("control", oid)) => Question::Control(oid),
                Some(("extop", oid)) => Question::Operation(oid),
                Some((right, name)) => {
                    attribute = schema.describe(name).unwrap();
                    Question::Attribute(Right::find(right).unwrap(), &attribute)
                }
                None => Question::Entry(Right::find(what).unwrap()),
            }
        };
        ask(&question)
    }
}
