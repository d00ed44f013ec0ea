//! The scope as a condition like any other: lists of the entries one level below each entry, and
//! of those among them that have subordinates, give a level or a subtree without a look at any
//! entry.

use ldap::message::Scope;
use schema::{DnKey, EntryId};

use super::cost::{BRANCHES_MAX, ROW_NS, TEST_NS};
use super::lookup::Lookup;
use super::node::{Node, Shape};
use crate::error::StoreError;
use crate::index::ids::IdSet;
use crate::read::view::Resolved;

impl<'v> Lookup<'_, 'v> {
    /// The entries in scope of `base`, when there are `candidates` without it; none when it costs
    /// less to test them.
    pub(super) fn scope(
        &mut self,
        base: EntryId,
        scope: Scope,
        candidates: u64,
    ) -> Result<Option<Node<'v>>, StoreError> {
        if scope == Scope::Base {
            return Ok(Some(ids(vec![base.0])));
        }
        if scope == Scope::One {
            return Ok(Some(self.level(base)?));
        }
        // Two rows tell of an entry what is below it; half of what testing would cost may be spent
        // on them.
        let budget = candidates.min(self.entries).saturating_mul(TEST_NS) / (4 * ROW_NS);
        let budget = budget.clamp(1, BRANCHES_MAX);
        let mut nodes = Vec::new();
        if scope == Scope::Subtree && base != EntryId::ROOT {
            nodes.push(ids(vec![base.0]));
        }
        let mut open = vec![base.0];
        let mut visited = 0;
        while let Some(parent) = open.pop() {
            self.watch.row()?;
            visited += 1;
            if visited + open.len() as u64 > budget {
                return Ok(None);
            }
            let level = self.level(EntryId(parent))?;
            if !level.is_nothing() {
                nodes.push(level);
            }
            self.work.rows += 1;
            if let Some(branches) = self.view.branches(EntryId(parent))? {
                if branches.count().saturating_add(visited) > budget {
                    return Ok(None);
                }
                let branches = self.view.load(&branches, self.interrupt)?;
                open.extend(branches.iter_after(0));
            }
        }
        let count = nodes.iter().map(|node| node.count).sum::<u64>().min(self.entries);
        Ok(Some(Node::new(Shape::Or(nodes), true, count)))
    }

    /// The entries at and below one.
    pub(super) fn below(&mut self, base: &DnKey) -> Result<Node<'v>, StoreError> {
        if base.is_root() {
            return Ok(Node::unknown());
        }
        let id = match self.view.resolve(base)? {
            Resolved::Found(id) => id,
            Resolved::Missing { .. } => return Ok(ids(Vec::new())),
            // It may be above a naming context: all entries of that are below it.
            Resolved::NoContext => return Ok(Node::unknown()),
        };
        let found = self.scope(id, Scope::Subtree, self.entries)?;
        Ok(found.unwrap_or_else(Node::unknown))
    }

    fn level(&mut self, parent: EntryId) -> Result<Node<'v>, StoreError> {
        self.list(crate::index::LEVEL_LISTS, &parent.0.to_be_bytes(), true)
    }
}

fn ids(ids: Vec<u64>) -> Node<'static> {
    let count = ids.len() as u64;
    Node::new(Shape::Ids(IdSet::Few(ids)), true, count)
}
