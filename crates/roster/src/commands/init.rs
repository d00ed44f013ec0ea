//! `roster init`: makes a data directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use auth::password::PasswordStorage;
use clap::Args;
use directory::{AdminPassword, Directory, GlobalAcis};
use environment::SystemClock;
use ldap::dn::Dn;

use crate::failure::{Exit, Failure};
use crate::location::{DATA_DEFAULT, DATA_VARIABLE};
use crate::output;

/// Create a data directory: an empty directory tree, an administrator and a TLS certificate.
///
/// The administrator is 'cn=Directory Manager' by default; a password is generated and printed
/// unless you give one. The certificate is self-signed and valid for this machine.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The data directory to create; it must be missing or empty
    #[arg(short, long, value_name = "DIR", env = DATA_VARIABLE, default_value = DATA_DEFAULT,
        hide_env_values = true)]
    data: PathBuf,

    /// The name at the top of the tree; several can be given
    #[arg(short, long = "suffix", value_name = "DN", required = true, value_parser = suffix)]
    suffixes: Vec<Dn>,

    /// The name that the administrator signs in with; it has no entry
    #[arg(long, value_name = "DN", default_value = ADMINISTRATOR, value_parser = administrator)]
    admin_dn: Dn,

    /// Take the administrator's password from this file, without the newline at its end
    #[arg(long, value_name = "FILE")]
    admin_password_file: Option<PathBuf>,

    /// Let anyone read everything that is not secret; by default anonymous clients read only the
    /// root DSE and the schema
    #[arg(long)]
    public: bool,
}

const EXAMPLES: &str = "\
Examples:
  roster init --data /var/lib/roster --suffix dc=example,dc=com
  roster init --data ./data --suffix o=example --admin-password-file secret.txt";

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    directory::check_administrator(&options.admin_dn, &options.suffixes)
        .map_err(|error| Failure::from(error).hint(ADMINISTRATOR_HINT))?;
    let given = options.admin_password_file.as_deref().map(read_password).transpose()?;
    let password = match &given {
        Some(password) => password.clone(),
        None => generate_password()?.into_bytes(),
    };
    let acis = if options.public { GlobalAcis::Public } else { GlobalAcis::default() };
    make(&options.data, &options.suffixes, &password, acis)?;
    let admin_dn = &options.admin_dn;
    if admin_dn.to_string() != ADMINISTRATOR {
        Directory::name_administrator(&options.data, admin_dn)?;
    }
    let suffixes: Vec<String> = options.suffixes.iter().map(ToString::to_string).collect();
    let data = options.data.display();
    output::line(format_args!("data directory  {data}, for {}", suffixes.join(" and ")))?;
    output::line(format_args!("administrator   {admin_dn}"))?;
    if given.is_none() {
        let password = String::from_utf8_lossy(&password);
        output::line(format_args!("password        {password}"))?;
    }
    output::line(format_args!("{:<15} {}", "reading", readers(acis)))?;
    output::line(format_args!("\nStart it with:\n  roster serve --data {data}"))?;
    Ok(Exit::Done)
}

/// Who reads what, in words.
fn readers(acis: GlobalAcis) -> &'static str {
    match acis {
        GlobalAcis::Closed => "nobody but the administrator, until there are ACIs",
        GlobalAcis::SignedIn => "authenticated users, everything that is not secret",
        GlobalAcis::Public => "anyone, without signing in, everything that is not secret",
    }
}

/// Makes the data directory with the administrator's password, global ACIs and a certificate.
pub(crate) fn make(
    data: &Path,
    suffixes: &[Dn],
    password: &[u8],
    acis: GlobalAcis,
) -> Result<(), Failure> {
    let admin = AdminPassword { clear: password, storage: PasswordStorage::default() };
    Directory::init(data, suffixes, Some(admin), acis, Arc::new(SystemClock::new()))?;
    server::generate_self_signed(data, &[])?;
    Ok(())
}

/// A password of 120 bits, in letters and digits that are not mistaken for each other.
pub(crate) fn generate_password() -> Result<String, Failure> {
    let mut octets = [0; PASSWORD_LETTERS];
    getrandom::fill(&mut octets)
        .map_err(|error| Failure::local(format!("cannot get random numbers: {error}")))?;
    let letter = |octet: &u8| ALPHABET.get(usize::from(*octet) % ALPHABET.len());
    Ok(octets.iter().filter_map(letter).map(|letter| char::from(*letter)).collect())
}

fn read_password(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut password = std::fs::read(path).map_err(|error| Failure::path("read", path, &error))?;
    for end in [b'\n', b'\r'] {
        if password.last() == Some(&end) {
            password.pop();
        }
    }
    if password.is_empty() {
        let message = format!("{} contains no password", path.display());
        return Err(Failure::local(message).hint("the password is the first and only line"));
    }
    Ok(password)
}

fn suffix(text: &str) -> Result<Dn, String> {
    let dn = Dn::parse(text).map_err(|error| error.to_string())?;
    if dn.is_root() { Err("a suffix has at least one RDN".to_owned()) } else { Ok(dn) }
}

fn administrator(text: &str) -> Result<Dn, String> {
    let dn = Dn::parse(text).map_err(|error| error.to_string())?;
    if dn.is_root() { Err("the administrator has a name".to_owned()) } else { Ok(dn) }
}

/// The administrator's name by default; it has no entry.
pub(crate) const ADMINISTRATOR: &str = "cn=Directory Manager";
const ADMINISTRATOR_HINT: &str = "name it like 'cn=Directory Manager', which is below no suffix, \
                                  or below one, like 'cn=admin,dc=example,dc=com'";
/// 32 of them, so that each octet gives every one the same chance.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// Letters of a generated password, 5 bits each.
const PASSWORD_LETTERS: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_passwords_are_long_and_new() {
        let one = generate_password().unwrap();
        assert_eq!(one.len(), 24);
        assert!(one.bytes().all(|letter| ALPHABET.contains(&letter)));
        assert_ne!(one, generate_password().unwrap());
    }

    #[test]
    fn one_newline_ends_a_password_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            read_password(file.path()).map(|password| String::from_utf8(password).unwrap())
        };
        assert_eq!(read("secret\n").unwrap(), "secret");
        assert_eq!(read("secret\r\n").unwrap(), "secret");
        assert_eq!(read(" secret \n\n").unwrap(), " secret \n");
        assert!(read("\n").unwrap_err().message.ends_with("contains no password"));
    }
}
