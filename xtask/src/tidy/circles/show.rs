//! `cargo xtask circles`: the circles of each crate, and which names make an edge.

use super::super::source;
use super::graph::Graph;
use super::{Crate, read};
use crate::Error;
use crate::options;
use crate::shell::root;

/// Files of the largest circle that are told with their edges.
const FILES_TOLD: usize = 20;
/// Edges that are told as worth cutting.
const CUTS_TOLD: usize = 8;
const WIDTH_MAX_COLUMNS: usize = 100;

/// Prints the circles of all crates or of one, or the names of the edges between two files.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    let mut wanted = None;
    let mut edges = None;
    options::read(arguments, |word, value| {
        match word {
            "--edges" => edges = Some((value.text()?, value.text()?)),
            _ if word.starts_with('-') || wanted.is_some() => return Ok(false),
            _ => wanted = Some(word.to_owned()),
        }
        Ok(true)
    })?;
    let mut crates = read(&source::files(&root())).map_err(Error::Wrong)?;
    if let Some(name) = &wanted {
        crates.retain(|one| one.name == *name);
        if crates.is_empty() {
            return Err(Error::usage(format!("no crate {name}")));
        }
    }
    match edges {
        Some((one, other)) => show_edges(&crates, &one, &other),
        None => {
            crates.iter().for_each(show);
            Ok(())
        }
    }
}

fn show(one: &Crate) {
    let graph = &one.graph;
    let circles = graph.circles();
    println!("{}: {} files, {} circles", one.name, graph.files.len(), circles.len());
    for (at, circle) in circles.iter().enumerate() {
        println!("  {} files", circle.len());
        show_list(circle.iter().map(|file| graph.file(*file, &one.source)));
        if at == 0 {
            show_busiest(one, circle);
            show_cuts(one, circle);
        }
    }
}

fn show_list<'a>(words: impl Iterator<Item = &'a str>) {
    let mut line = String::new();
    for word in words {
        if line.len() + word.len() > WIDTH_MAX_COLUMNS {
            println!("   {line}");
            line.clear();
        }
        line = format!("{line} {word}");
    }
    println!("   {line}");
}

fn show_busiest(one: &Crate, circle: &[usize]) {
    let edges = one.graph.inner_edges(circle);
    let mut files: Vec<(usize, usize, usize)> = circle
        .iter()
        .map(|file| {
            let inward = edges.iter().filter(|(_, to)| to == file).count();
            let outward = edges.iter().filter(|(from, _)| from == file).count();
            (inward, outward, *file)
        })
        .collect();
    files.sort_by_key(|(inward, outward, _)| std::cmp::Reverse(inward + outward));
    println!("    {:<44} named by  names, of {} edges", "file", edges.len());
    for (inward, outward, file) in files.into_iter().take(FILES_TOLD) {
        println!("    {:<44} {inward:>8} {outward:>6}", one.graph.file(file, &one.source));
    }
}

fn show_cuts(one: &Crate, circle: &[usize]) {
    println!("    to cut, one after the other");
    for cut in one.graph.cuts(circle, CUTS_TOLD) {
        let file = |at| one.graph.file(at, &one.source);
        println!("    {} → {}: leaves {}", file(cut.from), file(cut.to), cut.left);
        show_names(&one.graph, cut.from, cut.to);
    }
}

fn show_names(graph: &Graph, from: usize, to: usize) {
    for (name, lines) in graph.names(from, to).into_iter().flatten() {
        let lines: Vec<String> = lines.iter().map(usize::to_string).collect();
        println!("      {name} (line {})", lines.join(", "));
    }
}

fn show_edges(crates: &[Crate], one: &str, other: &str) -> Result<(), Error> {
    let mut found = false;
    for owner in crates {
        let (Some(one), Some(other)) = (find(owner, one)?, find(owner, other)?) else { continue };
        found = true;
        for (from, to) in [(one, other), (other, one)] {
            let file = |at| owner.graph.file(at, "");
            println!("{} → {}", file(from), file(to));
            show_names(&owner.graph, from, to);
        }
    }
    match found {
        true => Ok(()),
        false => Err(Error::usage(format!("no crate has both {one} and {other}"))),
    }
}

/// The one file of a crate whose path is this in its source, or ends so.
fn find(owner: &Crate, name: &str) -> Result<Option<usize>, Error> {
    let path = |at: usize| owner.graph.file(at, &owner.source);
    let all = 0..owner.graph.files.len();
    let ends = |at: &usize| path(*at) == name || owner.graph.file(*at, "") == name;
    if let Some(at) = all.clone().find(ends) {
        return Ok(Some(at));
    }
    let tail = format!("/{name}");
    let found: Vec<usize> = all.filter(|at| path(*at).ends_with(&tail)).collect();
    match found.as_slice() {
        [] => Ok(None),
        [at] => Ok(Some(*at)),
        _ => {
            let paths: Vec<&str> = found.iter().map(|at| path(*at)).collect();
            Err(Error::usage(format!("which {name}: {}", paths.join(", "))))
        }
    }
}
