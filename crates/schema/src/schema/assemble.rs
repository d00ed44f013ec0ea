//! Builds a schema from definitions: looks up what they refer to, resolves what they inherit.

use std::hash::BuildHasher as _;
use std::sync::{Arc, OnceLock};

use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::{ContentRule, Schema};
use crate::attribute_type::{AttributeType, family_of};
use crate::definition::{
    AttributeTypeBody, Body, ClassKind, DEFINITION_COUNT_MAX, Definition, DefinitionKind,
    SUPERIOR_DEPTH_MAX,
};
use crate::description::AttributeDescription;
use crate::error::{DefinitionLocation, SchemaError, SchemaFault, subject};
use crate::file::Sourced;
use crate::matching_rule::MATCHING_RULES;
use crate::names::NameMap;
use crate::object_class::ObjectClass;
use crate::rules::{MatchingRule, RuleKind, Syntax};
use crate::secret::is_secret;
use crate::structure::{NameForm, SchemaElement, StructureRule, StructureRules};
use crate::syntax::SYNTAXES;
use crate::well_known::WellKnown;

type Fault<T> = Result<T, SchemaFault>;

impl Schema {
    /// Builds a schema of these definitions, whatever their order.
    pub(super) fn assemble(sources: Vec<Sourced>, generation: u64) -> Result<Self, SchemaError> {
        let mut sources = sources;
        let builder = Builder::new(&sources)?;
        let (types, classes) = (builder.types()?, builder.classes_in_order());
        let mut maker = ClassMaker { builder: &builder, types: &types, done: FxHashMap::default() };
        let mut object_classes = Vec::new();
        for index in classes {
            object_classes.push(maker.resolve(index, 0)?.0);
        }
        let rest = Rest::resolve(&builder, &types, &object_classes)?;
        let Builder { rules, syntaxes, .. } = builder;
        let (descriptions, classes) = (types.by_name, by_name(&object_classes));
        let well_known = WellKnown::find(|name| descriptions.get(name), |name| classes.get(name))
            .map_err(needed_by_server)?;
        sources.retain(|source| !is_own(&source.definition));
        Ok(Self {
            generation,
            attribute_types: types.in_order,
            object_classes,
            descriptions,
            classes,
            rules,
            syntaxes,
            other_oids: rest.oids,
            content_rules: rest.content_rules,
            structure_rules: StructureRules::new(rest.forms_in_use, rest.rules_in_use),
            well_known,
            subtypes: OnceLock::new(),
            sources,
        })
    }
}

/// Whether the server shows such a definition anyway, from its own tables.
fn is_own(definition: &Definition) -> bool {
    match definition.kind() {
        DefinitionKind::Syntax => SYNTAXES.iter().any(|syntax| syntax.oid == definition.oid),
        DefinitionKind::MatchingRule | DefinitionKind::MatchingRuleUse => true,
        DefinitionKind::AttributeType
        | DefinitionKind::ObjectClass
        | DefinitionKind::ContentRule
        | DefinitionKind::StructureRule
        | DefinitionKind::NameForm => false,
    }
}

fn needed_by_server(name: &str) -> SchemaError {
    SchemaError {
        place: DefinitionLocation::default(),
        subject: String::new(),
        fault: SchemaFault::NeededByServer(name.to_owned()),
    }
}

fn by_name(classes: &[Arc<ObjectClass>]) -> NameMap<Arc<ObjectClass>> {
    let mut map = NameMap::default();
    for class in classes {
        for name in class.names.iter().chain([&class.oid]) {
            map.insert(name, Arc::clone(class));
        }
    }
    map
}

/// The definitions, found by name, before anything is resolved.
struct Builder<'s> {
    sources: &'s [Sourced],
    /// Types and classes: indexes into `sources`.
    types: NameMap<usize>,
    classes: NameMap<usize>,
    forms: NameMap<usize>,
    structure_rules: NameMap<usize>,
    rules: NameMap<&'static MatchingRule>,
    syntaxes: NameMap<&'static Syntax>,
}

impl<'s> Builder<'s> {
    /// Refuses names and OIDs given twice, and what the server does not implement.
    fn new(sources: &'s [Sourced]) -> Result<Self, SchemaError> {
        let mut builder = Self {
            sources,
            types: NameMap::default(),
            classes: NameMap::default(),
            forms: NameMap::default(),
            structure_rules: NameMap::default(),
            rules: rules(),
            syntaxes: syntaxes(),
        };
        let mut oids = NameMap::default();
        for (index, source) in sources.iter().enumerate() {
            let (definition, place) = (&source.definition, &source.place);
            let checked = if index < DEFINITION_COUNT_MAX {
                builder.enter(index, definition, &mut oids)
            } else {
                Err(SchemaFault::TooMany)
            };
            checked.map_err(|fault| SchemaError::of(place, definition, fault))?;
        }
        Ok(builder)
    }

    fn enter(
        &mut self,
        index: usize,
        definition: &Definition,
        oids: &mut NameMap<usize>,
    ) -> Fault<()> {
        let names = match definition.kind() {
            DefinitionKind::Syntax => return self.enter_syntax(definition),
            DefinitionKind::MatchingRule => return self.implements_rule(definition),
            DefinitionKind::MatchingRuleUse => return Ok(()),
            // Its OID and, by custom, its name are those of a class.
            DefinitionKind::ContentRule => return Ok(()),
            DefinitionKind::StructureRule => {
                return match self.structure_rules.insert(&definition.oid, index) {
                    Some(other) => Err(SchemaFault::OidTaken(owner(self.sources, other))),
                    None => Ok(()),
                };
            }
            DefinitionKind::AttributeType => &mut self.types,
            DefinitionKind::ObjectClass => &mut self.classes,
            DefinitionKind::NameForm => &mut self.forms,
        };
        if let Some(other) = oids.insert(&definition.oid, index) {
            return Err(SchemaFault::OidTaken(owner(self.sources, other)));
        }
        names.insert(&definition.oid, index);
        for name in &definition.names {
            match names.insert(name, index) {
                Some(other) if other != index => {
                    let owner = owner(self.sources, other);
                    return Err(SchemaFault::NameTaken { name: name.clone(), owner });
                }
                Some(_) | None => {}
            }
        }
        Ok(())
    }

    /// A syntax must be one of the server's, or name one as its substitute.
    fn enter_syntax(&mut self, definition: &Definition) -> Fault<()> {
        if self.syntaxes.get(&definition.oid).is_some() {
            return Ok(());
        }
        let substitute = definition.extension("X-SUBST").and_then(|values| values.first());
        let syntax = substitute.and_then(|oid| self.syntaxes.get(oid).copied());
        let syntax = syntax.ok_or(SchemaFault::NotImplemented)?;
        self.syntaxes.insert(&definition.oid, syntax);
        Ok(())
    }

    fn implements_rule(&self, definition: &Definition) -> Fault<()> {
        match self.rules.get(&definition.oid) {
            Some(_) => Ok(()),
            None => Err(SchemaFault::NotImplemented),
        }
    }

    fn source(&self, index: usize) -> &'s Sourced {
        self.sources.get(index).expect("indexes come from enumerating the sources")
    }

    fn of_kind(&self, kind: DefinitionKind) -> impl Iterator<Item = (usize, &'s Sourced)> {
        let all = self.sources.iter().enumerate();
        all.filter(move |(_, source)| source.definition.kind() == kind)
    }

    fn classes_in_order(&self) -> Vec<usize> {
        self.of_kind(DefinitionKind::ObjectClass).map(|(index, _)| index).collect()
    }

    fn rule(
        &self,
        kind: RuleKind,
        role: &'static str,
        name: Option<&String>,
    ) -> Fault<Option<&'static MatchingRule>> {
        let Some(name) = name else { return Ok(None) };
        match self.rules.get(name) {
            Some(rule) if rule.kind == kind => Ok(Some(rule)),
            Some(_) => Err(SchemaFault::WrongRule { role, name: name.clone() }),
            None => Err(unknown("matching rule", name)),
        }
    }

    /// Resolves all attribute types.
    fn types(&self) -> Result<Types, SchemaError> {
        let mut done = FxHashMap::default();
        let mut types = Types { in_order: Vec::new(), by_name: NameMap::default() };
        for (index, _) in self.of_kind(DefinitionKind::AttributeType) {
            let (kind, _) = self.resolve_type(index, 0, &mut done)?;
            let description = Arc::new(AttributeDescription::plain(Arc::clone(&kind)));
            for name in kind.names.iter().chain([&kind.oid]) {
                types.by_name.insert(name, Arc::clone(&description));
            }
            types.in_order.push(kind);
        }
        Ok(types)
    }

    /// Resolves a type and its superiors; `depth` counts the types waiting for this one.
    fn resolve_type(
        &self,
        index: usize,
        depth: u32,
        done: &mut FxHashMap<usize, (Arc<AttributeType>, u32)>,
    ) -> Result<(Arc<AttributeType>, u32), SchemaError> {
        if let Some(known) = done.get(&index) {
            return Ok(known.clone());
        }
        let Sourced { definition, place } = self.source(index);
        let fail = |fault| SchemaError::of(place, definition, fault);
        let Body::AttributeType(body) = &definition.body else {
            return Err(fail(unknown("attribute type", definition.name())));
        };
        let superior = match &body.superior {
            None => None,
            Some(_) if depth >= SUPERIOR_DEPTH_MAX => return Err(fail(SchemaFault::EndlessChain)),
            Some(name) => {
                let index = self.types.get(name);
                let index = index.ok_or_else(|| fail(unknown("superior type", name)))?;
                Some(self.resolve_type(*index, depth + 1, done)?)
            }
        };
        let height = superior.as_ref().map_or(0, |(_, height)| height + 1);
        if height > SUPERIOR_DEPTH_MAX {
            return Err(fail(SchemaFault::EndlessChain));
        }
        let superior = superior.map(|(superior, _)| superior);
        let kind = self.attribute_type(definition, body, superior).map_err(fail)?;
        let kind = Arc::new(kind);
        done.insert(index, (Arc::clone(&kind), height));
        Ok((kind, height))
    }

    fn attribute_type(
        &self,
        definition: &Definition,
        body: &AttributeTypeBody,
        superior: Option<Arc<AttributeType>>,
    ) -> Fault<AttributeType> {
        let inherited = superior.as_deref();
        if inherited.is_some_and(|superior| superior.usage != body.usage) {
            return Err(SchemaFault::UsageDiffers);
        }
        if body.collective && (body.usage.is_operational() || body.single_value) {
            return Err(SchemaFault::BadCollective);
        }
        let syntax = match (&body.syntax, inherited) {
            (Some(oid), _) => {
                self.syntaxes.get(oid).copied().ok_or_else(|| unknown("syntax", oid))?
            }
            (None, Some(superior)) => superior.syntax,
            (None, None) => return Err(unknown("syntax", "")),
        };
        let equality = self.rule(RuleKind::Equality, "EQUALITY", body.equality.as_ref())?;
        let ordering = self.rule(RuleKind::Ordering, "ORDERING", body.ordering.as_ref())?;
        let substring = self.rule(RuleKind::Substring, "SUBSTR", body.substring.as_ref())?;
        let oid_hash = FxBuildHasher.hash_one(&definition.oid);
        let above = inherited.map_or(0, AttributeType::families);
        Ok(AttributeType {
            secret: is_secret(definition, inherited),
            key: definition.name().to_ascii_lowercase(),
            oid_hash,
            families: family_of(oid_hash) | above,
            oid: definition.oid.clone(),
            names: definition.names.clone(),
            description: definition.description.clone(),
            obsolete: definition.obsolete,
            equality: equality.or_else(|| inherited.and_then(|superior| superior.equality)),
            ordering: ordering.or_else(|| inherited.and_then(|superior| superior.ordering)),
            substring: substring.or_else(|| inherited.and_then(|superior| superior.substring)),
            syntax,
            length_max: body.length_max.or_else(|| inherited.and_then(|kind| kind.length_max)),
            single_value: body.single_value,
            collective: body.collective,
            no_user_modification: body.no_user_modification
                || inherited.is_some_and(|superior| superior.no_user_modification),
            usage: body.usage,
            extensions: definition.extensions.clone(),
            superior,
        })
    }
}

fn rules() -> NameMap<&'static MatchingRule> {
    let mut map = NameMap::default();
    for rule in MATCHING_RULES {
        map.insert(rule.oid, rule);
        map.insert(rule.name, rule);
    }
    map
}

fn syntaxes() -> NameMap<&'static Syntax> {
    let mut map = NameMap::default();
    for syntax in SYNTAXES {
        map.insert(syntax.oid, syntax);
    }
    map
}

fn unknown(role: &'static str, name: &str) -> SchemaFault {
    SchemaFault::Unknown { role, name: name.to_owned() }
}

fn owner(sources: &[Sourced], index: usize) -> String {
    let source = sources.get(index).expect("indexes come from enumerating the sources");
    format!("{} ({})", subject(&source.definition), source.place)
}

/// All attribute types, resolved.
struct Types {
    in_order: Vec<Arc<AttributeType>>,
    by_name: NameMap<Arc<AttributeDescription>>,
}

impl Types {
    fn find(&self, role: &'static str, names: &[String]) -> Fault<Vec<Arc<AttributeType>>> {
        let find = |name: &String| {
            let description = self.by_name.get(name).ok_or_else(|| unknown(role, name))?;
            Ok(Arc::clone(&description.kind))
        };
        names.iter().map(find).collect()
    }
}

/// Resolves object classes, superiors first.
struct ClassMaker<'b, 's> {
    builder: &'b Builder<'s>,
    types: &'b Types,
    done: FxHashMap<usize, (Arc<ObjectClass>, u32)>,
}

impl ClassMaker<'_, '_> {
    /// Resolves a class and its superiors; `depth` counts the classes waiting for this one.
    fn resolve(
        &mut self,
        index: usize,
        depth: u32,
    ) -> Result<(Arc<ObjectClass>, u32), SchemaError> {
        if let Some(known) = self.done.get(&index) {
            return Ok(known.clone());
        }
        let Sourced { definition, place } = self.builder.source(index);
        let fail = |fault| SchemaError::of(place, definition, fault);
        let Body::ObjectClass { superiors, .. } = &definition.body else {
            return Err(fail(unknown("object class", definition.name())));
        };
        if depth > SUPERIOR_DEPTH_MAX {
            return Err(fail(SchemaFault::EndlessChain));
        }
        let mut found = Vec::new();
        let mut height = 0;
        for name in superiors {
            let index = self.builder.classes.get(name).copied();
            let index = index.ok_or_else(|| fail(unknown("superior class", name)))?;
            let (superior, above) = self.resolve(index, depth + 1)?;
            height = height.max(above + 1);
            found.push(superior);
        }
        if height > SUPERIOR_DEPTH_MAX {
            return Err(fail(SchemaFault::EndlessChain));
        }
        let class = Arc::new(self.object_class(definition, found).map_err(fail)?);
        self.done.insert(index, (Arc::clone(&class), height));
        Ok((class, height))
    }

    fn object_class(
        &self,
        definition: &Definition,
        superiors: Vec<Arc<ObjectClass>>,
    ) -> Fault<ObjectClass> {
        let Body::ObjectClass { kind, must, may, .. } = &definition.body else {
            return Err(unknown("object class", definition.name()));
        };
        if let Some(bad) = superiors.iter().find(|superior| !kind.may_derive_from(superior.kind)) {
            return Err(SchemaFault::BadSuperiorKind(format!(
                "{} class '{}'",
                bad.kind.keyword(),
                bad.name()
            )));
        }
        let must = self.types.find("attribute type in MUST", must)?;
        let may = self.types.find("attribute type in MAY", may)?;
        Ok(ObjectClass {
            oid: definition.oid.clone(),
            names: definition.names.clone(),
            description: definition.description.clone(),
            obsolete: definition.obsolete,
            kind: *kind,
            all_must: union(superiors.iter().map(|superior| &superior.all_must).chain([&must])),
            all_may: union(superiors.iter().map(|superior| &superior.all_may).chain([&may])),
            ancestors: ancestors(&superiors),
            must,
            may,
            superiors,
            extensions: definition.extensions.clone(),
        })
    }
}

/// Joins lists of types, each type once.
fn union<'t>(lists: impl Iterator<Item = &'t Vec<Arc<AttributeType>>>) -> Vec<Arc<AttributeType>> {
    let mut seen = FxHashSet::default();
    lists.flatten().filter(|kind| seen.insert(kind.oid.as_str())).cloned().collect()
}

fn ancestors(superiors: &[Arc<ObjectClass>]) -> Vec<String> {
    let mut seen = FxHashSet::default();
    let all = superiors
        .iter()
        .flat_map(|superior| [&superior.oid].into_iter().chain(&superior.ancestors));
    all.filter(|oid| seen.insert(oid.as_str())).cloned().collect()
}

/// What refers to types and classes but nothing is derived from.
struct Rest {
    oids: NameMap<String>,
    content_rules: FxHashMap<String, ContentRule>,
    /// All name forms, by their place among the sources.
    forms: FxHashMap<usize, Arc<NameForm>>,
    forms_in_use: Vec<Arc<NameForm>>,
    rules_in_use: Vec<StructureRule>,
}

impl Rest {
    fn resolve(
        builder: &Builder<'_>,
        types: &Types,
        classes: &[Arc<ObjectClass>],
    ) -> Result<Self, SchemaError> {
        let mut rest = Self {
            oids: NameMap::default(),
            content_rules: FxHashMap::default(),
            forms: FxHashMap::default(),
            forms_in_use: Vec::new(),
            rules_in_use: Vec::new(),
        };
        let classes = by_name(classes);
        for (index, source) in builder.of_kind(DefinitionKind::NameForm) {
            let Sourced { definition, place } = source;
            let checked = rest.name_form(index, definition, types, &classes);
            checked.map_err(|fault| SchemaError::of(place, definition, fault))?;
        }
        for source in builder.sources {
            let Sourced { definition, place } = source;
            let checked = match &definition.body {
                Body::ContentRule { .. } => rest.content_rule(definition, types, &classes),
                Body::StructureRule { .. } => rest.structure_rule(builder, definition),
                Body::NameForm { .. }
                | Body::Syntax
                | Body::MatchingRule { .. }
                | Body::MatchingRuleUse { .. }
                | Body::AttributeType(_)
                | Body::ObjectClass { .. } => Ok(()),
            };
            checked.map_err(|fault| SchemaError::of(place, definition, fault))?;
        }
        Ok(rest)
    }

    fn content_rule(
        &mut self,
        definition: &Definition,
        types: &Types,
        classes: &NameMap<Arc<ObjectClass>>,
    ) -> Fault<()> {
        let Body::ContentRule { auxiliary, must, may, not } = &definition.body else {
            return Ok(());
        };
        let class = class_of_kind(classes, &definition.oid, ClassKind::Structural)?;
        let find = |name: &String| class_of_kind(classes, name, ClassKind::Auxiliary);
        let rule = ContentRule {
            auxiliary: auxiliary.iter().map(find).collect::<Fault<_>>()?,
            must: types.find("attribute type in MUST", must)?,
            may: types.find("attribute type in MAY", may)?,
            not: types.find("attribute type in NOT", not)?,
            class,
        };
        self.add_names(definition);
        let oid = rule.class.oid.clone();
        match self.content_rules.insert(oid, rule) {
            Some(_) => Err(SchemaFault::OidTaken("another DIT content rule".to_owned())),
            None => Ok(()),
        }
    }

    fn name_form(
        &mut self,
        index: usize,
        definition: &Definition,
        types: &Types,
        classes: &NameMap<Arc<ObjectClass>>,
    ) -> Fault<()> {
        let Body::NameForm { class, must, may } = &definition.body else { return Ok(()) };
        let class = class_of_kind(classes, class, ClassKind::Structural)?;
        let form = Arc::new(NameForm {
            name: definition.name().to_owned(),
            class: class.element(),
            must: elements(&types.find("attribute type", must)?),
            may: elements(&types.find("attribute type", may)?),
        });
        self.add_names(definition);
        if !definition.obsolete {
            self.forms_in_use.push(Arc::clone(&form));
        }
        self.forms.insert(index, form);
        Ok(())
    }

    fn structure_rule(&mut self, builder: &Builder<'_>, definition: &Definition) -> Fault<()> {
        let Body::StructureRule { form, superiors } = &definition.body else { return Ok(()) };
        let known = builder.forms.get(form).and_then(|index| self.forms.get(index));
        let known = known.ok_or_else(|| unknown("name form", form))?;
        for superior in superiors {
            let known = builder.structure_rules.get(superior);
            known.ok_or_else(|| unknown("superior rule", superior))?;
        }
        let number = |text: &String| text.parse().ok();
        if let Some(number_of) = number(&definition.oid).filter(|_| !definition.obsolete) {
            self.rules_in_use.push(StructureRule {
                number: number_of,
                name: definition.names.first().cloned(),
                form: Arc::clone(known),
                superiors: superiors.iter().filter_map(number).collect(),
            });
        }
        Ok(())
    }

    fn add_names(&mut self, definition: &Definition) {
        for name in &definition.names {
            self.oids.insert(name, definition.oid.clone());
        }
    }
}

fn elements(kinds: &[Arc<AttributeType>]) -> Vec<SchemaElement> {
    let element = |kind: &Arc<AttributeType>| SchemaElement {
        oid: kind.oid.clone(),
        name: kind.name().to_owned(),
    };
    kinds.iter().map(element).collect()
}

fn find_class(classes: &NameMap<Arc<ObjectClass>>, name: &str) -> Fault<Arc<ObjectClass>> {
    classes.get(name).cloned().ok_or_else(|| unknown("object class", name))
}

fn class_of_kind(
    classes: &NameMap<Arc<ObjectClass>>,
    name: &str,
    kind: ClassKind,
) -> Fault<Arc<ObjectClass>> {
    let class = find_class(classes, name)?;
    if class.kind == kind {
        return Ok(class);
    }
    let (class, wanted) = (class.name().to_owned(), kind.keyword());
    Err(SchemaFault::BadClassKind { class, wanted })
}
