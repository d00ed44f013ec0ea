//! `roster why`: whether somebody may do something with an entry, which ACI says so, and which
//! privileges it takes.

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::connect::{ADMINISTRATOR_HINT, ServerOptions};
use crate::failure::{Exit, Failure};
use crate::output;

/// Explain why an identity may do something with an entry, or may not.
///
/// Works on a running server, as its administrator. Prints the ACI that decides and its entry,
/// every other relevant ACI with the reason why it does not apply, and the privileges that are also
/// needed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Who: a DN, or "" for anonymous
    #[arg(value_name = "IDENTITY")]
    identity: String,

    /// The right: read, search, compare, write, selfwrite, add, delete, import, export or proxy
    #[arg(value_name = "RIGHT")]
    right: String,

    /// The entry
    #[arg(value_name = "ENTRY")]
    entry: String,

    /// The attribute, for rights on attributes
    #[arg(value_name = "ATTRIBUTE")]
    attribute: Option<String>,

    /// The value to add, for ACIs about values
    #[arg(long, value_name = "VALUE", requires = "attribute")]
    add: Option<String>,

    /// The value to delete
    #[arg(long, value_name = "VALUE", requires = "attribute", conflicts_with = "add")]
    delete: Option<String>,

    /// Print the server's response as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerOptions,
}

const EXAMPLES: &str = "\
Examples:
  roster why -W uid=anna,ou=people,dc=example,dc=com read uid=bert,ou=people,dc=example,dc=com mail
  roster why -W '' read dc=example,dc=com
  roster why -W uid=anna,ou=people,dc=example,dc=com write cn=staff,dc=example,dc=com member \\
    --add uid=anna,ou=people,dc=example,dc=com";

/// What is asked.
#[derive(Serialize)]
struct WhyRequest<'a> {
    identity: &'a str,
    entry: &'a str,
    right: &'a str,
    attribute: Option<&'a str>,
    add: Option<&'a str>,
    delete: Option<&'a str>,
}

/// What is answered.
#[derive(Deserialize)]
struct WhyResponse {
    allowed: bool,
    #[serde(default)]
    privileges: Vec<Needed>,
    bypass: Option<String>,
    decided_by: Option<usize>,
    considered: Vec<Considered>,
}

#[derive(Deserialize)]
struct Needed {
    privilege: String,
    has: bool,
    why: String,
}

#[derive(Deserialize)]
struct Considered {
    holder: String,
    name: String,
    aci: String,
    allows: bool,
    outcome: String,
}

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let asked = WhyRequest {
        identity: &options.identity,
        entry: &options.entry,
        right: &options.right,
        attribute: options.attribute.as_deref(),
        add: options.add.as_deref(),
        delete: options.delete.as_deref(),
    };
    let asked = serde_json::to_vec(&asked)
        .map_err(|error| Failure::local(format!("the question cannot be encoded: {error}")))?;
    let mut connection = options.server.connect()?;
    let (outcome, value) = connection.extended(WHY, Some(&asked))?;
    outcome
        .into_result("why")
        .map_err(|error| Failure::refused(error.to_string()).hint(ADMINISTRATOR_HINT))?;
    let malformed =
        |error| Failure::refused(format!("the server sent a malformed explanation: {error}"));
    let json = value.unwrap_or_default();
    if options.json {
        let value: serde_json::Value = serde_json::from_slice(&json).map_err(malformed)?;
        output::json(&value)?;
        return Ok(Exit::Done);
    }
    let told: WhyResponse = serde_json::from_slice(&json).map_err(malformed)?;
    print(&told)?;
    Ok(Exit::Done)
}

fn print(told: &WhyResponse) -> Result<(), Failure> {
    output::line(format_args!("{}", if told.allowed { "allowed" } else { "denied" }))?;
    for Needed { privilege, has, why } in &told.privileges {
        let had = if *has { "had" } else { "missing" };
        line(&format!("  privilege {privilege}: {had}; {why}"))?;
    }
    if let Some(bypass) = &told.bypass {
        output::line(format_args!("  {bypass}"))?;
        return Ok(());
    }
    match told.decided_by.and_then(|place| told.considered.get(place)) {
        Some(Considered { holder, name, aci, allows, .. }) => {
            let verb = if *allows { "allows" } else { "denies" };
            line(&format!("  \"{name}\" of {holder} {verb} it:"))?;
            line(&format!("    {aci}"))?;
        }
        None => output::line(format_args!("  no ACI allows it"))?,
    }
    for (place, other) in told.considered.iter().enumerate() {
        if told.decided_by == Some(place) {
            continue;
        }
        let Considered { holder, name, outcome, allows, .. } = other;
        let verb = if *allows { "allow" } else { "deny" };
        line(&format!("  {verb} \"{name}\" of {holder}: {outcome}"))?;
    }
    Ok(())
}

/// Prints a line of which others chose a part.
fn line(text: &str) -> Result<(), Failure> {
    Ok(output::line(format_args!("{}", output::within_line(text)))?)
}

/// The extended operation of the server.
const WHY: &str = "2.25.240622864993748405525653984067480598434.3.1";
