//! `roster follow`: this server follows another one until one switches over.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use client::{CertificateCheck, TlsOptions};
use ldap::dn::Dn;
use ldap::url::LdapUrl;

use crate::connect::{ServerOptions, certificate_check, login_of};
use crate::failure::{Exit, Failure};
use crate::follow::{self, Asked, CutOver, Way};
use crate::interrupt;
use crate::online::export::ENTRY_MAX_BYTES;

/// Follow another LDAP server, until this one takes its place.
///
/// Copies a branch of the source, then makes each change here that is made there, and goes on after
/// breaks of any kind. Entries are translated as 'roster import' does it, and keep their entryUUID,
/// their times and their passwords. While it follows, nobody else changes the branch here. With
/// --cut-over it has the running one end, waits until nothing is missing, has the source take no
/// more changes, and lets this server take them.
///
/// The source is OpenLDAP with the overlay syncprov or another server with content synchronisation
/// (RFC 4533), 389 Directory Server or a relative of it with the retro change log, or OpenDJ or a
/// relative of it with its external change log.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The source and its branch, such as ldap://old.example.com/dc=example,dc=com
    #[arg(value_name = "SOURCE", value_parser = source_url)]
    source: LdapUrl,

    /// What the branch is called here, if it has another name
    #[arg(long, value_name = "DN", value_parser = branch)]
    to_suffix: Option<Dn>,

    /// Wait until nothing is missing, have the source take no changes, and take them here
    #[arg(long)]
    cut_over: bool,

    /// With --cut-over: the source takes no changes already
    #[arg(long, requires = "cut_over")]
    source_is_read_only: bool,

    /// With --cut-over: the longest that nobody takes changes, in seconds; then the source takes
    /// them again
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(1..=86_400))]
    within: u64,

    /// Follow no more, and take changes here, however far it is
    #[arg(long, conflicts_with_all = ["cut_over", "refresh", "replace", "take_over"])]
    end: bool,

    /// How the source is followed
    #[arg(long, value_name = "WAY", value_enum, default_value_t = Way::Auto)]
    by: Way,

    /// Compare everything, as at the beginning
    #[arg(long)]
    refresh: bool,

    /// At the beginning: what the branch holds here and the source has not may go
    #[arg(long)]
    replace: bool,

    /// Have another 'roster follow' of the branch end
    #[arg(long)]
    take_over: bool,

    /// Send clients that want to change the branch here to the source, by referrals; without,
    /// they are told that it is not possible
    #[arg(long)]
    refer: bool,

    /// Add what is refused here to this file, as LDIF, with the reasons
    #[arg(long, value_name = "FILE")]
    reject_file: Option<PathBuf>,

    #[command(flatten)]
    login: SourceLogin,

    #[command(flatten)]
    server: ServerOptions,
}

/// As whom the source is read.
#[derive(Args, Debug)]
#[command(next_help_heading = "Source")]
struct SourceLogin {
    /// Bind to the source as this entry; it must be allowed to read everything
    #[arg(long, value_name = "DN", requires = "source_password_file")]
    source_bind_dn: Option<String>,

    /// Read the password for it from this file
    #[arg(long, value_name = "FILE", requires = "source_bind_dn")]
    source_password_file: Option<PathBuf>,

    /// Use StartTLS if the source offers it; twice: require it
    #[arg(long, action = clap::ArgAction::Count)]
    source_start_tls: u8,

    /// Trust the certificates in this PEM file for the source, and no others
    #[arg(long, value_name = "FILE")]
    source_cacert: Option<PathBuf>,

    /// Whether to verify the certificate of the source: 'demand' or 'never'
    #[arg(long, value_name = "HOW", default_value = "demand", value_parser = certificate_check)]
    source_reqcert: CertificateCheck,
}

const EXAMPLES: &str = "\
Examples:
  roster follow ldap://old/dc=example,dc=com --source-bind-dn cn=admin,dc=example,dc=com \\
    --source-password-file old.pw -H ldapi://%2Frun%2Froster%2Fldapi
  roster follow ldaps://old/dc=example,dc=com --to-suffix o=example -y admin.pw ...
  roster follow ldap://old/dc=example,dc=com --cut-over -y admin.pw ...
  roster follow ldap://old/dc=example,dc=com --end -y admin.pw";

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let here = options.server.login()?.for_answers(ENTRY_MAX_BYTES);
    let to = options.to_suffix.clone().unwrap_or_else(|| options.source.dn.clone());
    if options.end {
        return follow::end(&here, &to).map(|()| Exit::Done);
    }
    let SourceLogin {
        source_bind_dn,
        source_password_file,
        source_start_tls,
        source_cacert,
        source_reqcert,
    } = &options.login;
    let tls = TlsOptions::new(*source_reqcert, source_cacert.clone());
    let bind = source_bind_dn.as_deref().zip(source_password_file.as_deref());
    let there = login_of(&options.source, bind, &tls, *source_start_tls)?;
    let cut_over = options.cut_over.then_some(CutOver {
        is_frozen: options.source_is_read_only,
        within: Duration::from_secs(options.within),
    });
    let asked = Asked {
        here,
        there: there.for_answers(ENTRY_MAX_BYTES),
        from: options.source.dn.clone(),
        to,
        refresh: options.refresh,
        replace: options.replace,
        take_over: options.take_over,
        refers: options.refer,
        cut_over,
        way: options.by,
        reject_file: options.reject_file.clone(),
    };
    let interrupted = interrupt::flag()?;
    follow::follow(&asked, &interrupted)?;
    Ok(Exit::Done)
}

fn source_url(text: &str) -> Result<LdapUrl, String> {
    let url = LdapUrl::parse(text).map_err(|error| error.to_string())?;
    if url.dn.is_root() {
        return Err("name the branch, as in ldap://host/dc=example,dc=com".to_owned());
    }
    if !url.attributes.is_empty() || url.filter.is_some() || url.scope.is_some() {
        return Err("a whole branch is followed: name a server and an entry alone".to_owned());
    }
    match url.extensions.iter().find(|extension| extension.critical) {
        Some(extension) => Err(format!("the extension '{}' is not known", extension.name)),
        None => Ok(url),
    }
}

fn branch(text: &str) -> Result<Dn, String> {
    let dn = Dn::parse(text).map_err(|error| error.to_string())?;
    if dn.is_root() { Err("a branch has a name".to_owned()) } else { Ok(dn) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_server_and_a_branch() {
        assert!(source_url("ldap://old/dc=example,dc=com").is_ok());
        for (text, why) in [
            ("ldap://old", "name the branch"),
            ("ldap://old/dc=x??sub", "a whole branch"),
            ("ldap://old/dc=x?cn", "a whole branch"),
            ("ldap://old/dc=x????!x-a", "'x-a' is not known"),
            ("http://old/dc=x", ""),
        ] {
            let error = source_url(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
