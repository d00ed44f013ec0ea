//! Assertions of names, where attributes have reference lists.

use schema::{AttributeDescription, DnKey, MatchingRule};

use super::lookup::Lookup;
use super::node::{Node, Shape};
use crate::error::StoreError;
use crate::index::SOURCE_LISTS;
use crate::read::view::{Resolved, source_key};
use crate::rows::dictionary::compares_names;

impl<'v> Lookup<'_, 'v> {
    /// Beside what the index tells, the entries that name the same one in reference lists.
    pub(super) fn with_lists(
        &mut self,
        asked: &AttributeDescription,
        rule: &MatchingRule,
        key: &[u8],
        node: Node<'v>,
    ) -> Result<Node<'v>, StoreError> {
        let dictionary = self.view.dictionary();
        let mut covered = dictionary.listed_of(asked).peekable();
        if covered.peek().is_none() || !compares_names(rule) {
            return Ok(node);
        }
        let name = DnKey::from_bytes(key.to_vec());
        let Resolved::Found(target) = self.view.resolve(&name)? else { return Ok(node) };
        let mut nodes = vec![node];
        for attribute in covered {
            nodes.push(self.list(SOURCE_LISTS, &source_key(attribute, target.0), true)?);
        }
        nodes.retain(|node| !node.is_nothing());
        if nodes.len() <= 1 {
            return Ok(nodes.pop().unwrap_or_else(Node::nothing));
        }
        let count = nodes.iter().fold(0_u64, |sum, node| sum.saturating_add(node.count));
        let exact = nodes.iter().all(|node| node.exact);
        Ok(Node::new(Shape::Or(nodes), exact, count.min(self.entries)))
    }
}
