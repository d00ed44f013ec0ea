//! `cargo xtask kerberos`: roster built with GSSAPI, and its test with a realm of its own.
//!
//! It is no part of `cargo xtask test`: what it builds with, a compiler for C among it, nobody else
//! needs.

use std::path::Path;

use crate::shell::{cargo, step};
use crate::test::{Package, install_missing, is_library};
use crate::{Error, no_arguments};

const PACKAGES: &[Package] = &[
    Package { name: "krb5-kdc", is_present: || Path::new("/usr/sbin/krb5kdc").exists() },
    Package {
        name: "krb5-admin-server",
        is_present: || Path::new("/usr/sbin/kadmin.local").exists(),
    },
    Package { name: "krb5-user", is_present: || Path::new("/usr/bin/kinit").exists() },
    Package { name: "libkrb5-dev", is_present: || Path::new("/usr/include/gssapi.h").exists() },
    Package { name: "libclang-dev", is_present: is_libclang },
    Package {
        name: "libsasl2-modules-gssapi-mit",
        is_present: || is_library("sasl2/libgssapiv2.so"),
    },
    Package { name: "ldap-utils", is_present: || Path::new("/usr/bin/ldapwhoami").exists() },
];

/// Whether the library is where Debian puts that of whatever version.
fn is_libclang() -> bool {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    folders.into_iter().any(|folder| folder.path().join("lib/libclang.so").exists())
}

/// Installs what is missing, builds, tests.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    no_arguments(arguments)?;
    install_missing(PACKAGES)?;
    let features = ["--features", "gssapi"];
    step(
        "units",
        cargo(&[&["test", "-p", "directory", "--lib", "gssapi"], &features[..]].concat()),
    )?;
    step(
        "a realm",
        cargo(&[&["test", "-p", "roster", "--test", "kerberos"], &features[..]].concat()),
    )
}
