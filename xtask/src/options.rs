//! The words behind a verb: `--name value`, or `--name` alone.

use std::path::PathBuf;

use crate::Error;

/// What stands behind an option's name.
pub(crate) struct Value<'a> {
    name: &'a str,
    rest: std::slice::Iter<'a, String>,
}

impl Value<'_> {
    pub(crate) fn text(&mut self) -> Result<String, Error> {
        let missing = || Error::usage(format!("{} takes a value", self.name));
        self.rest.next().cloned().ok_or_else(missing)
    }

    /// A number above 0.
    pub(crate) fn number(&mut self) -> Result<u64, Error> {
        match self.text()?.parse() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(Error::usage(format!("{} takes a number above 0", self.name))),
        }
    }

    /// Numbers above 0 that commas part.
    pub(crate) fn numbers(&mut self) -> Result<Vec<u64>, Error> {
        let text = self.text()?;
        let numbers = text.split(',').map(|number| number.parse().ok().filter(|one| *one > 0));
        let numbers: Option<Vec<u64>> = numbers.collect();
        numbers.ok_or_else(|| Error::usage(format!("{} takes numbers, as 1,2", self.name)))
    }

    /// Minutes, as `10m`.
    pub(crate) fn minutes(&mut self) -> Result<u64, Error> {
        let text = self.text()?;
        let number = text.strip_suffix('m').and_then(|number| number.parse().ok());
        let usage = || Error::usage(format!("{} takes minutes, as 10m", self.name));
        number.filter(|number| *number > 0).ok_or_else(usage)
    }

    /// A path, unless an option or nothing follows.
    pub(crate) fn path_if_any(&mut self) -> Option<PathBuf> {
        let is_value = |word: &&String| !word.starts_with("--");
        self.rest.as_slice().first().filter(is_value)?;
        self.rest.next().map(PathBuf::from)
    }

    pub(crate) fn path(&mut self) -> Result<PathBuf, Error> {
        self.text().map(PathBuf::from)
    }

    /// Words that a space parts.
    pub(crate) fn words(&mut self) -> Result<Vec<String>, Error> {
        Ok(self.text()?.split(' ').map(str::to_owned).collect())
    }
}

/// Hands each word to `take`, which says whether it knows it and takes the value behind it, if
/// there is to be one.
pub(crate) fn read(
    arguments: &[String],
    mut take: impl FnMut(&str, &mut Value<'_>) -> Result<bool, Error>,
) -> Result<(), Error> {
    let mut value = Value { name: "", rest: arguments.iter() };
    while let Some(name) = value.rest.next() {
        value.name = name;
        if !take(name, &mut value)? {
            return Err(Error::usage(match name.starts_with('-') {
                true => format!("unknown option: {name}"),
                false => format!("unexpected argument: {name}"),
            }));
        }
    }
    Ok(())
}

/// Refuses all words: for a verb that takes nothing.
pub(crate) fn none(arguments: &[String]) -> Result<(), Error> {
    read(arguments, |_, _| Ok(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<(u64, bool, String), Error> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let mut found = (0, false, String::new());
        read(&words, |name, value| {
            match name {
                "--number" => found.0 = value.number()?,
                "--flag" => found.1 = true,
                "--text" => found.2 = value.text()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(found)
    }

    #[test]
    fn values_stand_behind_their_names() {
        let found = parse("--number 7 --flag --text --flag").unwrap();
        assert_eq!(found, (7, true, "--flag".to_owned()));
        for wrong in ["--number", "--number 0", "--number x", "--other 1", "more", "--text"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
