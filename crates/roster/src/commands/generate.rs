//! `roster generate`: writes the entries of a template as LDIF.

use std::io::{self, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use clap::Args;
use indicatif::ProgressBar;
use offline::in_order::{Chunks, Compression, Take, in_order};

use crate::failure::{Exit, Failure, plain};
use crate::interrupt::{self, Until};
use crate::template::{Generator, ParseOptions, Template, WordFiles};
use crate::whole_file::WholeFile;
use crate::{output, progress};

/// Generate a directory from a template and write it as LDIF.
///
/// The template language is the one of makeldif and SLAMD; docs/templates.md is its reference.
/// The same template, options and seed always give the same bytes, whatever the number of threads.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The template file
    #[arg(value_name = "TEMPLATE")]
    template: PathBuf,

    /// Make this many entries below the first branch instead of the number in the template
    #[arg(short = 'n', long, value_name = "N")]
    entries: Option<u64>,

    /// The random seed: another seed gives other people
    #[arg(short, long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// Give a constant of the template another value
    #[arg(short = 'D', long = "define", value_name = "NAME=VALUE", value_parser = definition)]
    definitions: Vec<(String, String)>,

    /// Threads that make the entries; one for each core by default
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    threads: Option<NonZero<usize>>,

    /// Write to this file instead of standard output; .gz and .zst compress it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  roster generate examples/people.template --entries 1000 -o people.ldif
  roster generate examples/people.template -n 3 --define suffix=dc=example,dc=net
  roster generate examples/people.template -n 50000000 | roster import --data ./data -
  roster generate my.template | ldapadd -H ldap://localhost -D cn=admin -W";

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let parse_options =
        ParseOptions { entries: options.entries, constants: options.definitions.clone() };
    let template = read(&options.template, &parse_options)?;
    let threads = threads(options.threads);
    match &options.output {
        None => {
            let mut out = output::out();
            let bar = ProgressBar::hidden();
            write(&template, options.seed, threads, Compression::None, &mut out, &bar)?;
            out.flush()?;
        }
        Some(path) => {
            let failed = |error: io::Error| Failure::path("write", path, &error);
            let mut file = WholeFile::create(path).map_err(failed)?;
            let compression = Compression::of_name(&path.to_string_lossy());
            let interrupted = interrupt::flag()?;
            let mut out = Until { out: &mut file, interrupted: &interrupted };
            let bar = progress::bar(Some(template.entries()), "entries");
            bar.set_message("generate");
            let written = write(&template, options.seed, threads, compression, &mut out, &bar);
            bar.finish_and_clear();
            let written = written.map_err(|ended| match ended {
                Ended::Failure(failure) => failure,
                Ended::Output(error) => failed(error),
            });
            interrupt::told(&interrupted, written)?;
            file.finish().map_err(failed)?;
        }
    }
    Ok(Exit::Done)
}

/// A number of threads from 1 to [`THREADS_MAX`].
pub(crate) fn parse_threads(text: &str) -> Result<NonZero<usize>, String> {
    let number = text.parse().ok().filter(|number: &NonZero<usize>| number.get() <= THREADS_MAX);
    number.ok_or_else(|| {
        format!("a number from 1 to {THREADS_MAX}; without it there is a thread for each core")
    })
}

/// The most threads that one command is given: no machine has so many cores, and each thread takes
/// memory of its own.
const THREADS_MAX: usize = 1024;

/// How many threads do the work: those asked for, or as many as there are cores.
pub(crate) fn threads(asked: Option<NonZero<usize>>) -> usize {
    asked.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZero::get)
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
pub(crate) struct Beside<'p>(pub(crate) &'p Path);

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

/// Why no more entries are written.
enum Ended {
    Failure(Failure),
    Output(io::Error),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<Ended> for Failure {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Failure(failure) => failure,
            Ended::Output(error) => error.into(),
        }
    }
}

/// Writes all entries, made on many threads, in their order.
fn write(
    template: &Arc<Template>,
    seed: u64,
    threads: usize,
    compression: Compression,
    out: &mut impl Write,
    bar: &ProgressBar,
) -> Result<(), Ended> {
    let (entries, task) = (template.entries(), template.entries_at_once());
    let tasks = |take: Take<'_, u64>| {
        (0..entries.div_ceil(task)).all(|number| take(number * task));
        Ok(())
    };
    let maker = || {
        let mut generator = template.generator(seed);
        Ok(move |first: u64, chunks: &mut Chunks<Ended>| {
            make(&mut generator, first..first.saturating_add(task).min(entries), chunks)
        })
    };
    in_order(threads, compression, tasks, maker, |chunk| {
        bar.inc(chunk.records);
        Ok(out.write_all(&chunk.octets)?)
    })
}

fn make(
    generator: &mut Generator,
    numbers: std::ops::Range<u64>,
    chunks: &mut Chunks<Ended>,
) -> Result<(), Ended> {
    for number in numbers {
        let entry = generator.generate(number);
        let entry = entry.map_err(|error| Ended::Failure(Failure::local(error)))?;
        entry.write_ldif(chunks.text());
        if !chunks.end_record()? {
            break;
        }
    }
    Ok(())
}
