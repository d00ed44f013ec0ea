//! What one file says: its modules, its items, what it imports, and which paths it names.
//!
//! Invariant: nothing of a test is among them.

use std::collections::HashSet;

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};

use super::product::{attributes, is_test};

/// How tests begin.
const TESTS: &str = "\n#[cfg(test)]\nmod tests {\n";

/// A module, as its file or its braces give it.
#[derive(Debug, Default)]
pub(super) struct Module {
    pub(super) name: String,
    /// The modules in braces.
    pub(super) inline: Vec<Self>,
    /// The modules in files of their own.
    pub(super) declared: Vec<Declared>,
    pub(super) items: Vec<Defined>,
    pub(super) imports: Vec<Import>,
    pub(super) names: Vec<Name>,
    /// A macro is called where items stand, and may define some that cannot be seen here.
    pub(super) has_unseen_items: bool,
}

/// A module in a file of its own.
#[derive(Debug)]
pub(super) struct Declared {
    pub(super) name: String,
    /// Where `#[path]` has it.
    pub(super) path: Option<String>,
}

#[derive(Debug)]
pub(super) struct Defined {
    pub(super) name: String,
    pub(super) is_macro: bool,
}

/// One name of a `use`, or one star.
#[derive(Debug)]
pub(super) struct Import {
    pub(super) path: Vec<String>,
    /// None for a star and for `as _`.
    pub(super) name: Option<String>,
    pub(super) is_glob: bool,
    /// Others may import it from here.
    pub(super) is_reexport: bool,
    pub(super) line: usize,
}

/// A path where it stands in code.
#[derive(Debug)]
pub(super) struct Name {
    pub(super) path: Vec<String>,
    pub(super) is_macro: bool,
    pub(super) line: usize,
}

/// Reads a file.
pub(super) fn read(text: &str) -> Result<Module, String> {
    let file = syn::parse_file(without_tests(text))
        .map_err(|error| format!("line {}: {error}", error.span().start().line))?;
    match is_test(&file.attrs) {
        true => Ok(Module::default()),
        false => Ok(module(String::new(), &file.items)),
    }
}

/// The file up to its tests, when they are the last in it: what is not read costs no time.
fn without_tests(text: &str) -> &str {
    let last = text.split_once(TESTS).filter(|(_, tests)| {
        // The line that closes the module is the last one.
        tests.find("\n}\n").is_some_and(|at| at + "\n}\n".len() == tests.len())
    });
    last.map_or(text, |(product, _)| product)
}

fn module(name: String, items: &[Item]) -> Module {
    let module = Module { name, ..Module::default() };
    let mut reader = Reader { module, locals: HashSet::new(), depth: 0 };
    for item in items {
        let mut locals = Locals(HashSet::new());
        locals.visit_item(item);
        reader.locals = locals.0;
        reader.visit_item(item);
    }
    reader.module
}

/// The variables of an item: a path of one word may be one.
struct Locals(HashSet<String>);

impl<'ast> Visit<'ast> for Locals {
    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        self.0.insert(pattern.ident.to_string());
        visit::visit_pat_ident(self, pattern);
    }
}

struct Reader {
    module: Module,
    locals: HashSet<String>,
    /// How many items stand around: 0 in the module itself.
    depth: usize,
}

impl Reader {
    fn define(&mut self, item: &Item) {
        let (ident, is_macro) = match item {
            Item::Const(item) => (&item.ident, false),
            Item::Enum(item) => (&item.ident, false),
            Item::Fn(item) => (&item.sig.ident, false),
            Item::Static(item) => (&item.ident, false),
            Item::Struct(item) => (&item.ident, false),
            Item::Trait(item) => (&item.ident, false),
            Item::TraitAlias(item) => (&item.ident, false),
            Item::Type(item) => (&item.ident, false),
            Item::Union(item) => (&item.ident, false),
            Item::Macro(syn::ItemMacro { ident: Some(ident), .. }) => (ident, true),
            Item::Macro(_) => {
                self.module.has_unseen_items = true;
                return;
            }
            _ => return,
        };
        self.module.items.push(Defined { name: word(ident), is_macro });
    }

    fn submodule(&mut self, item: &syn::ItemMod) {
        let name = word(&item.ident);
        match &item.content {
            Some((_, items)) => self.module.inline.push(module(name, items)),
            None => self.module.declared.push(Declared { name, path: path_of(&item.attrs) }),
        }
    }

    fn import(&mut self, item: &syn::ItemUse) {
        if item.leading_colon.is_none() {
            let is_reexport = !matches!(item.vis, syn::Visibility::Inherited);
            let line = item.use_token.span.start().line;
            flatten(&item.tree, &mut Vec::new(), &mut |path, name, is_glob| {
                let path = path.to_vec();
                self.module.imports.push(Import { path, name, is_glob, is_reexport, line });
            });
        }
    }

    fn name(&mut self, path: Vec<String>, is_macro: bool, line: usize) {
        let is_local = match path.as_slice() {
            [word] => !is_macro && is_lower(word) && self.locals.contains(word),
            _ => false,
        };
        if !is_local {
            self.module.names.push(Name { path, is_macro, line });
        }
    }

    /// The paths in the tokens of a macro, as far as they can be told.
    fn tokens(&mut self, stream: TokenStream) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        let mut rest = trees.as_slice();
        let mut before = Before::Other;
        while let [first, after @ ..] = rest {
            rest = after;
            match first {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(ident) => {
                    let path = path_in_tokens(ident, &mut rest);
                    let is_macro = is_call(rest);
                    let is_field = path.len() == 1 && is_label(rest);
                    if before.allows(&path) && !is_field {
                        self.name(path, is_macro, ident.span().start().line);
                    }
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            before = Before::of(first, before);
        }
    }
}

/// Goes into what has attributes, unless it is there for tests alone.
macro_rules! unless_test {
    ($visit:ident, $type:ident) => {
        fn $visit(&mut self, part: &'ast syn::$type) {
            if !is_test(&part.attrs) {
                visit::$visit(self, part);
            }
        }
    };
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_test(attributes(item)) {
            return;
        }
        match item {
            Item::Mod(item) if item.ident == "tests" => {}
            Item::Mod(item) => self.submodule(item),
            Item::Use(item) => self.import(item),
            _ => {
                if self.depth == 0 {
                    self.define(item);
                }
                self.depth += 1;
                visit::visit_item(self, item);
                self.depth -= 1;
            }
        }
    }

    unless_test!(visit_impl_item_fn, ImplItemFn);
    unless_test!(visit_impl_item_const, ImplItemConst);
    unless_test!(visit_field, Field);
    unless_test!(visit_field_value, FieldValue);
    unless_test!(visit_variant, Variant);
    unless_test!(visit_arm, Arm);
    unless_test!(visit_local, Local);
    unless_test!(visit_stmt_macro, StmtMacro);
    unless_test!(visit_expr_block, ExprBlock);
    unless_test!(visit_expr_call, ExprCall);
    unless_test!(visit_expr_if, ExprIf);
    unless_test!(visit_expr_method_call, ExprMethodCall);
    unless_test!(visit_expr_try, ExprTry);

    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        // A constant, or a variant without fields.
        let name = pattern.ident.to_string();
        if !is_lower(&name) {
            self.name(vec![name], false, pattern.ident.span().start().line);
        }
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if let Some(first) = path.segments.first()
            && path.leading_colon.is_none()
        {
            let line = first.ident.span().start().line;
            let words = path.segments.iter().map(|segment| word(&segment.ident));
            self.name(words.collect(), false, line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        if let Some(first) = call.path.segments.first() {
            let words = call.path.segments.iter().map(|segment| word(&segment.ident));
            self.name(words.collect(), true, first.ident.span().start().line);
        }
        self.tokens(call.tokens.clone());
    }
}

/// What stands before a word in the tokens of a macro.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    /// `.`: the word is a field or a method.
    Dot,
    /// `..`, of a range.
    Dots,
    /// `$`: the word is an argument of the macro.
    Dollar,
    /// `::` that follows no word.
    Colon,
    Other,
}

impl Before {
    fn of(tree: &TokenTree, before: Self) -> Self {
        let TokenTree::Punct(punct) = tree else { return Self::Other };
        match punct.as_char() {
            '.' if before == Self::Dot => Self::Dots,
            '.' => Self::Dot,
            '$' => Self::Dollar,
            // A single one stands before types and values.
            ':' if punct.spacing() == proc_macro2::Spacing::Joint => Self::Colon,
            ':' if before == Self::Colon => Self::Colon,
            _ => Self::Other,
        }
    }

    fn allows(self, path: &[String]) -> bool {
        match self {
            Self::Dot | Self::Colon => false,
            Self::Dollar => path.first().is_some_and(|word| word == "crate"),
            Self::Dots | Self::Other => true,
        }
    }
}

/// The path that `first` begins; `rest` stands behind it afterwards.
fn path_in_tokens(first: &Ident, rest: &mut &[TokenTree]) -> Vec<String> {
    let mut path = vec![word(first)];
    while let [TokenTree::Punct(one), TokenTree::Punct(two), TokenTree::Ident(next), after @ ..] =
        *rest
        && one.as_char() == ':'
        && two.as_char() == ':'
    {
        path.push(word(next));
        *rest = after;
    }
    path
}

/// `!(…)` follows.
fn is_call(rest: &[TokenTree]) -> bool {
    matches!(rest, [TokenTree::Punct(bang), TokenTree::Group(group), ..]
        if bang.as_char() == '!' && group.delimiter() != Delimiter::None)
}

/// A single `:` or `=` follows, as behind the name of a field.
fn is_label(rest: &[TokenTree]) -> bool {
    matches!(rest, [TokenTree::Punct(punct), ..] if matches!(punct.as_char(), ':' | '=')
        && punct.spacing() == proc_macro2::Spacing::Alone)
}

/// Hands out each import of a `use`: path, name, whether it is a star.
fn flatten(
    tree: &UseTree,
    prefix: &mut Vec<String>,
    take: &mut impl FnMut(&[String], Option<String>, bool),
) {
    match tree {
        UseTree::Path(tree) => {
            prefix.push(word(&tree.ident));
            flatten(&tree.tree, prefix, take);
            prefix.pop();
        }
        UseTree::Name(tree) if tree.ident == "self" => {
            take(prefix, prefix.last().cloned(), false);
        }
        UseTree::Name(tree) => {
            let name = word(&tree.ident);
            let path = [prefix.as_slice(), std::slice::from_ref(&name)].concat();
            take(&path, Some(name), false);
        }
        UseTree::Rename(tree) => {
            let mut path = prefix.clone();
            if tree.ident != "self" {
                path.push(word(&tree.ident));
            }
            take(&path, Some(word(&tree.rename)).filter(|name| name != "_"), false);
        }
        UseTree::Glob(_) => take(prefix, None, true),
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, prefix, take);
            }
        }
    }
}

/// The value of `#[path = "…"]`.
fn path_of(attributes: &[Attribute]) -> Option<String> {
    let attribute = attributes.iter().find(|one| one.path().is_ident("path"))?;
    match &attribute.meta {
        syn::Meta::NameValue(syn::MetaNameValue {
            value: syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }),
            ..
        }) => Some(text.value()),
        _ => None,
    }
}

fn word(ident: &Ident) -> String {
    let text = ident.to_string();
    match text.strip_prefix("r#") {
        Some(raw) => raw.to_owned(),
        None => text,
    }
}

/// Whether a name is one of functions, modules and variables, not of types and constants.
pub(super) fn is_lower(name: &str) -> bool {
    !name.starts_with(char::is_uppercase)
}
