//! Files and which names which: the circles, and what would break them.

use std::collections::{BTreeMap, BTreeSet};

/// The names that make an edge, each with the lines where they stand.
pub(super) type Names = BTreeMap<String, BTreeSet<usize>>;

/// Files that are known by their number, and edges between them.
pub(super) struct Graph {
    pub(super) files: Vec<String>,
    edges: BTreeMap<(usize, usize), Names>,
}

/// An edge to take out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Cut {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Files of the largest circle that is left of it when this cut and those before are made.
    pub(super) left: usize,
}

impl Graph {
    pub(super) fn new(files: Vec<String>) -> Self {
        Self { files, edges: BTreeMap::new() }
    }

    /// The file `from` names, in a line, an item of `to`.
    pub(super) fn add(&mut self, from: usize, line: usize, to: usize, name: &str) {
        if from != to {
            let names = self.edges.entry((from, to)).or_default();
            names.entry(name.to_owned()).or_default().insert(line);
        }
    }

    pub(super) fn names(&self, from: usize, to: usize) -> Option<&Names> {
        self.edges.get(&(from, to))
    }

    /// The path of a file, without `source` before it.
    pub(super) fn file<'a>(&'a self, at: usize, source: &str) -> &'a str {
        let path = self.files.get(at).map(String::as_str).unwrap_or_default();
        path.strip_prefix(source).unwrap_or(path).trim_start_matches('/')
    }

    /// The edges from one of these files to another of them.
    pub(super) fn inner_edges(&self, files: &[usize]) -> Vec<(usize, usize)> {
        let is_inner = |(from, to): &&(usize, usize)| files.contains(from) && files.contains(to);
        self.edges.keys().filter(is_inner).copied().collect()
    }

    /// The circles of more than one file, the largest first.
    pub(super) fn circles(&self) -> Vec<Vec<usize>> {
        let edges: Vec<(usize, usize)> = self.edges.keys().copied().collect();
        let mut circles = components(self.files.len(), &edges);
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        circles
    }

    /// Up to `count` edges whose loss takes a circle apart: at each step the one that leaves the
    /// least, and of those alike the one that fewest names make.
    pub(super) fn cuts(&self, circle: &[usize], count: usize) -> Vec<Cut> {
        let mut edges = self.inner_edges(circle);
        let mut cuts = Vec::new();
        while cuts.len() < count {
            let cost = |skipped: usize| {
                let mut kept = edges.clone();
                let (from, to) = kept.swap_remove(skipped);
                let sizes = components(self.files.len(), &kept);
                let weight: usize = sizes.iter().map(|part| part.len() * part.len()).sum();
                let left = sizes.iter().map(Vec::len).max().unwrap_or(0);
                let names = self.names(from, to).map_or(0, Names::len);
                ((weight, names, skipped), Cut { from, to, left })
            };
            let best = (0..edges.len()).map(cost).min_by_key(|(cost, _)| *cost);
            let Some(((_, _, at), cut)) = best else { break };
            edges.swap_remove(at);
            cuts.push(cut);
            if cut.left == 0 {
                break;
            }
        }
        cuts
    }
}

/// The strongly connected components of more than one node (Tarjan), without recursion.
fn components(nodes: usize, edges: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let mut next = vec![Vec::new(); nodes];
    for (from, to) in edges {
        if let Some(list) = next.get_mut(*from) {
            list.push(*to);
        }
    }
    let mut search = Search { next, seen: vec![None; nodes], ..Search::default() };
    for (from, _) in edges {
        search.from(*from);
    }
    search.found
}

#[derive(Default)]
struct Search {
    next: Vec<Vec<usize>>,
    /// For each node: when it was reached, and the earliest one that is reached from it. Both are
    /// `usize::MAX` once its component is known.
    seen: Vec<Option<(usize, usize)>>,
    reached: usize,
    /// Nodes that belong to no component yet.
    open: Vec<usize>,
    found: Vec<Vec<usize>>,
}

impl Search {
    fn from(&mut self, start: usize) {
        // The way to where the search is; with each node how many of its edges were taken.
        let mut way = Vec::new();
        self.enter(start, &mut way);
        while let Some((node, taken)) = way.last_mut() {
            let node = *node;
            let next = self.next.get(node).and_then(|list| list.get(*taken)).copied();
            *taken += 1;
            match next {
                Some(next) if self.at(next).is_none() => self.enter(next, &mut way),
                Some(next) => self.lower(node, self.order(next)),
                None => {
                    way.pop();
                    self.leave(node);
                    if let Some((before, _)) = way.last() {
                        self.lower(*before, self.low(node));
                    }
                }
            }
        }
    }

    fn enter(&mut self, node: usize, way: &mut Vec<(usize, usize)>) {
        if let Some(seen @ None) = self.seen.get_mut(node) {
            *seen = Some((self.reached, self.reached));
            self.reached += 1;
            self.open.push(node);
            way.push((node, 0));
        }
    }

    /// Closes the component that began with this node, if one did.
    fn leave(&mut self, node: usize) {
        if self.low(node) == self.order(node)
            && let Some(at) = self.open.iter().position(|open| *open == node)
        {
            let mut component = self.open.split_off(at);
            for node in &component {
                self.close(*node);
            }
            if component.len() > 1 {
                component.sort_unstable();
                self.found.push(component);
            }
        }
    }

    fn close(&mut self, node: usize) {
        if let Some(seen) = self.seen.get_mut(node) {
            *seen = Some((usize::MAX, usize::MAX));
        }
    }

    fn lower(&mut self, node: usize, to: usize) {
        if let Some(Some((_, low))) = self.seen.get_mut(node) {
            *low = to.min(*low);
        }
    }

    fn at(&self, node: usize) -> Option<(usize, usize)> {
        self.seen.get(node).copied().flatten()
    }

    fn order(&self, node: usize) -> usize {
        self.at(node).map_or(usize::MAX, |(order, _)| order)
    }

    fn low(&self, node: usize) -> usize {
        self.at(node).map_or(usize::MAX, |(_, low)| low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(edges: &[(usize, usize)], want: &[&[usize]]) {
        let mut found = components(10, edges);
        found.sort();
        assert_eq!(found, want, "{edges:?}");
    }

    #[test]
    fn a_circle_is_what_leads_back_to_itself() {
        check(&[], &[]);
        check(&[(0, 1), (1, 2), (0, 2)], &[]);
        check(&[(0, 1), (1, 0)], &[&[0, 1]]);
        check(&[(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 3)], &[&[0, 1, 2], &[3, 4]]);
        check(&[(5, 0), (0, 1), (1, 2), (2, 0), (1, 0), (2, 6)], &[&[0, 1, 2]]);
        check(&[(0, 1), (1, 2), (2, 1), (2, 3), (3, 0)], &[&[0, 1, 2, 3]]);
    }

    #[test]
    fn the_first_cut_is_the_one_that_leaves_least() {
        let mut graph = Graph::new(vec![String::new(); 5]);
        // Two pairs in a ring: without a way within a pair only the other is left.
        for (from, to) in [(0, 1), (1, 0), (1, 2), (2, 3), (3, 2), (3, 4), (4, 0)] {
            graph.add(from, 1, to, "a");
        }
        let circle = [0, 1, 2, 3, 4];
        assert_eq!(graph.cuts(&circle, 1), [Cut { from: 0, to: 1, left: 2 }]);
        graph.add(0, 1, 1, "b");
        assert_eq!(graph.cuts(&circle, 1), [Cut { from: 2, to: 3, left: 2 }]);
        let lefts: Vec<usize> = graph.cuts(&circle, 3).iter().map(|cut| cut.left).collect();
        assert_eq!(lefts, [2, 0]);
    }
}
