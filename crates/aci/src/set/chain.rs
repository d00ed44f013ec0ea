//! What applies to the entries of one part of the tree: statements in a row, and for each
//! attribute which of them are about it.
//!
//! Invariant: a chain does not depend on who asks; it is made once and shared by all.

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
    pub(crate) fn row(&self, asked: &AttributeDescription) -> Row<'_> {
        self.table.row(asked).map_or_else(
            || Row::Made(mask_of(&self.links, &|link| covers(link, asked))),
            |number| Row::Kept(number, self.table.rows.get(number).map_or(&[], Vec::as_slice)),
        )
    }

    /// The rows of user and of operational attributes that nobody names, and of those that are
    /// named.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &[u64]> {
        self.table.rows.iter().map(Vec::as_slice)
    }

    /// Whether the same statements are about an attribute and all that asking for it gets of an
    /// entry that is no subentry: with more options, and of types derived from its own.
    pub(crate) fn is_even(&self, asked: &AttributeDescription) -> bool {
        match self.table.find(&asked.kind) {
            Some(named) => !named.by_options && !named.is_varied,
            None => {
                !self.table.is_by_options(&asked.kind)
                    && !self.table.above_named.contains(&asked.kind)
            }
        }
    }
}

/// The statements that are about an attribute.
pub(crate) enum Row<'c> {
    /// A row of the table, and its number.
    Kept(usize, &'c [u64]),
    /// Found for just this attribute.
    Made(Mask),
}

impl Row<'_> {
    pub(crate) fn mask(&self) -> &[u64] {
        match self {
            Self::Kept(_, mask) => mask,
            Self::Made(mask) => mask,
        }
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
    /// User and operational attributes that nobody names, then those that are named.
    rows: Vec<Mask>,
    named: Vec<Named>,
    /// Places of `named` by the number of the type: open addressing, twice as many as needed.
    slots: Vec<Option<usize>>,
    /// Types that are not named, and from which some that are named are derived.
    above_named: Vec<Arc<AttributeType>>,
}

struct Named {
    kind: Arc<AttributeType>,
    /// Whether somebody names it, or a type that it is derived from, with options.
    by_options: bool,
    /// Whether other statements are about a type derived from it.
    is_varied: bool,
    /// The number of its row.
    row: usize,
}

impl Table {
    fn new(links: &[Link], schema: &Schema) -> Self {
        let unnamed = |operational: bool| {
            mask_of(links, &|link| {
                link.attributes().is_some_and(|list| list.covers_unnamed(operational))
            })
        };
        let rows = vec![unnamed(false), unnamed(true)];
        let lists = links.iter().filter_map(Link::attributes);
        let names: Vec<&Arc<AttributeDescription>> = lists.flat_map(AttributeList::known).collect();
        let slots = vec![None; (2 * names.len() + 1).next_power_of_two()];
        let mut table = Self { rows, named: Vec::new(), slots, above_named: Vec::new() };
        for name in names {
            let by_options = !name.options().is_empty();
            if let Some(known) = table.position(&name.kind) {
                if let Some(known) = table.named.get_mut(known) {
                    known.by_options |= by_options;
                }
                continue;
            }
            let Some(plain) = schema.plain_description(&name.kind.oid) else { continue };
            let mut slot = table.first_slot(&name.kind);
            while table.slots.get(slot).is_some_and(Option::is_some) {
                slot = (slot + 1) & (table.slots.len() - 1);
            }
            if let Some(slot) = table.slots.get_mut(slot) {
                *slot = Some(table.named.len());
            }
            let (kind, row) = (Arc::clone(&name.kind), table.rows.len());
            table.rows.push(mask_of(links, &|link| covers(link, plain)));
            table.named.push(Named { kind, by_options, is_varied: false, row });
        }
        // What is said of a type with options is said of the types derived from it as well.
        let by_options: Vec<bool> =
            table.named.iter().map(|named| table.is_by_options(&named.kind)).collect();
        for (named, by_options) in table.named.iter_mut().zip(by_options) {
            named.by_options = by_options;
        }
        table.above_named = table.superiors_of_named();
        let varied: Vec<bool> =
            table.named.iter().map(|named| table.is_varied(named, links, schema)).collect();
        for (named, is_varied) in table.named.iter_mut().zip(varied) {
            named.is_varied = is_varied;
        }
        table
    }

    /// Whether somebody names a type, or one that it is derived from, with options.
    fn is_by_options(&self, kind: &Arc<AttributeType>) -> bool {
        let mut all = std::iter::successors(Some(kind), |kind| kind.superior.as_ref());
        all.any(|kind| self.find(kind).is_some_and(|named| named.by_options))
    }

    /// Whether other statements are about a type derived from this one than about itself.
    /// Collective types do not count: only subentries hold them (RFC 3671 §2).
    fn is_varied(&self, named: &Named, links: &[Link], schema: &Schema) -> bool {
        let own = self.rows.get(named.row);
        let mut derived = schema.subtypes(&named.kind).iter().filter(|one| !one.kind.collective);
        derived.any(|one| {
            let is_named_by_options = self.find(&one.kind).is_some_and(|named| named.by_options);
            is_named_by_options || own != Some(&mask_of(links, &|link| covers(link, one)))
        })
    }

    fn superiors_of_named(&self) -> Vec<Arc<AttributeType>> {
        let above = |named: &Named| {
            std::iter::successors(named.kind.superior.clone(), |kind| kind.superior.clone())
        };
        let mut kinds: Vec<Arc<AttributeType>> = self.named.iter().flat_map(above).collect();
        kinds.retain(|kind| self.position(kind).is_none());
        kinds.sort_unstable_by(|one, other| one.oid.cmp(&other.oid));
        kinds.dedup();
        kinds
    }

    fn first_slot(&self, kind: &AttributeType) -> usize {
        // The slots are a power of two, so this keeps the low bits.
        usize::try_from(kind.number() & (self.slots.len() as u64 - 1)).unwrap_or_default()
    }

    fn position(&self, kind: &AttributeType) -> Option<usize> {
        let mut slot = self.first_slot(kind);
        loop {
            let named = (*self.slots.get(slot)?)?;
            if *self.named.get(named)?.kind == *kind {
                return Some(named);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    fn find(&self, kind: &AttributeType) -> Option<&Named> {
        self.named.get(self.position(kind)?)
    }

    /// The number of the row of an attribute; none if it must be made for just this one.
    fn row(&self, asked: &AttributeDescription) -> Option<usize> {
        if let Some(named) = self.find(&asked.kind) {
            let is_plain = !named.by_options || asked.options().is_empty();
            return is_plain.then_some(named.row);
        }
        let mut kind = &asked.kind;
        while let Some(superior) = &kind.superior {
            // Where a type is named, what is derived from it may be meant.
            if self.find(superior).is_some() {
                return None;
            }
            kind = superior;
        }
        Some(usize::from(asked.is_operational()))
    }
}

pub(crate) const WORD_BITS: usize = 64;
