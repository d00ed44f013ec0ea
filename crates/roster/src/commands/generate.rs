//! `roster generate`: writes the entries of a template as LDIF.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use crate::failure::{Exit, Failure, plain};
use crate::output;
use crate::template::{ParseOptions, Template, WordFiles};

/// Make up a directory from a template and write it as LDIF.
///
/// The template language is the one of makeldif and SLAMD; docs/templates.md is its reference.
/// The same template, options and seed always give the same bytes.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The template file
    #[arg(value_name = "TEMPLATE")]
    template: PathBuf,

    /// Make this many entries below the first branch instead of the number the template says
    #[arg(short = 'n', long, value_name = "N")]
    entries: Option<u64>,

    /// Where chance starts: another seed, other people
    #[arg(short, long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// Give a constant of the template another value
    #[arg(short = 'D', long = "define", value_name = "NAME=VALUE", value_parser = definition)]
    definitions: Vec<(String, String)>,

    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  roster generate examples/people.template --entries 1000 -o people.ldif
  roster generate examples/people.template -n 3 --define suffix=dc=example,dc=net
  roster generate my.template | ldapadd -H ldap://localhost -D cn=admin -W";

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let parse_options =
        ParseOptions { entries: options.entries, constants: options.definitions.clone() };
    let template = read(&options.template, &parse_options)?;
    match &options.output {
        None => {
            let mut out = output::out();
            write(&template, options.seed, |ldif| Ok(out.write_all(ldif)?))?;
            out.flush()?;
        }
        Some(path) => {
            let failed = |error: io::Error| Failure::path("write", path, &error);
            let mut file = File::create(path).map_err(failed)?;
            write(&template, options.seed, |ldif| file.write_all(ldif).map_err(failed))?;
        }
    }
    Ok(Exit::Done)
}

/// Reads a template file; word files are looked up beside it.
pub(crate) fn read(path: &Path, options: &ParseOptions) -> Result<Arc<Template>, Failure> {
    let text =
        std::fs::read_to_string(path).map_err(|error| Failure::path("read", path, &error))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let name = path.display().to_string();
    Ok(Arc::new(Template::parse(&name, &text, &Beside(folder), options)?))
}

/// `NAME=VALUE`.
pub(crate) fn definition(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// The folder of the template.
struct Beside<'p>(&'p Path);

impl WordFiles for Beside<'_> {
    fn read(&self, name: &str) -> Result<Option<String>, String> {
        let path = self.0.join(name);
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("cannot read {}: {}", path.display(), plain(&error))),
        }
    }
}

/// Makes all entries and hands them over as LDIF, many at a time.
fn write(
    template: &Arc<Template>,
    seed: u64,
    mut hand_over: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut generator = template.generator(seed);
    let mut buffer = Vec::new();
    for number in 0..template.entries() {
        generator.generate(number).map_err(Failure::local)?.write_ldif(&mut buffer);
        if buffer.len() >= BUFFER_BYTES {
            hand_over(&buffer)?;
            buffer.clear();
        }
    }
    hand_over(&buffer)
}

const BUFFER_BYTES: usize = 256 * 1024;
