//! The reference page of policy attributes, made of the rows.

use std::fmt::Write as _;

use super::all;
use super::row::Product;

/// `docs/reference/password-policy.md`.
pub fn reference_page() -> String {
    let mut page = HEAD.to_owned();
    for (product, title) in [
        (Product::Draft, "The draft, OpenLDAP, Sun and Oracle"),
        (Product::Ds389, "389, Red Hat and Sun's first form"),
        (Product::OpenDj, "OpenDJ and OpenDS"),
    ] {
        let _ = write!(page, "\n## {title}\n\n| attribute | takes | |\n|---|---|---|\n");
        for row in all().filter(|row| row.product == product) {
            let (takes, does) = (row.takes.name(), row.does);
            let _ = writeln!(page, "| `{}` | {takes} | {does} |", row.attribute);
        }
    }
    page
}

const HEAD: &str = "\
# Attributes of password policies

What each attribute of a policy entry does here, by the product whose name it is. An entry is a
policy when it has the class `pwdPolicy`, `passwordPolicy`, `sunPwdPolicy`, `ds-pwp-password-policy`
or `ds-cfg-password-policy`. Names of several products can stand in one entry; where they are about
one rule, the draft's holds, then OpenDJ's. `ds-cfg-` names of OpenDJ's configuration mean the same
as `ds-pwp-` ones. A value that is not what the attribute takes is refused.

A time is a number of seconds, or a number with a unit (`90d`, `5 days`); 0 is no rule. A switch is
`TRUE` or `on`, `FALSE` or `off`. How policies are used: [password
policies](../how-to/password-policy.md).

`ROSTER_WRITE_REFERENCE=1 cargo test -p directory --lib reference` writes this page again.
";
