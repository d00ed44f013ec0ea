//! What applies to the entries of one part of the tree: statements in a row, and for each
//! attribute which of them are about it.
//!
//! Invariant: a chain does not depend on who asks; it is made once and shared by all.

use std::borrow::Cow;
use std::sync::Arc;

use schema::{AttributeDescription, AttributeType, DnKey, Schema};

use crate::rule::{Aci, AttributeList, EntryTargets, Right, Statement, Targets};

/// An ACI and the entry that holds it.
#[derive(Clone)]
pub(crate) struct Placed {
    pub(crate) aci: Arc<Aci>,
    pub(crate) holder: Arc<DnKey>,
}

/// A set of statements, a bit for each.
pub(crate) type Mask = Vec<u64>;

/// One statement of an ACI of the chain.
pub(crate) struct Link {
    pub(crate) placed: Placed,
    position: usize,
}

impl Link {
    pub(crate) fn statement(&self) -> &Statement {
        let statement = self.placed.aci.statements.get(self.position);
        statement.expect("the chain is made from the statements of the ACI")
    }

    pub(crate) fn entry_targets(&self) -> Option<&EntryTargets> {
        self.placed.aci.targets.entries()
    }

    fn attributes(&self) -> Option<&AttributeList> {
        self.entry_targets()?.attributes.as_ref()
    }
}

/// The statements that apply to the entries of one part of the tree.
pub(crate) struct Chain {
    pub(crate) links: Vec<Link>,
    /// The statements that are about each right, in the order of [`Right::ALL`].
    rights: Vec<Mask>,
    pub(crate) denies: Mask,
    /// Those about entries; the others are about controls and extended operations.
    pub(crate) of_entries: Mask,
    /// Those about entries that give or take rights to attributes without naming any.
    pub(crate) of_whole_entry: Mask,
    table: Table,
}

impl Chain {
    pub(crate) fn new(acis: Vec<Placed>, schema: &Schema) -> Self {
        let mut links = Vec::new();
        for placed in acis {
            for position in 0..placed.aci.statements.len() {
                links.push(Link { placed: placed.clone(), position });
            }
        }
        let mask = |is_in: &dyn Fn(&Link) -> bool| mask_of(&links, is_in);
        let rights = Right::ALL
            .into_iter()
            .map(|right| mask(&|link| link.statement().rights.has(right)))
            .collect();
        let denies = mask(&|link| !link.statement().allows);
        let of_entries = mask(&|link| matches!(link.placed.aci.targets, Targets::Entries(_)));
        let of_whole_entry = mask(&|link| {
            let allows = link.statement().allows;
            link.entry_targets().is_some_and(|targets| targets.is_of_whole_entry(allows))
        });
        let table = Table::new(&links, schema);
        Self { links, rights, denies, of_entries, of_whole_entry, table }
    }

    /// The words of a mask.
    pub(crate) fn words(&self) -> usize {
        self.denies.len()
    }

    /// The statements about a right.
    pub(crate) fn right(&self, right: Right) -> &[u64] {
        self.rights.get(right as usize).map_or(&[], |mask| mask)
    }

    /// The statements about an attribute.
    pub(crate) fn row(&self, asked: &AttributeDescription) -> Cow<'_, [u64]> {
        match self.table.row(asked) {
            Some(row) => Cow::Borrowed(row),
            None => Cow::Owned(mask_of(&self.links, &|link| covers(link, asked))),
        }
    }

    /// The rows of all attributes that are named, and of those that are not.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &[u64]> {
        let Table { user, operational, named, .. } = &self.table;
        let named = named.iter().map(|named| named.row.as_slice());
        [user.as_slice(), operational.as_slice()].into_iter().chain(named)
    }
}

fn covers(link: &Link, asked: &AttributeDescription) -> bool {
    let allows = link.statement().allows;
    link.attributes().is_some_and(|list| list.covers(asked, allows))
}

fn mask_of(links: &[Link], is_in: &dyn Fn(&Link) -> bool) -> Mask {
    let mut mask = vec![0; links.len().div_ceil(WORD_BITS).max(1)];
    for (position, link) in links.iter().enumerate() {
        if let Some(word) = mask.get_mut(position / WORD_BITS).filter(|_| is_in(link)) {
            *word |= 1 << (position % WORD_BITS);
        }
    }
    mask
}

/// For each attribute the statements about it.
struct Table {
    /// User and operational attributes that nobody names.
    user: Mask,
    operational: Mask,
    named: Vec<Named>,
    /// Places of `named` by the number of the type: open addressing, twice as many as needed.
    slots: Vec<Option<usize>>,
}

struct Named {
    kind: Arc<AttributeType>,
    /// Whether somebody names it with options.
    by_options: bool,
    row: Mask,
}

impl Table {
    fn new(links: &[Link], schema: &Schema) -> Self {
        let unnamed = |operational: bool| {
            mask_of(links, &|link| {
                link.attributes().is_some_and(|list| list.covers_unnamed(operational))
            })
        };
        let (user, operational) = (unnamed(false), unnamed(true));
        let mut table = Self { user, operational, named: Vec::new(), slots: Vec::new() };
        let lists = links.iter().filter_map(Link::attributes);
        let names = lists.flat_map(|list| &list.names).filter_map(|name| name.known());
        let names: Vec<&Arc<AttributeDescription>> = names.collect();
        table.slots = vec![None; (2 * names.len() + 1).next_power_of_two()];
        for name in names {
            let by_options = !name.options().is_empty();
            if let Some(known) = table.find(&name.kind) {
                if let Some(known) = table.named.get_mut(known) {
                    known.by_options |= by_options;
                }
                continue;
            }
            let Some(plain) = schema.plain_description(&name.kind.oid) else { continue };
            let row = mask_of(links, &|link| covers(link, plain));
            let mut slot = table.first_slot(&name.kind);
            while table.slots.get(slot).is_some_and(Option::is_some) {
                slot = (slot + 1) & (table.slots.len() - 1);
            }
            if let Some(slot) = table.slots.get_mut(slot) {
                *slot = Some(table.named.len());
            }
            table.named.push(Named { kind: Arc::clone(&name.kind), by_options, row });
        }
        table
    }

    fn first_slot(&self, kind: &AttributeType) -> usize {
        // The slots are a power of two, so this keeps the low bits.
        usize::try_from(kind.number() & (self.slots.len() as u64 - 1)).unwrap_or_default()
    }

    fn find(&self, kind: &AttributeType) -> Option<usize> {
        let mut slot = self.first_slot(kind);
        loop {
            let named = (*self.slots.get(slot)?)?;
            if *self.named.get(named)?.kind == *kind {
                return Some(named);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    /// The row of an attribute; none if it must be made for just this one.
    fn row(&self, asked: &AttributeDescription) -> Option<&[u64]> {
        if let Some(named) = self.find(&asked.kind).and_then(|found| self.named.get(found)) {
            let is_plain = !named.by_options || asked.options().is_empty();
            return is_plain.then_some(&named.row);
        }
        let mut kind = &asked.kind;
        while let Some(superior) = &kind.superior {
            // Where a type is named, what is derived from it may be meant.
            if self.find(superior).is_some() {
                return None;
            }
            kind = superior;
        }
        Some(if asked.is_operational() { &self.operational } else { &self.user })
    }
}

pub(crate) const WORD_BITS: usize = 64;
