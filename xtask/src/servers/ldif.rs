//! Configurations in LDIF: a template's places are filled in, and changes are put into what a
//! server's own setup wrote.

/// An entry as lines: its name, and its attributes without lines that go on.
struct Block {
    dn: String,
    lines: Vec<String>,
}

/// Puts `value` in the place of each `{name}`.
pub(super) fn fill(template: &str, places: &[(&str, &str)]) -> String {
    let fill =
        |text: String, (name, value): &(&str, &str)| text.replace(&format!("{{{name}}}"), value);
    places.iter().fold(template.to_owned(), fill)
}

/// `base` with the entries of `changes`: an attribute takes the place of what the entry had under
/// its name; an entry that is not there is added.
pub(super) fn merge(base: &str, changes: &str) -> String {
    let mut blocks = blocks(base);
    for change in self::blocks(changes) {
        let same = |block: &&mut Block| plain(&block.dn) == plain(&change.dn);
        match blocks.iter_mut().find(same) {
            Some(block) => {
                let replaced = |line: &String| {
                    change.lines.iter().any(|new| attribute(new) == attribute(line))
                };
                block.lines.retain(|line| !replaced(line));
                block.lines.extend(change.lines);
            }
            None => blocks.push(change),
        }
    }
    let texts =
        blocks.iter().map(|block| format!("dn: {}\n{}\n", block.dn, block.lines.join("\n")));
    texts.collect::<Vec<_>>().join("\n")
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    // A line that begins with a space goes on with the one before.
    for line in text.replace("\n ", "").lines().filter(|line| !line.starts_with('#')) {
        if let Some(dn) = line.strip_prefix("dn:") {
            blocks.push(Block { dn: dn.trim().to_owned(), lines: Vec::new() });
        } else if let (Some(block), false) = (blocks.last_mut(), line.trim().is_empty()) {
            block.lines.push(line.to_owned());
        }
    }
    blocks
}

fn attribute(line: &str) -> String {
    line.split(':').next().unwrap_or_default().to_ascii_lowercase()
}

/// A name as it is compared: spaces and case make no difference in what is configured here.
fn plain(dn: &str) -> String {
    dn.to_ascii_lowercase().replace(", ", ",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_take_the_place_of_what_was_there() {
        let base = "dn: cn=A, cn=config\ncn: A\nsize: 1\nlong: one\n  two\n\ndn: cn=B\ncn: B\n";
        let changes = "# why\ndn: cn=a,cn=config\nSize: 2\n\ndn: cn=C\ncn: {name}\n";
        let merged = merge(base, &fill(changes, &[("name", "C")]));
        assert_eq!(
            merged,
            "dn: cn=A, cn=config\ncn: A\nlong: one two\nSize: 2\n\n\
             dn: cn=B\ncn: B\n\ndn: cn=C\ncn: C\n"
        );
    }
}
