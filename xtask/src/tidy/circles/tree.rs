//! The modules of a crate, and which file an item that a path names is defined in.
//!
//! Invariant: what a module only re-exports counts for the file behind it.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use super::facts::{self, Declared, Import, Module, is_lower};
use super::graph::Graph;

/// The modules of one crate.
pub(super) struct Tree {
    /// Relative to the root of the project.
    files: Vec<String>,
    modules: Vec<Node>,
    /// The name of the crate, and the module that other crates see.
    library: Option<(String, usize)>,
}

struct Node {
    file: usize,
    parent: Option<usize>,
    children: HashMap<String, usize>,
    facts: Module,
}

/// What a path names.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Target {
    Module(usize),
    Item { file: usize, name: String, is_macro: bool },
}

/// Imports that are being followed: module, and which of its imports.
type Trail = Vec<(usize, usize)>;

impl Tree {
    /// The modules of the crate in the folder `source`, from its `lib.rs` and `main.rs` on.
    pub(super) fn read(
        name: &str,
        source: &str,
        read: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let mut tree = Self { files: Vec::new(), modules: Vec::new(), library: None };
        for root in ["lib.rs", "main.rs"] {
            let path = format!("{source}/{root}");
            if let Some(text) = read(&path) {
                let at = tree.add_file(&path, &text, None, read)?;
                tree.library = tree.library.or_else(|| Some((name.replace('-', "_"), at)));
            }
        }
        Ok(tree)
    }

    fn add_file(
        &mut self,
        path: &str,
        text: &str,
        parent: Option<usize>,
        read: &dyn Fn(&str) -> Option<String>,
    ) -> Result<usize, String> {
        let facts = facts::read(text).map_err(|error| format!("{path}: {error}"))?;
        let file = self.files.len();
        self.files.push(path.to_owned());
        let owns_folder = parent.is_none() || path.ends_with("/mod.rs");
        let folder = match owns_folder {
            true => Path::new(path).parent().unwrap_or(Path::new("")).to_owned(),
            false => Path::new(path).with_extension(""),
        };
        self.add_module(facts, file, parent, &folder, read)
    }

    /// `folder` holds the files of the module's own modules.
    fn add_module(
        &mut self,
        mut facts: Module,
        file: usize,
        parent: Option<usize>,
        folder: &Path,
        read: &dyn Fn(&str) -> Option<String>,
    ) -> Result<usize, String> {
        let at = self.modules.len();
        let inline = std::mem::take(&mut facts.inline);
        let declared = std::mem::take(&mut facts.declared);
        self.modules.push(Node { file, parent, children: HashMap::new(), facts });
        for module in inline {
            let name = module.name.clone();
            let folder = folder.join(&name);
            let child = self.add_module(module, file, Some(at), &folder, read)?;
            self.set_child(at, name, child);
        }
        for module in declared {
            let from = self.files.get(file).map(String::as_str).unwrap_or_default();
            let paths = paths_of(&module, from, folder);
            let found = paths.into_iter().find_map(|path| read(&path).map(|text| (path, text)));
            let Some((path, text)) = found else {
                return Err(format!("{from}: no file for mod {}", module.name));
            };
            let child = self.add_file(&path, &text, Some(at), read)?;
            self.set_child(at, module.name, child);
        }
        Ok(at)
    }

    fn set_child(&mut self, at: usize, name: String, child: usize) {
        if let Some(node) = self.modules.get_mut(at) {
            node.children.insert(name, child);
        }
    }

    /// Which file names items of which other.
    pub(super) fn graph(&self) -> Graph {
        let mut graph = Graph::new(self.files.clone());
        for (at, node) in self.modules.iter().enumerate() {
            let mut add = |targets: Vec<Target>, line: usize| {
                for target in targets {
                    if let Target::Item { file, name, .. } = target {
                        graph.add(node.file, line, file, &name);
                    }
                }
            };
            for import in node.facts.imports.iter().filter(|import| !import.is_reexport) {
                add(self.resolve(at, &import.path, &mut Trail::new()), import.line);
            }
            for name in &node.facts.names {
                let mut targets = self.resolve(at, &name.path, &mut Trail::new());
                targets.retain(|target| match target {
                    Target::Item { is_macro, .. } => *is_macro == name.is_macro,
                    Target::Module(_) => false,
                });
                add(targets, name.line);
            }
        }
        graph
    }

    fn resolve(&self, from: usize, path: &[String], trail: &mut Trail) -> Vec<Target> {
        let Some((first, rest)) = path.split_first() else { return vec![Target::Module(from)] };
        let begin = match first.as_str() {
            "crate" => vec![Target::Module(self.root_of(from))],
            "self" => vec![Target::Module(from)],
            "super" => self.parent_of(from).map(Target::Module).into_iter().collect(),
            _ => self.first(from, first, trail),
        };
        rest.iter().fold(begin, |found, word| self.step(found, word, trail))
    }

    /// What the first word of a path names, if it is none of the language's own.
    fn first(&self, from: usize, word: &str, trail: &mut Trail) -> Vec<Target> {
        let found = self.look_up(from, word, trail);
        match &self.library {
            Some((name, root)) if found.is_empty() && name == word => vec![Target::Module(*root)],
            _ => found,
        }
    }

    /// What `word` names in what the path up to it names.
    fn step(&self, found: Vec<Target>, word: &str, trail: &mut Trail) -> Vec<Target> {
        let mut next = Vec::new();
        for target in found {
            match target {
                Target::Module(module) if word == "super" => {
                    next.extend(self.parent_of(module).map(Target::Module));
                }
                Target::Module(module) if word == "self" => next.push(Target::Module(module)),
                Target::Module(module) => next.extend(self.member(module, word, trail)),
                // A variant, a constant or a function of a type.
                Target::Item { ref name, is_macro: false, .. } if !is_lower(name) => {
                    next.push(target);
                }
                Target::Item { .. } => {}
            }
        }
        next
    }

    fn member(&self, module: usize, word: &str, trail: &mut Trail) -> Vec<Target> {
        let found = self.look_up(module, word, trail);
        match self.modules.get(module) {
            Some(node) if found.is_empty() && node.facts.has_unseen_items => {
                vec![Target::Item { file: node.file, name: word.to_owned(), is_macro: false }]
            }
            _ => found,
        }
    }

    /// What a name stands for in a module.
    fn look_up(&self, module: usize, word: &str, trail: &mut Trail) -> Vec<Target> {
        let Some(node) = self.modules.get(module) else { return Vec::new() };
        let mut found: Vec<Target> = Vec::new();
        found.extend(node.children.get(word).map(|child| Target::Module(*child)));
        for item in node.facts.items.iter().filter(|item| item.name == word) {
            let (name, is_macro) = (word.to_owned(), item.is_macro);
            found.push(Target::Item { file: node.file, name, is_macro });
        }
        let is_it = |import: &Import| import.name.as_deref() == Some(word);
        found.extend(self.follow(module, trail, is_it, |_, target| vec![target]));
        if found.is_empty() {
            let in_it = |trail: &mut Trail, target: Target| match target {
                Target::Module(module) => self.look_up(module, word, trail),
                // The variants of an enum.
                Target::Item { .. } => Vec::new(),
            };
            found = self.follow(module, trail, |import| import.is_glob, in_it);
        }
        found
    }

    /// What those imports of a module lead to, none twice on one way.
    fn follow(
        &self,
        module: usize,
        trail: &mut Trail,
        is_wanted: impl Fn(&Import) -> bool,
        take: impl Fn(&mut Trail, Target) -> Vec<Target>,
    ) -> Vec<Target> {
        let mut found = Vec::new();
        let imports = self.modules.get(module).map(|node| node.facts.imports.as_slice());
        for (at, import) in imports.into_iter().flatten().enumerate() {
            if is_wanted(import) && !trail.contains(&(module, at)) {
                trail.push((module, at));
                for target in self.resolve(module, &import.path, trail) {
                    found.extend(take(trail, target));
                }
                trail.pop();
            }
        }
        found.dedup();
        found
    }

    fn parent_of(&self, module: usize) -> Option<usize> {
        self.modules.get(module)?.parent
    }

    fn root_of(&self, mut module: usize) -> usize {
        while let Some(parent) = self.parent_of(module) {
            module = parent;
        }
        module
    }
}

/// Where the file of a module may be, declared in the file `from`.
fn paths_of(module: &Declared, from: &str, folder: &Path) -> Vec<String> {
    let paths = match &module.path {
        Some(path) => vec![Path::new(from).parent().unwrap_or(Path::new("")).join(path)],
        None => vec![
            folder.join(format!("{}.rs", module.name)),
            folder.join(&module.name).join("mod.rs"),
        ],
    };
    paths.iter().map(|path| without_dots(path)).collect()
}

fn without_dots(path: &Path) -> String {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            part => clean.push(part),
        }
    }
    clean.to_string_lossy().into_owned()
}
