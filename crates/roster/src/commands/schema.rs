//! `roster schema`: definitions that come with the server, switched on by name.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use client::{Connection, SearchFor};
use history::{SCHEMA_DIRECTORY, schema_of};
use ldap::filter::Filter;
use ldap::message::{ModifyOperation, Scope};
use schema::{Definition, DefinitionKind, SHIPPED, SchemaFile, ShippedSchema};

use crate::connect::OnlineOptions;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::whole_file::WholeFile;

/// List the schemas that come with the server, and switch them on: Samba, Kerberos, 389 and others.
///
/// With -H the definitions are added to a running server, and with it to all members of its
/// cluster, at once. With --data they are written into the directory 'schema' of a data directory
/// that no server uses, such as before an import.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
}

const EXAMPLES: &str = "\
Examples:
  roster schema list
  roster schema list -H ldap://localhost:1389 -W
  roster schema add samba dua-profile -H ldap://localhost:1389 -W
  roster schema add 389 --data ./data";

#[derive(Debug, Subcommand)]
enum Action {
    List(List),
    Add(Add),
}

/// List the schemas, with -H or --data which of them are on.
#[derive(Args, Debug)]
struct List {
    /// Print JSON
    #[arg(long)]
    json: bool,

    /// A data directory
    #[arg(long, value_name = "DIR", conflicts_with = "uri")]
    data: Option<PathBuf>,

    #[command(flatten)]
    server: OnlineOptions,
}

/// Switch schemas on; what is there already stays as it is.
#[derive(Args, Debug)]
struct Add {
    /// The schemas, by name
    #[arg(value_name = "NAME", required = true, value_parser = parse_name)]
    names: Vec<&'static ShippedSchema>,

    /// A data directory that no server uses
    #[arg(long, value_name = "DIR", conflicts_with = "uri", required_unless_present = "uri")]
    data: Option<PathBuf>,

    #[command(flatten)]
    server: OnlineOptions,
}

fn parse_name(name: &str) -> Result<&'static ShippedSchema, String> {
    ShippedSchema::named(name).ok_or_else(|| {
        let all = SHIPPED.iter().map(|one| one.name).collect::<Vec<_>>().join(", ");
        format!("there is no such schema; there are: {all}")
    })
}

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    match &options.action {
        Action::List(options) => list(options),
        Action::Add(Add { names, data: Some(data), .. }) => add_to_data(data, names),
        Action::Add(Add { names, server, data: None }) => match server.login()? {
            Some(login) => add_online(&mut login.connect()?, names),
            None => Err(Failure::local("name the target with --data or -H")),
        },
    }
}

fn list(options: &List) -> Result<Exit, Failure> {
    let known = match (&options.data, options.server.login()?) {
        (Some(data), _) => Some(Known::of_data(data)?),
        (None, Some(login)) => Some(Known::of_server(&mut login.connect()?)?),
        (None, None) => None,
    };
    let states = SHIPPED.iter().map(|one| Ok((one, state(one, known.as_ref())?)));
    let states: Vec<(&ShippedSchema, Option<&str>)> = states.collect::<Result<_, Failure>>()?;
    if options.json {
        let rows = states.iter().map(|(one, state)| {
            serde_json::json!({ "name": one.name, "about": one.about, "state": state })
        });
        output::json(&rows.collect::<Vec<_>>())?;
        return Ok(Exit::Done);
    }
    for (ShippedSchema { name, about, .. }, state) in states {
        let state = state.map(|state| format!("{state:<10} ")).unwrap_or_default();
        output::line(format_args!("{name:<12} {state}{about}"))?;
    }
    Ok(Exit::Done)
}

/// Whether a schema is on, as far as that is known.
fn state(shipped: &ShippedSchema, known: Option<&Known>) -> Result<Option<&'static str>, Failure> {
    if shipped.is_always_on() {
        return Ok(Some("always on"));
    }
    let Some(known) = known else { return Ok(None) };
    let all = definitions(&shipped.files())?;
    let missing = all.iter().filter(|one| !known.has(one)).count();
    Ok(Some(match missing {
        0 => "on",
        missing if missing == all.len() => "off",
        _ => "in part",
    }))
}

/// The elements that there are, by kind and OID.
struct Known(BTreeMap<(&'static str, String), ()>);

impl Known {
    fn of_server(connection: &mut Connection) -> Result<Self, Failure> {
        let kinds = [DefinitionKind::AttributeType, DefinitionKind::ObjectClass];
        let asked = SearchFor {
            scope: Scope::Base,
            attributes: &kinds.map(DefinitionKind::attribute),
            ..SearchFor::below(SUBSCHEMA, Filter::Present("objectClass"))
        };
        let found = connection.search(&asked)?;
        let entry = found.entries.first().ok_or_else(|| {
            Failure::refused("the server shows no schema").hint(crate::connect::ADMINISTRATOR_HINT)
        })?;
        let mut known = BTreeMap::new();
        for kind in kinds {
            let all = entry.texts(kind.attribute());
            // What this release cannot read is none of its own.
            for definition in all.filter_map(|text| Definition::parse(kind, text).ok()) {
                known.insert(key(&definition), ());
            }
        }
        Ok(Self(known))
    }

    fn of_data(data: &Path) -> Result<Self, Failure> {
        let schema = schema_of(data)?;
        let types = schema.attribute_types().map(|kind| (DefinitionKind::AttributeType, &kind.oid));
        let classes =
            schema.object_classes().map(|class| (DefinitionKind::ObjectClass, &class.oid));
        let all = types.chain(classes);
        Ok(Self(all.map(|(kind, oid)| ((kind.attribute(), oid.to_lowercase()), ())).collect()))
    }

    fn has(&self, definition: &Definition) -> bool {
        self.0.contains_key(&key(definition))
    }
}

fn key(definition: &Definition) -> (&'static str, String) {
    (definition.kind().attribute(), definition.oid.to_lowercase())
}

/// All definitions of some files.
fn definitions(files: &[SchemaFile]) -> Result<Vec<Definition>, Failure> {
    let read = |file: &SchemaFile| file.definitions().map_err(Failure::local);
    Ok(files.iter().map(read).collect::<Result<Vec<_>, _>>()?.concat())
}

/// The files of all of these, each once.
fn files(chosen: &[&ShippedSchema]) -> Vec<SchemaFile> {
    let mut files: Vec<SchemaFile> = Vec::new();
    for file in chosen.iter().flat_map(|one| one.files()) {
        if !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

fn add_online(connection: &mut Connection, chosen: &[&ShippedSchema]) -> Result<Exit, Failure> {
    let known = Known::of_server(connection)?;
    let mut missing = definitions(&files(chosen))?;
    missing.retain(|one| !known.has(one));
    let of_kind = |kind: DefinitionKind| {
        let own = missing.iter().filter(|one| one.kind() == kind);
        own.map(Definition::to_string).collect::<Vec<_>>()
    };
    let (types, classes) =
        (of_kind(DefinitionKind::AttributeType), of_kind(DefinitionKind::ObjectClass));
    let changes: Vec<(ModifyOperation, &str, Vec<&str>)> =
        [(DefinitionKind::AttributeType, &types), (DefinitionKind::ObjectClass, &classes)]
            .into_iter()
            .filter(|(_, texts)| !texts.is_empty())
            .map(|(kind, texts)| {
                let texts = texts.iter().map(String::as_str).collect();
                (ModifyOperation::Add, kind.attribute(), texts)
            })
            .collect();
    if !changes.is_empty() {
        let changes: Vec<_> = changes
            .iter()
            .map(|(operation, name, texts)| (*operation, *name, &texts[..]))
            .collect();
        connection.modify(SUBSCHEMA, &changes)?.into_result("the change of the schema")?;
    }
    tell(chosen, missing.len(), "hold from now on")
}

fn add_to_data(data: &Path, chosen: &[&ShippedSchema]) -> Result<Exit, Failure> {
    if !data.is_dir() {
        return Err(Failure::local(format!("there is no data directory {}", data.display()))
            .hint("'roster init' makes one"));
    }
    let known = Known::of_data(data)?;
    let mut wanted = Vec::new();
    for file in files(chosen) {
        let all = definitions(std::slice::from_ref(&file))?;
        if !all.iter().all(|one| known.has(one)) {
            wanted.push((file, all.len()));
        }
    }
    let count = wanted.iter().map(|(_, count)| count).sum();
    let files: Vec<SchemaFile> = wanted.into_iter().map(|(file, _)| file).collect();
    let directory = data.join(SCHEMA_DIRECTORY);
    for file in &files {
        refuse_other(&directory.join(&file.name), file)?;
    }
    // They have to load with what is there, or no server would start.
    schema_of(data)?.with_files(&files).map_err(Failure::local)?;
    fs::create_dir_all(&directory).map_err(|error| Failure::path("create", &directory, &error))?;
    for file in &files {
        let path = directory.join(&file.name);
        let failed = |error: io::Error| Failure::path("write", &path, &error);
        let mut whole = WholeFile::create(&path).map_err(failed)?;
        io::Write::write_all(&mut whole, file.text.as_bytes()).map_err(failed)?;
        whole.finish().map_err(failed)?;
    }
    tell(chosen, count, "hold from the next start or import on")
}

/// Refuses to write over a file with another text: what is only there would be lost.
fn refuse_other(path: &Path, file: &SchemaFile) -> Result<(), Failure> {
    match fs::read(path) {
        Ok(text) if text == file.text.as_bytes() => Ok(()),
        Ok(_) => {
            let why = format!("{} is there already, with another text", path.display());
            Err(Failure::local(why).hint(
                "give it another name that ends in .ldif, or move it away if nothing in it is \
                 needed; then run the command again",
            ))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::path("read", path, &error)),
    }
}

fn tell(chosen: &[&ShippedSchema], count: usize, from: &str) -> Result<Exit, Failure> {
    let names = chosen.iter().map(|one| one.name).collect::<Vec<_>>().join(", ");
    match count {
        0 => output::line(format_args!("{names}: all definitions are there already"))?,
        count => output::line(format_args!("{names}: {count} definitions {from}"))?,
    }
    Ok(Exit::Done)
}

/// The entry with the schema.
const SUBSCHEMA: &str = "cn=schema";
