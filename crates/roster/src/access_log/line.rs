//! A line of the access log, in either of its forms.

use offline::backup::Moment;
use serde::Deserialize;

/// What a line says of a request, as far as those who read logs need it.
#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(crate) struct Line {
    time: String,
    /// As in JSON: `search`, `modify_dn`.
    pub(crate) kind: String,
    pub(crate) base: Option<String>,
    pub(crate) scope: Option<String>,
    pub(crate) filter: Option<String>,
    pub(crate) attributes: Vec<String>,
    pub(crate) dn: Option<String>,
    pub(crate) auth: Option<String>,
    /// Who the client of a SASL bind said it is.
    pub(crate) user: Option<String>,
    pub(crate) client: Option<String>,
    pub(crate) code: Option<u32>,
    /// The name of the code.
    pub(crate) result: Option<String>,
    pub(crate) diagnostic: Option<String>,
    pub(crate) policy: Option<String>,
    /// What a bind failed for.
    pub(crate) cause: Option<String>,
    pub(crate) attribute: Option<String>,
    /// Lines that the server dropped, or connections that it refused without a line.
    pub(crate) count: u64,
    /// The request was too long to be logged whole.
    pub(crate) cut: bool,
}

impl Line {
    /// Reads a line without its end.
    pub(crate) fn parse(octets: &[u8]) -> Result<Self, &'static str> {
        let text = std::str::from_utf8(octets).map_err(|_| "it is not UTF-8")?;
        let text = text.trim_end_matches('\r');
        if text.starts_with('{') {
            return serde_json::from_str(text).map_err(|_| "it is not a JSON object of the log");
        }
        parse_text(text).ok_or("it is no line of the access log")
    }

    /// When the request was answered, in µs since 1970.
    pub(crate) fn time_us(&self) -> Result<u64, &'static str> {
        let moment = self.time.parse::<Moment>().map_err(|_| "it has no time")?;
        Ok(moment.micros())
    }
}

/// `[time] KIND key=1 key="text" flag`.
fn parse_text(text: &str) -> Option<Line> {
    let (time, rest) = text.strip_prefix('[')?.split_once("] ")?;
    let (kind, mut rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let kind = match kind {
        "MODIFYDN" => "modify_dn".to_owned(),
        kind => kind.to_ascii_lowercase(),
    };
    let mut line = Line { time: time.to_owned(), kind, ..Line::default() };
    while !rest.is_empty() {
        let end = rest.find(['=', ' ']).unwrap_or(rest.len());
        let (key, behind) = rest.split_at(end);
        let Some(value) = behind.strip_prefix('=') else {
            line.cut |= key == "cut";
            rest = behind.trim_start_matches(' ');
            continue;
        };
        let (value, behind) = match value.strip_prefix('"') {
            Some(quoted) => unquoted(quoted)?,
            None => {
                let end = value.find(' ').unwrap_or(value.len());
                let (value, behind) = value.split_at(end);
                (value.to_owned(), behind)
            }
        };
        line.put(key, value);
        rest = behind.trim_start_matches(' ');
    }
    Some(line)
}

impl Line {
    fn put(&mut self, key: &str, value: String) {
        match key {
            "base" => self.base = Some(value),
            "scope" => self.scope = Some(value),
            "filter" => self.filter = Some(value),
            "attrs" => self.attributes = value.split(' ').map(str::to_owned).collect(),
            "dn" => self.dn = Some(value),
            "authType" => self.auth = Some(value),
            "user" => self.user = Some(value),
            "from" => self.client = Some(value),
            "result" => self.code = value.parse().ok(),
            "resultName" => self.result = Some(value),
            "message" => self.diagnostic = Some(value),
            "policy" => self.policy = Some(value),
            "cause" => self.cause = Some(value),
            "attr" => self.attribute = Some(value),
            "count" => self.count = value.parse().unwrap_or(0),
            _ => {}
        }
    }
}

/// The text up to the closing quotation mark, and what is behind it.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((out, text.get(at + 1..)?)),
            '\\' => match letters.next()?.1 {
                // A control, or a half of what is beyond four digits: no name of anything has them.
                'u' => {
                    letters.nth(3)?;
                    out.push(char::REPLACEMENT_CHARACTER);
                }
                other => out.push(other),
            },
            other => out.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both forms of a line say the same.
    #[track_caller]
    fn check(json: &str, text: &str) -> Line {
        let line = Line::parse(json.as_bytes()).unwrap();
        assert_eq!(line, Line::parse(text.as_bytes()).unwrap());
        line
    }

    #[test]
    fn the_forms_say_the_same() {
        let line = check(
            concat!(
                r#"{"time":"2026-11-22T12:03:15.668744Z","kind":"search","conn":3,"#,
                r#""base":"ou=\"x\"","scope":"sub","filter":"(&(uid=anna)(mail=*a*))","#,
                r#""attributes":["cn","mail"],"code":0,"unindexed":true}"#
            ),
            concat!(
                r#"[2026-11-22T12:03:15.668744Z] SEARCH conn=3 base="ou=\"x\"" scope="sub" "#,
                r#"filter="(&(uid=anna)(mail=*a*))" attrs="cn mail" result=0 unindexed"#
            ),
        );
        assert_eq!(line.time_us(), Ok(1_795_348_995_668_744));
        assert_eq!(line.attributes, ["cn", "mail"]);
        check(
            r#"{"time":"2026-11-22T12:03:15Z","kind":"modify_dn","dn":"cn=\u0001","cut":true}"#
                .replace("\\u0001", "\u{fffd}")
                .as_str(),
            r#"[2026-11-22T12:03:15Z] MODIFYDN dn="cn=\u0001" cut"#,
        );
        check(
            r#"{"time":"2026-11-22T12:03:15Z","kind":"dropped","count":7,"reason":"full"}"#,
            r#"[2026-11-22T12:03:15Z] DROPPED count=7 reason="full""#,
        );
    }

    #[test]
    fn what_is_no_line_is_refused() {
        for text in ["", "[", "[x]", "x", "{", "{}x", "[] S a=\"", "[] S a=\"\\", "\u{1}"] {
            let line = Line::parse(text.as_bytes());
            assert!(line.is_err() || line.unwrap().time_us().is_err(), "{text}");
        }
        assert!(Line::parse(b"\xff").is_err());
    }
}
