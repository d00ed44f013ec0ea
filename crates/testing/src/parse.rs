//! The script language, line by line (`docs/dialogue-scripts.md`).
//!
//! A line that starts in the first column is a title, `given`, `with`, a request or `=> …`;
//! indented lines belong to the request or expectation above them.

use std::path::Path;

use crate::cursor::Cursor;
use crate::expect::code_by_name;
use crate::script::{
    ChangeSpec, ControlSpec, Dialogue, Expected, ExpectedAttribute, ExpectedKind, ReadWhen,
    RequestSpec, Script, SearchSpec, Step, VlvSpec,
};
use crate::template::{Template, hex};

/// The password of every fixture entry that has one, used where a script names none.
const DEFAULT_PASSWORD: &str = "secret";

/// Parses a whole script; the error has its line.
pub(crate) fn script(path: &Path, text: &str) -> Result<Script, (usize, String)> {
    let mut parser = Parser::default();
    let mut last = 0;
    for (at, line) in text.lines().enumerate() {
        last = at + 1;
        parser.line(last, line).map_err(|reason| (last, reason))?;
    }
    parser.finish_dialogue().map_err(|reason| (last, reason))?;
    let headline = parser.headline.ok_or_else(|| (1, "no comment at the head".to_owned()))?;
    if parser.dialogues.is_empty() {
        return Err((last, "no dialogue".to_owned()));
    }
    Ok(Script { path: path.to_owned(), headline, dialogues: parser.dialogues })
}

#[derive(Default)]
struct Parser {
    headline: Option<String>,
    /// `given` before the first title holds for all dialogues.
    fixture: Option<String>,
    dialogue: Option<Dialogue>,
    controls: Vec<ControlSpec>,
    dialogues: Vec<Dialogue>,
}

impl Parser {
    fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
        if line.trim().is_empty() {
            return Ok(());
        }
        if let Some(comment) = line.strip_prefix('#') {
            return self.comment(number, comment.trim());
        }
        if line.starts_with([' ', '\t']) {
            return self.indented(line.trim());
        }
        if let Some(expectation) = line.strip_prefix("=>") {
            let kind = expectation_kind(&mut Cursor::new(expectation))?;
            let step = self.step()?;
            step.expected.push(Expected { line: number, kind });
            return Ok(());
        }
        let mut cursor = Cursor::new(line);
        if cursor.accept("given") {
            let fixture = cursor.need("the name of an LDIF file")?;
            cursor.end()?;
            return self.given(fixture);
        }
        if cursor.accept("with") {
            self.controls.push(control(&mut cursor)?);
            return cursor.end();
        }
        self.request(number, cursor)
    }

    fn comment(&mut self, number: usize, comment: &str) -> Result<(), String> {
        if let Some(title) = comment.strip_prefix("--- ") {
            self.finish_dialogue()?;
            if self.headline.is_none() {
                return Err("the file must start with a sentence about its rule".to_owned());
            }
            if self.dialogues.iter().any(|dialogue| dialogue.title == title) {
                return Err(format!("a second dialogue is titled: {title}"));
            }
            self.dialogue = Some(Dialogue {
                title: title.trim().to_owned(),
                line: number,
                fixture: self.fixture.clone().unwrap_or_default(),
                steps: Vec::new(),
            });
        } else {
            self.extend_headline(comment);
        }
        Ok(())
    }

    /// The first sentence may take several lines.
    fn extend_headline(&mut self, comment: &str) {
        match &mut self.headline {
            None => self.headline = Some(comment.to_owned()),
            Some(headline) if !headline.ends_with('.') && self.dialogue.is_none() => {
                headline.push(' ');
                headline.push_str(comment);
            }
            Some(_) => {}
        }
    }

    fn given(&mut self, fixture: String) -> Result<(), String> {
        match &mut self.dialogue {
            None => self.fixture = Some(fixture),
            Some(dialogue) if dialogue.steps.is_empty() => dialogue.fixture = fixture,
            Some(_) => return Err("given must come before the first request".to_owned()),
        }
        Ok(())
    }

    fn request(&mut self, number: usize, mut cursor: Cursor<'_>) -> Result<(), String> {
        let connection = if cursor.accept("on") {
            let name = cursor.need("the name of a connection")?;
            name.strip_suffix(':').ok_or("a connection's name ends with a colon")?.to_owned()
        } else {
            "main".to_owned()
        };
        let request = request(&mut cursor)?;
        cursor.end()?;
        let controls = std::mem::take(&mut self.controls);
        let dialogue = self.dialogue.as_mut().ok_or("a request before the first '# --- title'")?;
        if let Some(step) = dialogue.steps.last_mut() {
            finish_step(step)?;
        }
        let expected = Vec::new();
        dialogue.steps.push(Step { line: number, connection, controls, request, expected });
        Ok(())
    }

    fn step(&mut self) -> Result<&mut Step, String> {
        let dialogue = self.dialogue.as_mut();
        dialogue
            .and_then(|dialogue| dialogue.steps.last_mut())
            .ok_or_else(|| "no request before this line".to_owned())
    }

    fn indented(&mut self, line: &str) -> Result<(), String> {
        let step = self.step()?;
        if let Some(expected) = step.expected.last_mut() {
            return match &mut expected.kind {
                ExpectedKind::Entry { attributes, .. }
                | ExpectedKind::ReadEntry { attributes, .. } => {
                    expected_attribute(line, attributes)
                }
                _ => Err("only an entry is followed by indented lines".to_owned()),
            };
        }
        match &mut step.request {
            RequestSpec::Add { attributes, .. } => add_attribute(line, attributes),
            RequestSpec::Modify { changes, .. } => add_change(line, changes),
            RequestSpec::Raw(octets) => {
                octets.extend(hex(line)?);
                Ok(())
            }
            _ => Err("this request takes no indented lines".to_owned()),
        }
    }

    fn finish_dialogue(&mut self) -> Result<(), String> {
        let Some(mut dialogue) = self.dialogue.take() else {
            return Ok(());
        };
        match dialogue.steps.last_mut() {
            Some(step) => finish_step(step)?,
            None => return Err(format!("a dialogue without requests: {}", dialogue.title)),
        }
        if dialogue.fixture.is_empty() {
            return Err(format!("no 'given' for: {}", dialogue.title));
        }
        self.dialogues.push(dialogue);
        Ok(())
    }
}

fn finish_step(step: &mut Step) -> Result<(), String> {
    if !step.expected.is_empty() {
        return Ok(());
    }
    match &step.request {
        RequestSpec::Bind { .. } => {
            let kind = result("success", &mut Cursor::new(""))?;
            step.expected.push(Expected { line: step.line, kind });
            Ok(())
        }
        RequestSpec::Unbind | RequestSpec::Abandon(_) | RequestSpec::Raw(_) => Ok(()),
        _ => Err(format!("the request of line {} has no expectation", step.line)),
    }
}

fn request(cursor: &mut Cursor<'_>) -> Result<RequestSpec, String> {
    let verb = cursor.need("a request")?;
    Ok(match verb.as_str() {
        "bind" => bind(cursor)?,
        "sasl" => RequestSpec::Sasl {
            mechanism: cursor.need("the mechanism")?,
            credentials: optional_value(cursor)?,
        },
        "unbind" => RequestSpec::Unbind,
        "search" => RequestSpec::Search(search(cursor)?),
        "add" => RequestSpec::Add { name: name(cursor)?, attributes: Vec::new() },
        "delete" => RequestSpec::Delete { name: name(cursor)? },
        "modify" => RequestSpec::Modify { name: name(cursor)?, changes: Vec::new() },
        "modrdn" => modify_dn(cursor)?,
        "compare" => RequestSpec::Compare {
            name: name(cursor)?,
            description: cursor.need("an attribute description")?,
            value: Template::parse_value(&cursor.need("an assertion value")?)?,
        },
        "extended" => RequestSpec::Extended {
            oid: cursor.need("an object identifier")?,
            value: optional_value(cursor)?,
        },
        "whoami" => {
            RequestSpec::Extended { oid: "1.3.6.1.4.1.4203.1.11.3".to_owned(), value: None }
        }
        "passwd" => password_modify(cursor)?,
        "endtxn" => RequestSpec::EndTransaction {
            commit: match cursor.need("commit or abort")?.as_str() {
                "commit" => true,
                "abort" => false,
                other => return Err(format!("commit or abort, not: {other}")),
            },
            identifier: Template::parse_value(&cursor.need("a transaction")?)?,
        },
        "abandon" => {
            let id = cursor.need("a message id")?;
            RequestSpec::Abandon(id.parse().map_err(|_| format!("not a message id: {id}"))?)
        }
        "raw" => {
            let octets = hex(cursor.rest())?;
            *cursor = Cursor::new("");
            RequestSpec::Raw(octets)
        }
        other => return Err(format!("unknown request: {other}")),
    })
}

fn name(cursor: &mut Cursor<'_>) -> Result<Template, String> {
    Ok(Template::parse(&cursor.need("a DN")?))
}

fn optional_value(cursor: &mut Cursor<'_>) -> Result<Option<Template>, String> {
    cursor.next()?.map(|word| Template::parse_value(&word)).transpose()
}

fn bind(cursor: &mut Cursor<'_>) -> Result<RequestSpec, String> {
    let mut name = cursor.next()?;
    let mut version = 3;
    if let Some(number) = name.as_deref().and_then(|word| word.strip_prefix("version=")) {
        version = number.parse().map_err(|_| format!("not a version: {number}"))?;
        name = cursor.next()?;
    }
    let password = cursor.next()?;
    let (name, password) = match (name.as_deref(), password) {
        (None, _) => ("", String::new()),
        (Some("root"), None) => ("{root}", "{rootpassword}".to_owned()),
        (Some("root"), Some(password)) => ("{root}", password),
        (Some(name), None) => (name, DEFAULT_PASSWORD.to_owned()),
        (Some(name), Some(password)) => (name, password),
    };
    let name = Template::parse(name);
    Ok(RequestSpec::Bind { version, name, password: Template::parse_value(&password)? })
}

fn search(cursor: &mut Cursor<'_>) -> Result<SearchSpec, String> {
    let scope = match cursor.need("a scope")?.as_str() {
        "base" => 0,
        "one" => 1,
        "sub" => 2,
        "subordinate" => 3,
        other => return Err(format!("unknown scope: {other}")),
    };
    let mut search = SearchSpec {
        scope,
        base: name(cursor)?,
        filter: Template::parse(&cursor.need("a filter")?),
        attributes: Vec::new(),
        size_limit_entries: 0,
        time_limit_s: 0,
        types_only: false,
        deref: 0,
    };
    while let Some(word) = cursor.next()? {
        let number = |text: &str| text.parse().map_err(|_| format!("not a number: {text}"));
        match word.split_once('=') {
            Some(("size", value)) => search.size_limit_entries = number(value)?,
            Some(("time", value)) => search.time_limit_s = number(value)?,
            Some(("deref", value)) => search.deref = deref(value)?,
            Some((option, _)) => return Err(format!("unknown option: {option}")),
            None if word == "typesonly" => search.types_only = true,
            None => search.attributes.push(word),
        }
    }
    Ok(search)
}

fn deref(word: &str) -> Result<i64, String> {
    match word {
        "never" => Ok(0),
        "searching" => Ok(1),
        "finding" => Ok(2),
        "always" => Ok(3),
        other => Err(format!("unknown deref: {other}")),
    }
}

fn modify_dn(cursor: &mut Cursor<'_>) -> Result<RequestSpec, String> {
    let name = name(cursor)?;
    let new_rdn = Template::parse(&cursor.need("the new RDN")?);
    let delete_old_rdn = match cursor.need("keep or delete")?.as_str() {
        "keep" => false,
        "delete" => true,
        other => return Err(format!("keep or delete, not: {other}")),
    };
    let new_superior = cursor.next()?.map(|word| Template::parse(&word));
    Ok(RequestSpec::ModifyDn { name, new_rdn, delete_old_rdn, new_superior })
}

fn password_modify(cursor: &mut Cursor<'_>) -> Result<RequestSpec, String> {
    let (mut user, mut old, mut new) = (None, None, None);
    while let Some(word) = cursor.next()? {
        let (field, value) = word.split_once('=').ok_or("user=, old= or new=")?;
        let slot = match field {
            "user" => &mut user,
            "old" => &mut old,
            "new" => &mut new,
            other => return Err(format!("unknown field: {other}")),
        };
        *slot = Some(Template::parse_value(value)?);
    }
    Ok(RequestSpec::PasswordModify { user, old, new })
}

fn control(cursor: &mut Cursor<'_>) -> Result<ControlSpec, String> {
    match cursor.need("the kind of control")?.as_str() {
        "control" => {
            let oid = cursor.need("an object identifier")?;
            let critical = cursor.accept("critical");
            Ok(ControlSpec::Plain { oid, critical, value: optional_value(cursor)? })
        }
        "paged" => {
            let size = cursor.need("a page size")?;
            let size = size.parse().map_err(|_| format!("not a page size: {size}"))?;
            Ok(ControlSpec::Paged { size, cookie: optional_value(cursor)?.unwrap_or_default() })
        }
        "sort" => {
            let critical = cursor.accept("critical");
            let mut keys = vec![cursor.need("a sort key")?];
            while let Some(key) = cursor.next()? {
                keys.push(key);
            }
            Ok(ControlSpec::Sort { critical, keys })
        }
        "vlv" => {
            let (before, after) = (number(cursor)?, number(cursor)?);
            let word = cursor.need("OFFSET/COUNT or >=VALUE")?;
            let target = match (word.strip_prefix(">="), word.split_once('/')) {
                (Some(value), _) => VlvSpec::Value(Template::parse(value)),
                (None, Some((offset, count))) => {
                    let read = |text: &str| text.parse().map_err(|_| format!("no number: {text}"));
                    VlvSpec::Offset(read(offset)?, read(count)?)
                }
                (None, None) => return Err(format!("neither OFFSET/COUNT nor >=VALUE: {word}")),
            };
            Ok(ControlSpec::Vlv { before, after, target, context: optional_value(cursor)? })
        }
        "values" => {
            let mut filters = Vec::new();
            while let Some(filter) = cursor.next()? {
                filters.push(Template::parse(&filter));
            }
            Ok(ControlSpec::MatchedValues(filters))
        }
        "subentries" => match cursor.need("only or none")?.as_str() {
            "only" => Ok(ControlSpec::Subentries(true)),
            "none" => Ok(ControlSpec::Subentries(false)),
            word => Err(format!("neither only nor none: {word}")),
        },
        "assert" => Ok(ControlSpec::Assertion(Template::parse(&cursor.need("a filter")?))),
        "transaction" => {
            let identifier = Template::parse_value(&cursor.need("a transaction")?)?;
            Ok(ControlSpec::Transaction(identifier))
        }
        word => {
            let when = read_when(word).ok_or_else(|| format!("unknown control: {word}"))?;
            let mut attributes = Vec::new();
            while let Some(attribute) = cursor.next()? {
                attributes.push(attribute);
            }
            Ok(ControlSpec::ReadEntry { when, attributes })
        }
    }
}

fn number(cursor: &mut Cursor<'_>) -> Result<i64, String> {
    let word = cursor.need("a number")?;
    word.parse().map_err(|_| format!("not a number: {word}"))
}

fn code(cursor: &mut Cursor<'_>) -> Result<i64, String> {
    let name = cursor.need("a result code")?;
    code_by_name(&name).ok_or_else(|| format!("unknown code: {name}"))
}

fn read_when(word: &str) -> Option<ReadWhen> {
    match word {
        "preread" => Some(ReadWhen::Before),
        "postread" => Some(ReadWhen::After),
        _ => None,
    }
}

fn read_entry(when: ReadWhen, cursor: &mut Cursor<'_>) -> Result<ExpectedKind, String> {
    let dn = name(cursor)?;
    let (mut update, mut open) = (None, false);
    while let Some(word) = cursor.next()? {
        match word.strip_prefix("update=") {
            Some(id) => update = Some(id.parse().map_err(|_| format!("not a message id: {id}"))?),
            None if word == "…" => open = true,
            None => return Err(format!("unexpected: {word}")),
        }
    }
    Ok(ExpectedKind::ReadEntry { when, update, dn, open, attributes: Vec::new() })
}

fn expectation_kind(cursor: &mut Cursor<'_>) -> Result<ExpectedKind, String> {
    let word = cursor.need("an expectation")?;
    let kind = match word.as_str() {
        "entry" => {
            let dn = name(cursor)?;
            let open = cursor.accept("…");
            ExpectedKind::Entry { dn, open, attributes: Vec::new() }
        }
        "entries" => {
            let count = cursor.need("a number")?;
            ExpectedKind::Entries(count.parse().map_err(|_| format!("not a number: {count}"))?)
        }
        "reference" => {
            let mut urls = vec![Template::parse(&cursor.need("a URL")?)];
            while let Some(url) = cursor.next()? {
                urls.push(Template::parse(&url));
            }
            ExpectedKind::Reference(urls)
        }
        "name" => ExpectedKind::Name(Template::parse(&cursor.need("an object identifier")?)),
        "value" => ExpectedKind::Value(Template::parse_value(&cursor.need("a value")?)?),
        "generated" => ExpectedKind::Generated(Template::parse(&cursor.need("a form")?)),
        "control" => {
            let oid = cursor.need("an object identifier")?;
            ExpectedKind::Control { oid, value: optional_value(cursor)? }
        }
        "paged" => {
            let cookie = cursor.need("end or a form")?;
            ExpectedKind::Paged(Template::parse(if cookie == "end" { "" } else { &cookie }))
        }
        "sort" => ExpectedKind::Sort { code: code(cursor)?, attribute: cursor.next()? },
        "vlv" => ExpectedKind::Vlv {
            target: number(cursor)?,
            count: number(cursor)?,
            code: code(cursor)?,
            context: optional_value(cursor)?,
        },
        "failed" => {
            let id = cursor.need("a message id")?;
            ExpectedKind::Failed(id.parse().map_err(|_| format!("not a message id: {id}"))?)
        }
        "notice" => {
            let oid = cursor.need("an object identifier")?;
            ExpectedKind::Notice { oid, value: optional_value(cursor)? }
        }
        "disconnect" => {
            let name = cursor.need("a result code")?;
            let code = code_by_name(&name).ok_or_else(|| format!("unknown code: {name}"))?;
            ExpectedKind::Disconnect { code }
        }
        "closed" => ExpectedKind::Closed,
        word => match read_when(word) {
            Some(when) => read_entry(when, cursor)?,
            None => result(word, cursor)?,
        },
    };
    cursor.end()?;
    Ok(kind)
}

fn result(name: &str, cursor: &mut Cursor<'_>) -> Result<ExpectedKind, String> {
    let code = code_by_name(name).ok_or_else(|| format!("unknown expectation: {name}"))?;
    let mut matched = Template::default();
    let mut diagnostic = None;
    let mut referrals = Vec::new();
    while !cursor.is_empty() {
        // The value may be quoted, so the key is split off before the word is read.
        let rest = cursor.rest();
        let cut = rest.find(['=', '~']).ok_or_else(|| format!("unexpected: {rest}"))?;
        let (key, value) = rest.split_at(cut + 1);
        *cursor = Cursor::new(value);
        let value = cursor.need("a value")?;
        match key {
            "matched=" => matched = Template::parse(&value),
            "diagnostic~" => diagnostic = Some(value),
            "referral=" => referrals.push(Template::parse(&value)),
            other => return Err(format!("unexpected: {other}")),
        }
    }
    Ok(ExpectedKind::Result { code, matched, diagnostic, referrals })
}

/// `type`, `type: text` or `type:: base64`.
fn attribute_line(line: &str) -> Result<(&str, Option<Template>), String> {
    let Some((description, value)) = line.split_once(':') else {
        return Ok((line, None));
    };
    let value = match value.strip_prefix(':') {
        Some(encoded) => Template::literal(&crate::template::base64(encoded)?),
        None => Template::parse(value.trim()),
    };
    Ok((description, Some(value)))
}

fn add_attribute(line: &str, list: &mut Vec<(String, Vec<Template>)>) -> Result<(), String> {
    let (description, value) = attribute_line(line)?;
    match (list.last_mut(), value) {
        (Some((last, values)), Some(value)) if last == description => values.push(value),
        (_, value) => list.push((description.to_owned(), value.into_iter().collect())),
    }
    Ok(())
}

fn add_change(line: &str, changes: &mut Vec<ChangeSpec>) -> Result<(), String> {
    if line.starts_with("and:") {
        let (_, value) = attribute_line(line)?;
        let change = changes.last_mut().ok_or("'and:' continues a modification")?;
        change.values.extend(value);
        return Ok(());
    }
    let (operation, rest) = line.split_once(' ').ok_or("a modification names an attribute")?;
    let operation = match operation {
        "add" => 0,
        "delete" => 1,
        "replace" => 2,
        "increment" => 3,
        other => return Err(format!("unknown modification: {other}")),
    };
    let (description, value) = attribute_line(rest.trim())?;
    let values = value.into_iter().collect();
    changes.push(ChangeSpec { operation, description: description.to_owned(), values });
    Ok(())
}

fn expected_attribute(line: &str, list: &mut Vec<ExpectedAttribute>) -> Result<(), String> {
    if let Some(description) = line.strip_prefix('!') {
        let description = description.to_owned();
        list.push(ExpectedAttribute { description, values: vec![], open: false, absent: true });
        return Ok(());
    }
    let (description, value) = attribute_line(line)?;
    let known = list.iter().position(|one| one.description.eq_ignore_ascii_case(description));
    let at = known.unwrap_or(list.len());
    if known.is_none() {
        let description = description.to_owned();
        list.push(ExpectedAttribute { description, values: vec![], open: false, absent: false });
    }
    let Some(attribute) = list.get_mut(at) else {
        return Ok(());
    };
    match value {
        Some(value) if value == Template::parse("…") => attribute.open = true,
        value => attribute.values.extend(value),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "# Rule.\ngiven people.ldif\n# --- title\n";

    #[track_caller]
    fn check_error(body: &str, line: usize, reason: &str) {
        let error = script(Path::new("x.ldap"), &format!("{HEAD}{body}")).unwrap_err();
        assert_eq!((error.0, error.1.as_str()), (line, reason));
    }

    fn steps(body: &str) -> Vec<Step> {
        let parsed = script(Path::new("x.ldap"), &format!("{HEAD}{body}")).unwrap();
        parsed.dialogues[0].steps.clone()
    }

    #[test]
    fn errors_name_their_line() {
        check_error("frobnicate", 4, "unknown request: frobnicate");
        check_error("bind root\nsearch far x (a=b)", 5, "unknown scope: far");
        check_error("search base x (a=b", 4, "the parentheses of the filter are not closed");
        check_error("delete x\nbind root", 5, "the request of line 4 has no expectation");
        check_error("delete x\n=> fine", 5, "unknown expectation: fine");
        check_error("delete x\n=> success matched:x", 5, "unexpected: matched:x");
        check_error("delete x\n  cn: a", 5, "this request takes no indented lines");
        check_error("modify x\n  remove cn", 5, "unknown modification: remove");
        check_error("=> success", 4, "no request before this line");
        check_error("", 3, "a dialogue without requests: title");
        check_error("bind\ngiven x", 5, "given must come before the first request");
        check_error("raw 3", 4, "an odd number of hexadecimal digits");
        check_error("delete a b\n", 4, "unexpected: b");
        check_error("bind\n# --- title\nbind", 5, "a second dialogue is titled: title");
    }

    #[test]
    fn a_file_needs_a_sentence_a_fixture_and_a_dialogue() {
        for text in ["", "# Rule.", "# --- a\nbind", "# Rule.\n# --- a\nbind", "# Rule.\nbind"] {
            assert!(script(Path::new("x.ldap"), text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_bind_without_expectation_must_succeed() {
        let steps = steps("bind root\non b: bind cn=a other\n=> invalidCredentials");
        assert!(matches!(steps[0].expected[0].kind, ExpectedKind::Result { code: 0, .. }));
        assert!(matches!(steps[1].expected[0].kind, ExpectedKind::Result { code: 49, .. }));
        assert_eq!(steps[1].connection, "b");
    }

    #[test]
    fn consecutive_lines_of_one_attribute_are_its_values() {
        let steps = steps("add x\n  cn: a\n  cn: b\n  sn: c\n  cn: d\n  st\n=> success");
        let RequestSpec::Add { attributes, .. } = &steps[0].request else { panic!() };
        let sizes: Vec<_> = attributes.iter().map(|(name, v)| (name.as_str(), v.len())).collect();
        assert_eq!(sizes, [("cn", 2), ("sn", 1), ("cn", 1), ("st", 0)]);
    }

    #[test]
    fn a_modification_goes_on_with_and() {
        let steps = steps("modify x\n  add cn: a\n  and: b\n  delete sn\n=> success");
        let RequestSpec::Modify { changes, .. } = &steps[0].request else { panic!() };
        let seen: Vec<_> = changes.iter().map(|c| (c.operation, c.values.len())).collect();
        assert_eq!(seen, [(0, 2), (1, 0)]);
    }
}
