//! HTML and SVG as text: the one place where text is put between tags.
//!
//! Invariant: what is not written in the source goes through [`escape`], so that no text of a
//! record becomes a tag, an attribute or a script; and every tag that is opened is closed.

/// A page, or a part of one, in the making.
#[derive(Debug, Default)]
pub(super) struct Markup {
    text: String,
    open: Vec<&'static str>,
}

/// Name and value of an attribute.
pub(super) type Attribute<'a> = (&'static str, &'a str);

impl Markup {
    /// `<tag …>`; ends with [`Markup::close`].
    pub(super) fn open(&mut self, tag: &'static str, attributes: &[Attribute<'_>]) {
        self.tag(tag, attributes);
        self.open.push(tag);
    }

    /// `</tag>` of what was opened last.
    pub(super) fn close(&mut self) {
        if let Some(tag) = self.open.pop() {
            self.text.push_str("</");
            self.text.push_str(tag);
            self.text.push_str(if BLOCKS.contains(&tag) { ">\n" } else { ">" });
        }
    }

    /// A tag without an end, such as `<meta>` in HTML or `<path/>` in SVG.
    pub(super) fn single(&mut self, tag: &'static str, attributes: &[Attribute<'_>]) {
        self.tag(tag, attributes);
        if !VOID.contains(&tag) {
            self.text.insert(self.text.len() - 1, '/');
        }
    }

    /// Text.
    pub(super) fn text(&mut self, text: &str) {
        escape(text, &mut self.text);
    }

    /// `<tag …>text</tag>`.
    pub(super) fn element(&mut self, tag: &'static str, attributes: &[Attribute<'_>], text: &str) {
        self.open(tag, attributes);
        self.text(text);
        self.close();
    }

    /// Something in the source that is markup or style already.
    pub(super) fn source(&mut self, source: &'static str) {
        self.text.push_str(source);
    }

    /// All of it.
    pub(super) fn finish(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.text
    }

    fn tag(&mut self, tag: &'static str, attributes: &[Attribute<'_>]) {
        self.text.push('<');
        self.text.push_str(tag);
        for (name, value) in attributes {
            self.text.push(' ');
            self.text.push_str(name);
            self.text.push_str("=\"");
            escape(value, &mut self.text);
            self.text.push('"');
        }
        self.text.push('>');
    }
}

/// Text that is safe between tags and between quotes. Characters that are invisible or change the
/// order of others are shown as U+FFFD.
fn escape(text: &str, out: &mut String) {
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(' '),
            '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => {
                out.push(char::REPLACEMENT_CHARACTER);
            }
            letter if letter.is_control() => out.push(char::REPLACEMENT_CHARACTER),
            letter => out.push(letter),
        }
    }
}

/// At most so many characters, with an ellipsis for the rest.
pub(super) fn shortened(text: &str, characters_max: usize) -> String {
    if text.chars().count() <= characters_max {
        return text.to_owned();
    }
    text.chars().take(characters_max.saturating_sub(1)).chain(['…']).collect()
}

/// HTML elements that have no end.
const VOID: [&str; 2] = ["meta", "br"];
/// Elements after which a line ends, for those who read the source.
const BLOCKS: [&str; 16] = [
    "head", "title", "style", "header", "section", "h1", "h2", "h3", "p", "tr", "table", "ul",
    "li", "figure", "svg", "details",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_never_becomes_markup() {
        let mut page = Markup::default();
        page.open("p", &[("title", "\" onclick='x'")]);
        page.text("<script>&\u{0}\u{202e}</script>\n");
        page.single("path", &[("d", "M0 0")]);
        page.single("br", &[]);
        assert_eq!(
            page.finish(),
            "<p title=\"&quot; onclick=&#39;x&#39;\">&lt;script&gt;&amp;\u{fffd}\u{fffd}&lt;/script\
             &gt; <path d=\"M0 0\"/><br></p>\n"
        );
    }

    #[test]
    fn long_text_is_shortened_by_characters() {
        assert_eq!(shortened("öäü", 3), "öäü");
        assert_eq!(shortened("öäüß", 3), "öä…");
    }
}
