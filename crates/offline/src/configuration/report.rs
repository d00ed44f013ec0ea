//! What a configuration came to, as text and as LDIF.

use std::fmt;

use ldap::ldif::{LDIF_FOLD_COLUMNS, push_ldif_line};

use super::made::Configuration;
use super::setting::{Setting, SettingKind, SettingRemark};

impl Configuration {
    /// The settings as change records for `ldapmodify`. Indexes are the commands that add them, and
    /// lines of roster.toml are comments: they are no changes of the directory that a record could
    /// make whatever is there already.
    #[must_use]
    pub fn ldif(&self) -> Vec<u8> {
        let mut out = Vec::new();
        comment(&mut out, &format!("Settings from the configuration of {}.", self.product));
        let indexes: Vec<String> = self.indexes().map(|text| format!("'{text}'")).collect();
        if !indexes.is_empty() {
            comment(&mut out, "First add the indexes, and wait for them:");
            comment(
                &mut out,
                &format!("roster index add {} --if-missing --wait", indexes.join(" ")),
            );
        }
        let files = self.settings.iter().filter_map(|setting| match &setting.change {
            SettingKind::File { .. } => Some(setting.change.to_string()),
            _ => None,
        });
        for (at, line) in files.enumerate() {
            if at == 0 {
                comment(&mut out, "In roster.toml of each server:");
            }
            comment(&mut out, &line);
        }
        for Setting { from, change, .. } in &self.settings {
            if matches!(change, SettingKind::Index(_) | SettingKind::File { .. }) {
                continue;
            }
            out.push(b'\n');
            comment(&mut out, &format!("from {from}"));
            let mut line = |name: &str, value: &str| {
                push_ldif_line(&mut out, name, value.as_bytes(), LDIF_FOLD_COLUMNS);
            };
            match change {
                SettingKind::Value { entry, attribute, value, replaces } => {
                    line("dn", entry);
                    line("changetype", "modify");
                    line(if *replaces { "replace" } else { "add" }, attribute);
                    line(attribute, value);
                }
                SettingKind::Entry { dn, attributes } => {
                    line("dn", dn);
                    line("changetype", "add");
                    for (name, value) in attributes {
                        line(name, value);
                    }
                }
                SettingKind::Index(_) | SettingKind::File { .. } => {}
            }
        }
        out
    }

    /// The definitions of the indexes.
    pub fn indexes(&self) -> impl Iterator<Item = &str> {
        self.settings.iter().filter_map(|setting| match &setting.change {
            SettingKind::Index(definition) => Some(definition.as_str()),
            _ => None,
        })
    }
}

/// A comment of one line; long ones are not folded, so that commands can be copied.
fn comment(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(b"# ");
    out.extend_from_slice(one_line(text).as_bytes());
    out.push(b'\n');
}

/// Nothing that comes from another server begins a line of its own.
fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

impl fmt::Display for Configuration {
    /// The report: a line for each setting, and for what became none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { product, entries, settings, built_in, untranslated, .. } = self;
        writeln!(f, "Configuration of {product}, {entries} entries:")?;
        if settings.is_empty() {
            writeln!(f, "  nothing in it becomes a setting")?;
        }
        for Setting { line, change, .. } in settings {
            writeln!(f, "  line {line}: {}", one_line(&change.to_string()))?;
        }
        remarks(f, "Done here without a setting:", built_in)?;
        remarks(f, "Not translated:", untranslated)
    }
}

fn remarks(f: &mut fmt::Formatter<'_>, head: &str, remarks: &[SettingRemark]) -> fmt::Result {
    if !remarks.is_empty() {
        writeln!(f, "{head}")?;
    }
    for SettingRemark { line, about, why, .. } in remarks {
        writeln!(f, "  line {line}: {}: {}", one_line(about), one_line(why))?;
    }
    Ok(())
}
