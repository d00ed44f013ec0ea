//! From the text of a template to a checked plan of the directory it describes.
//!
//! Invariant: a `Template` can be generated: every name in it is resolved, nothing refers to
//! itself, and the number of its entries fits in 64 bits.

use std::collections::{BTreeMap, BTreeSet};

use ldap::description::is_attribute_description;
use ldap::dn::Dn;

use super::tags::{Piece, Shelf, Slot, Surroundings, parse_value};
use super::words::{FIRST_NAMES, LAST_NAMES, WordFiles, Words};
use super::{Reason, TemplateError, split_once_unescaped};

/// A checked template.
#[derive(Clone, Debug)]
pub struct Template {
    pub(crate) kinds: Vec<Kind>,
    /// Indexes of the branches among `kinds`, each with the number of its first entry.
    pub(crate) branches: Vec<(usize, u64)>,
    pub(crate) first_names: Words,
    pub(crate) last_names: Words,
    /// From one pair of first and last name to the next; has no divisor in common with their
    /// number, so that no pair comes twice before all were used.
    pub(crate) name_stride: u64,
    entries: u64,
}

/// What the command line may change about a template.
#[derive(Clone, Debug, Default)]
pub struct ParseOptions {
    /// Replaces the count of the first `subordinateTemplate` line.
    pub entries: Option<u64>,
    /// Replaces the values of constants: name, value.
    pub constants: Vec<(String, String)>,
}

/// A branch or template: how one sort of entry is made.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    /// The DN of a branch; `None` for a template, whose entries get theirs from `rdn`.
    pub(crate) dn: Option<String>,
    pub(crate) rdn: Vec<RdnPart>,
    pub(crate) lines: Vec<Line>,
    /// The attributes of the lines.
    pub(crate) slots: Vec<Slot>,
    /// The order in which lines are made: each after those it refers to.
    pub(crate) order: Vec<usize>,
    pub(crate) children: Vec<Placement>,
    /// Entries of one of this kind with all below it.
    pub(crate) size: u64,
    levels: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct RdnPart {
    pub(crate) attribute: String,
    pub(crate) slot: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) number: u32,
    pub(crate) attribute: String,
    pub(crate) pieces: Vec<Piece>,
}

/// `count` entries of a kind below their parent.
#[derive(Clone, Debug)]
pub(crate) struct Placement {
    pub(crate) kind: usize,
    pub(crate) count: u64,
}

impl Template {
    /// Reads and checks a template; `file` is its name for messages.
    ///
    /// # Errors
    /// The first fault found, with its line.
    pub fn parse(
        file: &str,
        text: &str,
        files: &dyn WordFiles,
        options: &ParseOptions,
    ) -> Result<Self, TemplateError> {
        let fault = |(line, reason): Fault| TemplateError {
            file: file.to_owned(),
            line,
            reason: reason.text,
            hint: reason.hint,
        };
        let sections = read_sections(text, options).map_err(fault)?;
        compile(&sections, files).map_err(fault)
    }

    /// The number of the first entry that a `subordinateTemplate` line of a branch makes.
    #[must_use]
    pub fn first_subordinate(&self) -> Option<u64> {
        let with_children =
            |(kind, _): &&(usize, u64)| self.kinds.get(*kind).is_some_and(|kind| kind.size > 1);
        self.branches.iter().find(with_children).map(|(_, first)| first + 1)
    }

    /// How many entries the template yields.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// How many entries one thread makes in a row: few where an entry has many values.
    #[must_use]
    pub fn entries_at_once(&self) -> u64 {
        let lines = self.kinds.iter().flat_map(|kind| &kind.lines);
        let counts = lines.flat_map(|line| &line.pieces).map(|piece| match piece {
            Piece::Distinct { count, .. } => *count,
            _ => 1,
        });
        (VALUES_AT_ONCE / counts.max().unwrap_or(1).max(1)).clamp(1, ENTRIES_AT_ONCE)
    }
}

/// A reason with the line it belongs to.
type Fault = (u32, Reason);

/// A branch or template as written.
struct Section {
    line: u32,
    head: Head,
    rdn: Vec<String>,
    extends: Option<(String, u32)>,
    children: Vec<Child>,
    lines: Vec<RawLine>,
}

enum Head {
    Branch(String),
    Template(String),
}

struct Child {
    line: u32,
    template: String,
    count: u64,
}

#[derive(Clone)]
struct RawLine {
    number: u32,
    attribute: String,
    value: String,
}

fn read_sections(text: &str, options: &ParseOptions) -> Result<Vec<Section>, Fault> {
    if text.len() > TEMPLATE_SIZE_MAX_BYTES {
        let reason = format!("a template may have at most {TEMPLATE_SIZE_MAX_BYTES} bytes");
        return Err((0, Reason::new(reason)));
    }
    let mut reader = SectionReader { constants: Constants::new(options), sections: Vec::new() };
    for (number, line) in joined_lines(text) {
        reader.line(number, &line).map_err(|reason| (number, reason))?;
    }
    reader.constants.check_overrides().map_err(|reason| (0, reason))?;
    let mut sections = reader.sections;
    if let Some(entries) = options.entries {
        let mut children = sections.iter_mut().flat_map(|section| &mut section.children);
        match children.next() {
            Some(child) => child.count = entries,
            None => return Err((0, Reason::new("there is no subordinateTemplate line to count"))),
        }
    }
    Ok(sections)
}

/// The lines with their numbers; comments left out, continuation lines joined as in LDIF.
fn joined_lines(text: &str) -> Vec<(u32, String)> {
    let mut lines: Vec<(u32, String)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.starts_with('#') {
            continue;
        }
        match (line.strip_prefix([' ', '\t']), lines.last_mut()) {
            (Some(more), Some((_, line))) if !line.is_empty() && !more.trim().is_empty() => {
                line.push_str(more);
            }
            _ => lines.push((number, line.trim().to_owned())),
        }
    }
    lines
}

struct SectionReader {
    constants: Constants,
    sections: Vec<Section>,
}

impl SectionReader {
    fn line(&mut self, number: u32, line: &str) -> Result<(), Reason> {
        if line.is_empty() {
            return Ok(());
        }
        if let Some(definition) = keyword(line, "define ") {
            return self.constants.define(definition);
        }
        let line = self.constants.expand(line)?;
        let Some((name, value)) = line.split_once(':') else {
            return Err(Reason::new(format!("'{line}' is not of the form 'name: value'")));
        };
        let (name, value) = (name.trim(), value.trim());
        let head = match name.to_ascii_lowercase().as_str() {
            "branch" => Head::Branch(value.replace("\\[", "[")),
            "template" => Head::Template(value.to_owned()),
            keyword => return self.body_line(number, keyword, name, value),
        };
        if value.is_empty() {
            return Err(Reason::new(format!("'{name}:' needs a name")));
        }
        if self.sections.len() >= SECTIONS_MAX {
            return Err(Reason::new(format!("more than {SECTIONS_MAX} branches and templates")));
        }
        self.sections.push(Section {
            line: number,
            head,
            rdn: Vec::new(),
            extends: None,
            children: Vec::new(),
            lines: Vec::new(),
        });
        Ok(())
    }

    fn body_line(
        &mut self,
        number: u32,
        keyword: &str,
        name: &str,
        value: &str,
    ) -> Result<(), Reason> {
        let Some(section) = self.sections.last_mut() else {
            return Err(Reason::new(format!("'{name}:' comes before any branch or template"))
                .hint("start with 'branch: <dn>' or 'template: <name>'"));
        };
        match keyword {
            "rdnattr" => {
                section.rdn = value.split('+').map(|name| name.trim().to_owned()).collect();
            }
            "extends" => section.extends = Some((value.to_owned(), number)),
            "subordinatetemplate" if section.children.len() >= CHILDREN_MAX => {
                let reason = format!("more than {CHILDREN_MAX} subordinateTemplate lines in a row");
                return Err(Reason::new(reason));
            }
            "subordinatetemplate" => section.children.push(child(number, value)?),
            _ => {
                if !is_attribute_description(name) {
                    return Err(Reason::new(format!("'{name}' is not an attribute description")));
                }
                if section.lines.len() >= LINES_MAX {
                    return Err(Reason::new(format!(
                        "more than {LINES_MAX} lines in one template"
                    )));
                }
                section.lines.push(RawLine {
                    number,
                    attribute: name.to_owned(),
                    value: value.to_owned(),
                });
            }
        }
        Ok(())
    }
}

fn keyword<'t>(line: &'t str, keyword: &str) -> Option<&'t str> {
    let (head, rest) = line.split_at_checked(keyword.len())?;
    head.eq_ignore_ascii_case(keyword).then_some(rest)
}

/// `name:count`.
fn child(line: u32, value: &str) -> Result<Child, Reason> {
    let form = "write 'subordinateTemplate: name:count'";
    let Some((template, count)) = value.rsplit_once(':') else {
        return Err(Reason::new(format!("'{value}' has no count")).hint(form));
    };
    let Ok(count) = count.trim().replace('_', "").parse() else {
        return Err(Reason::new(format!("'{count}' is not a count of entries")).hint(form));
    };
    Ok(Child { line, template: template.trim().to_owned(), count })
}

struct Constants {
    defined: BTreeMap<String, String>,
    overrides: BTreeMap<String, String>,
}

impl Constants {
    fn new(options: &ParseOptions) -> Self {
        let overrides = options
            .constants
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value.clone()))
            .collect();
        Self { defined: BTreeMap::new(), overrides }
    }

    /// `name=value`.
    fn define(&mut self, definition: &str) -> Result<(), Reason> {
        let Some((name, value)) = definition.split_once('=') else {
            return Err(Reason::new(format!("'{definition}' is not of the form 'name=value'")));
        };
        if self.defined.len() >= CONSTANTS_MAX {
            return Err(Reason::new(format!("more than {CONSTANTS_MAX} constants")));
        }
        let name = name.trim().to_ascii_lowercase();
        let value = match self.overrides.get(&name) {
            Some(value) => value.clone(),
            None => self.expand(value.trim())?,
        };
        if self.defined.insert(name.clone(), value).is_some() {
            return Err(Reason::new(format!("'{name}' is defined twice")));
        }
        Ok(())
    }

    /// Puts the values of constants in place of their `[names]`.
    fn expand(&self, line: &str) -> Result<String, Reason> {
        let mut expanded = String::with_capacity(line.len());
        let mut rest = line;
        while let Some((text, behind)) = split_once_unescaped(rest, '[') {
            let Some((name, behind)) = behind.split_once(']') else {
                return Err(
                    Reason::new("'[' without ']'").hint("write '\\[' for the character itself")
                );
            };
            let Some(value) = self.defined.get(&name.trim().to_ascii_lowercase()) else {
                return Err(Reason::new(format!("there is no constant '{name}'")).hint(format!(
                    "write 'define {name}=value' above, or '\\[' for the character itself"
                )));
            };
            expanded.push_str(text);
            expanded.push_str(value);
            rest = behind;
            if expanded.len() > LINE_LENGTH_MAX_BYTES {
                let reason = format!("the line is longer than {LINE_LENGTH_MAX_BYTES} bytes");
                return Err(Reason::new(reason));
            }
        }
        expanded.push_str(rest);
        Ok(expanded)
    }

    /// A constant given on the command line must exist.
    fn check_overrides(&self) -> Result<(), Reason> {
        match self.overrides.keys().find(|name| !self.defined.contains_key(*name)) {
            None => Ok(()),
            Some(name) => {
                let known: Vec<&str> = self.defined.keys().map(String::as_str).collect();
                let reason = Reason::new(format!("the template defines no constant '{name}'"));
                Err(reason.hint(format!("it defines: {}", known.join(", "))))
            }
        }
    }
}

fn compile(sections: &[Section], files: &dyn WordFiles) -> Result<Template, Fault> {
    let mut names = BTreeMap::new();
    for (index, section) in sections.iter().enumerate() {
        if let Head::Template(name) = &section.head
            && names.insert(name.to_ascii_lowercase(), index).is_some()
        {
            let reason = Reason::new(format!("template '{name}' is defined twice"));
            return Err((section.line, reason));
        }
    }
    let shelf = Shelf::new(files);
    let mut kinds = Vec::with_capacity(sections.len());
    let mut lines_total = 0;
    for section in sections {
        let kind = compile_section(section, sections, &names, &shelf)?;
        lines_total += kind.lines.len();
        if lines_total > LINES_TOTAL_MAX {
            let reason = format!("more than {LINES_TOTAL_MAX} lines with those of 'extends'");
            return Err((section.line, Reason::new(reason)));
        }
        kinds.push(kind);
    }
    for (index, section) in sections.iter().enumerate() {
        measure(&mut kinds, index, 1).map_err(|reason| (section.line, reason))?;
    }
    let mut entries = 0_u64;
    let mut branches = Vec::new();
    for (index, kind) in kinds.iter().enumerate().filter(|(_, kind)| kind.dn.is_some()) {
        branches.push((index, entries));
        entries = entries.checked_add(kind.size).ok_or_else(|| (0, too_many_entries()))?;
    }
    if branches.is_empty() {
        return Err((0, Reason::new("there is no branch").hint("add a line 'branch: <dn>'")));
    }
    let names = |list| shelf.words(list).map_err(|reason| (0, reason));
    let (first_names, last_names) = (names(FIRST_NAMES)?, names(LAST_NAMES)?);
    let name_stride = stride(first_names.count() * last_names.count());
    Ok(Template { kinds, branches, first_names, last_names, name_stride, entries })
}

/// A step coprime to `pairs`, near its golden section so that neighbours look unlike each other.
fn stride(pairs: u64) -> u64 {
    let golden = (u128::from(pairs) * 618_033_988 / 1_000_000_000) as u64;
    (golden.max(1)..pairs).find(|step| greatest_common_divisor(*step, pairs) == 1).unwrap_or(1)
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn too_many_entries() -> Reason {
    Reason::new("the template yields more than 2^64 entries")
}

fn compile_section(
    section: &Section,
    sections: &[Section],
    names: &BTreeMap<String, usize>,
    shelf: &Shelf<'_>,
) -> Result<Kind, Fault> {
    let ancestry = ancestry(section, sections, names)?;
    let mut raw: Vec<RawLine> =
        ancestry.iter().flat_map(|section| section.lines.iter().cloned()).collect();
    let mut rdn: Vec<String> = Vec::new();
    let mut children = Vec::new();
    for section in &ancestry {
        if !section.rdn.is_empty() {
            rdn.clone_from(&section.rdn);
        }
        for child in &section.children {
            let Some(kind) = names.get(&child.template.to_ascii_lowercase()) else {
                let reason = format!("there is no template '{}'", child.template);
                return Err((child.line, Reason::new(reason)));
            };
            children.push(Placement { kind: *kind, count: child.count });
        }
    }
    let dn = match &section.head {
        Head::Template(_) => None,
        Head::Branch(dn) => {
            complete_branch(dn, section.line, &mut raw)?;
            Some(dn.clone())
        }
    };
    let slots = slots(&raw);
    let rdn = match dn {
        Some(_) => Vec::new(),
        None => rdn_parts(&rdn, &slots).map_err(|reason| (section.line, reason))?,
    };
    let mut lines = Vec::with_capacity(raw.len());
    for (line, raw) in raw.into_iter().enumerate() {
        let around = Surroundings { slots: &slots, line, shelf };
        let pieces = parse_value(&raw.value, &around).map_err(|reason| (raw.number, reason))?;
        lines.push(Line { number: raw.number, attribute: raw.attribute, pieces });
    }
    let order = order(&lines, &slots, &rdn)?;
    refuse_references_to_many(&lines, &slots, &rdn)?;
    Ok(Kind { dn, rdn, lines, slots, order, children, size: 0, levels: 0 })
}

fn slots(lines: &[RawLine]) -> Vec<Slot> {
    let mut slots: Vec<Slot> = Vec::new();
    for (line, raw) in lines.iter().enumerate() {
        match slots.iter_mut().find(|slot| slot.attribute.eq_ignore_ascii_case(&raw.attribute)) {
            Some(slot) => slot.lines.push(line),
            None => slots
                .push(Slot { attribute: raw.attribute.to_ascii_lowercase(), lines: vec![line] }),
        }
    }
    slots
}

/// The section and those it extends, the outermost first.
fn ancestry<'s>(
    section: &'s Section,
    sections: &'s [Section],
    names: &BTreeMap<String, usize>,
) -> Result<Vec<&'s Section>, Fault> {
    let mut chain = vec![section];
    let mut last = section;
    while let Some((name, line)) = &last.extends {
        let next = names.get(&name.to_ascii_lowercase()).and_then(|index| sections.get(*index));
        let Some(next) = next else {
            return Err((*line, Reason::new(format!("there is no template '{name}'"))));
        };
        if chain.len() >= LEVELS_MAX {
            let reason = format!("templates extend each other over {LEVELS_MAX} times");
            return Err((*line, Reason::new(reason).hint("does one extend itself?")));
        }
        chain.push(next);
        last = next;
    }
    chain.reverse();
    Ok(chain)
}

/// Adds to a branch what its DN implies: the attributes of its RDN and the object classes.
fn complete_branch(dn: &str, number: u32, lines: &mut Vec<RawLine>) -> Result<(), Fault> {
    let parsed = Dn::parse(dn).map_err(|error| {
        (number, Reason::new(format!("'{dn}' is not a distinguished name: {error}")))
    })?;
    let Some(rdn) = parsed.rdns().first() else {
        return Err((number, Reason::new("a branch needs a distinguished name")));
    };
    let mut implied = Vec::new();
    let line = |attribute: &str, value: &str| RawLine {
        number,
        attribute: attribute.to_owned(),
        value: super::escape(value),
    };
    for ava in rdn.avas() {
        let value = str::from_utf8(&ava.value)
            .map_err(|_| (number, Reason::new("the RDN of a branch must be text")))?;
        implied.push(line(&ava.attribute, value));
    }
    let given = |name: &str, lines: &[RawLine]| {
        lines.iter().any(|l| l.attribute.eq_ignore_ascii_case(name))
    };
    if !given("objectClass", lines) {
        let class = rdn.avas().first().map_or("", |ava| ava.attribute.as_str());
        let class = BRANCH_CLASSES.iter().find(|(name, _)| name.eq_ignore_ascii_case(class));
        let Some((_, class)) = class else {
            let names: Vec<&str> = BRANCH_CLASSES.iter().map(|(name, _)| *name).collect();
            return Err((
                number,
                Reason::new("the branch needs objectClass lines").hint(format!(
                    "only branches named by {} get theirs automatically",
                    names.join(", ")
                )),
            ));
        };
        lines.splice(0..0, [line("objectClass", "top"), line("objectClass", class)]);
    }
    implied.retain(|line| !given(&line.attribute, lines));
    lines.append(&mut implied);
    Ok(())
}

fn rdn_parts(names: &[String], slots: &[Slot]) -> Result<Vec<RdnPart>, Reason> {
    if names.is_empty() {
        return Err(Reason::new("the template has no rdnAttr line")
            .hint("add 'rdnAttr: uid', or whichever attribute names its entries"));
    }
    let part = |name: &String| {
        let place = slots.iter().position(|slot| slot.attribute.eq_ignore_ascii_case(name));
        let slot = place.ok_or_else(|| {
            Reason::new(format!("no line of this template gives the rdnAttr '{name}' a value"))
        })?;
        Ok(RdnPart { attribute: name.clone(), slot })
    };
    names.iter().map(part).collect()
}

/// Each line after those it refers to, otherwise as written.
fn order(lines: &[Line], slots: &[Slot], rdn: &[RdnPart]) -> Result<Vec<usize>, Fault> {
    let needs: Vec<Vec<usize>> = (0..).zip(lines).map(|(at, l)| needs(at, l, slots, rdn)).collect();
    let mut made = vec![false; lines.len()];
    let mut order = Vec::with_capacity(lines.len());
    while order.len() < lines.len() {
        let before = order.len();
        for (index, needs) in needs.iter().enumerate() {
            let ready = needs.iter().all(|need| made.get(*need).copied().unwrap_or(true));
            if let Some(made) = made.get_mut(index)
                && !*made
                && ready
            {
                *made = true;
                order.push(index);
            }
        }
        if order.len() == before {
            let stuck = lines.iter().zip(&made).find(|(_, made)| !**made);
            let number = stuck.map_or(0, |(line, _)| line.number);
            return Err((number, Reason::new("the value depends on itself")));
        }
    }
    Ok(order)
}

/// The lines that must be made before line `at`; of its own attribute only those above it.
fn needs(at: usize, line: &Line, slots: &[Slot], rdn: &[RdnPart]) -> Vec<usize> {
    let mut needs = BTreeSet::new();
    for piece in &line.pieces {
        match piece {
            Piece::Attribute { slot, .. } | Piece::If { slot, .. } => {
                needs.insert(*slot);
            }
            Piece::Dn { .. } | Piece::Rdn => needs.extend(rdn.iter().map(|part| part.slot)),
            Piece::Text(_)
            | Piece::First
            | Piece::Last
            | Piece::Sequential { .. }
            | Piece::Number { .. }
            | Piece::Letters { .. }
            | Piece::Telephone
            | Piece::Month { .. }
            | Piece::Boolean
            | Piece::Guid
            | Piece::Word(_)
            | Piece::NextWord(_)
            | Piece::Choice(_)
            | Piece::Presence { .. }
            | Piece::ParentDn
            | Piece::Distinct { .. } => {}
        }
    }
    let lines = |slot: &usize| {
        let lines = slots.get(*slot).map_or(&[][..], |slot| &slot.lines);
        let own = lines.contains(&at);
        lines.iter().copied().filter(move |line| !own || *line < at)
    };
    needs.iter().flat_map(lines).collect()
}

/// A line with many values can be no part of a name, and no other line may refer to it.
fn refuse_references_to_many(lines: &[Line], slots: &[Slot], rdn: &[RdnPart]) -> Result<(), Fault> {
    let has_many = |at: usize| {
        let pieces = lines.get(at).map_or(&[][..], |line| &line.pieces);
        pieces.iter().any(|piece| matches!(piece, Piece::Distinct { .. }))
    };
    let named =
        rdn.iter().flat_map(|part| slots.get(part.slot).map_or(&[][..], |slot| &slot.lines));
    for (at, line) in lines.iter().enumerate() {
        if needs(at, line, slots, rdn).into_iter().any(has_many) {
            let reason = "the value refers to an attribute that has many values by <distinct>";
            return Err((line.number, Reason::new(reason)));
        }
    }
    match named.copied().find(|at| has_many(*at)) {
        Some(at) => {
            let number = lines.get(at).map_or(0, |line| line.number);
            Err((number, Reason::new("an rdnAttr cannot have many values by <distinct>")))
        }
        None => Ok(()),
    }
}

/// Fills in size and levels of a kind and all below it.
///
/// Recursion ends at `LEVELS_MAX`, also when templates stand below themselves.
fn measure(kinds: &mut [Kind], index: usize, depth: usize) -> Result<(u64, usize), Reason> {
    let too_deep = || {
        Reason::new(format!("templates are nested more than {LEVELS_MAX} levels deep"))
            .hint("does a subordinateTemplate lead back to its own template?")
    };
    let children = match kinds.get(index) {
        Some(kind) if kind.size > 0 => return Ok((kind.size, kind.levels)),
        Some(kind) if depth <= LEVELS_MAX => kind.children.clone(),
        _ => return Err(too_deep()),
    };
    let (mut size, mut levels) = (1_u64, 1);
    for child in children {
        let (child_size, child_levels) = measure(kinds, child.kind, depth + 1)?;
        size = child_size
            .checked_mul(child.count)
            .and_then(|below| size.checked_add(below))
            .ok_or_else(too_many_entries)?;
        levels = levels.max(child_levels + 1);
    }
    if levels > LEVELS_MAX {
        return Err(too_deep());
    }
    if let Some(kind) = kinds.get_mut(index) {
        (kind.size, kind.levels) = (size, levels);
    }
    Ok((size, levels))
}

/// The structural object class of a branch named by an attribute.
const BRANCH_CLASSES: &[(&str, &str)] = &[
    ("c", "country"),
    ("cn", "applicationProcess"),
    ("dc", "domain"),
    ("l", "locality"),
    ("o", "organization"),
    ("ou", "organizationalUnit"),
];

/// Values of one line that one thread makes in a row, and entries.
const VALUES_AT_ONCE: u64 = 50_000;
const ENTRIES_AT_ONCE: u64 = 1_000;
/// The text of one template.
const TEMPLATE_SIZE_MAX_BYTES: usize = 1 << 20;
/// One line after its constants were put in.
const LINE_LENGTH_MAX_BYTES: usize = 16_384;
/// Constants of one file.
const CONSTANTS_MAX: usize = 1_000;
/// `subordinateTemplate` lines of one branch or template.
const CHILDREN_MAX: usize = 100;
/// Branches and templates of one file.
const SECTIONS_MAX: usize = 1_000;
/// Attribute lines of one branch or template, without those it extends.
const LINES_MAX: usize = 1_000;
/// Attribute lines of all branches and templates, with those they extend.
const LINES_TOTAL_MAX: usize = 10_000;
/// Templates below each other, and templates that extend each other.
pub(crate) const LEVELS_MAX: usize = 16;
