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

This page says what each attribute of a policy entry does, grouped by the product that it comes
from. An entry is a policy if it has the class `pwdPolicy`, `passwordPolicy`, `sunPwdPolicy`,
`ds-pwp-password-policy` or `ds-cfg-password-policy`. An entry may use names of several products; if
they set the same rule, the draft's name wins, then OpenDJ's. `ds-cfg-` names of OpenDJ's
configuration mean the same as `ds-pwp-` ones. An invalid value is refused.

A time is a number of seconds, or a number with a unit (`90d`, `5 days`); 0 means no rule. A switch
is `TRUE` or `on`, `FALSE` or `off`. For the use of policies, see [password
policies](../how-to/password-policy.md).

`ROSTER_WRITE_REFERENCE=1 cargo test -p directory --lib reference` regenerates this page.
";
