//! Attribute types whose values are for nobody's eyes: passwords, keys, and the state of passwords.
//!
//! Invariant: a type is secret when its definition says so (`X-SECRET 'TRUE'`), when a name of it
//! or its OID is in the table, or when the type that it is derived from is.

use ldap::message::Values;

use crate::attribute_type::AttributeType;
use crate::definition::Definition;
use crate::description::AttributeDescription;
use crate::entry::{EntryRead, ValueKey};

/// The extension of a definition that makes a type secret.
const MARK: &str = "X-SECRET";

/// Whether a type that is defined so, and derived from `superior`, is secret.
pub(crate) fn is_secret(definition: &Definition, superior: Option<&AttributeType>) -> bool {
    let is_marked = definition.extensions.iter().any(|extension| {
        extension.name.eq_ignore_ascii_case(MARK)
            && extension.values.iter().any(|value| value.eq_ignore_ascii_case("true"))
    });
    let is_known = |name: &str| {
        KNOWN_SECRETS.iter().any(|known| {
            known.oid == Some(name)
                || known.name.eq_ignore_ascii_case(name)
                || known.name.replace('-', "").eq_ignore_ascii_case(name)
        })
    };
    is_marked
        || superior.is_some_and(|superior| superior.secret)
        || is_known(&definition.oid)
        || definition.names.iter().any(|name| is_known(name))
}

/// An entry without what is secret: assertions on that are Undefined. For filters that somebody
/// wrote who may not read secrets, and whose outcome others see: which policy governs an entry,
/// which groups and roles it has.
#[derive(Clone, Copy)]
pub struct WithoutSecrets<'e>(
    /// The entry as it is.
    pub &'e dyn EntryRead,
);

impl EntryRead for WithoutSecrets<'_> {
    fn dn(&self) -> &str {
        self.0.dn()
    }

    fn split_dn(&self) -> Option<(&str, &str)> {
        self.0.split_dn()
    }

    fn visit_matching(
        &self,
        asked: &AttributeDescription,
        only: Option<&ValueKey<'_>>,
        visit: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
    ) -> bool {
        // A type that is derived from one that is not secret may be.
        !asked.kind.is_secret()
            && self.0.visit_matching(asked, only, &mut |description, value| {
                description.kind.is_secret() || visit(description, value)
            })
    }

    fn visit_wanted(
        &self,
        wants: &dyn Fn(&AttributeDescription) -> bool,
        visit: &mut dyn FnMut(&AttributeDescription, Option<Values<'_>>),
    ) {
        self.0.visit_wanted(wants, &mut |description, values| {
            if !description.kind.is_secret() {
                visit(description, values);
            }
        });
    }
}

/// A type that holds secrets, wherever it comes from.
#[derive(Clone, Copy, Debug)]
pub struct KnownSecret {
    /// Any of its names.
    pub name: &'static str,
    /// Its OID, where one is registered.
    pub oid: Option<&'static str>,
    /// What its values are.
    pub what: &'static str,
}

/// Types that are secret in every schema: one row each.
pub const KNOWN_SECRETS: &[KnownSecret] = &[
    // What signs somebody in here.
    row("userPassword", "2.5.4.35", PASSWORD),
    row("authPassword", "1.3.6.1.4.1.4203.1.3.4", PASSWORD),
    // What a password policy keeps.
    row("pwdHistory", "1.3.6.1.4.1.42.2.27.8.1.20", OLD_PASSWORDS),
    row("pwdFailureTime", "1.3.6.1.4.1.42.2.27.8.1.19", STATE),
    row("pwdAccountLockedTime", "1.3.6.1.4.1.42.2.27.8.1.17", STATE),
    row("pwdGraceUseTime", "1.3.6.1.4.1.42.2.27.8.1.21", STATE),
    row("pwdChangedTime", "1.3.6.1.4.1.42.2.27.8.1.16", STATE),
    row("pwdReset", "1.3.6.1.4.1.42.2.27.8.1.22", STATE),
    row("pwdStartTime", "1.3.6.1.4.1.42.2.27.8.1.27", STATE),
    row("pwdEndTime", "1.3.6.1.4.1.42.2.27.8.1.28", STATE),
    row("pwdLastSuccess", "1.3.6.1.4.1.42.2.27.8.1.29", STATE),
    named("pwdTPRReset", STATE),
    named("pwdTPRUseCount", STATE),
    named("pwdTPRValidFrom", STATE),
    named("pwdTPRExpireAt", STATE),
    named("pwdExpirationTime", STATE),
    // 389 Directory Server, Sun, OpenDJ.
    named("passwordHistory", OLD_PASSWORDS),
    named("passwordRetryCount", STATE),
    named("retryCountResetTime", STATE),
    named("accountUnlockTime", STATE),
    named("passwordExpWarned", STATE),
    named("passwordExpirationTime", STATE),
    named("passwordAllowChangeTime", STATE),
    named("passwordGraceUserTime", STATE),
    named("nsSymmetricKey", KEY),
    named("nsslapd-rootpw", PASSWORD),
    named("nsds5ReplicaCredentials", PASSWORD),
    named("nsds5ReplicaBootstrapCredentials", PASSWORD),
    named("nsMultiplexorCredentials", PASSWORD),
    named("ds-pwp-retired-password", OLD_PASSWORDS),
    row("ds-sync-hist", "1.3.6.1.4.1.26027.1.1.119", CHANGES),
    row("changes", "2.16.840.1.113730.3.1.8", CHANGES),
    named("deletedEntryAttrs", CHANGES),
    named("includedAttributes", CHANGES),
    // Oracle.
    named("orclPassword", PASSWORD),
    named("orclPasswordVerifier", PASSWORD),
    named("orclPasswordAttribute", PASSWORD),
    named("orclCommonRpwdAttribute", PASSWORD),
    named("orclRevPwd", PASSWORD),
    named("orclUnsyncRevPwd", PASSWORD),
    named("orclPwdHistory", OLD_PASSWORDS),
    named("orclPKCS12Hint", PASSWORD),
    // OpenLDAP.
    named("olcRootPW", PASSWORD),
    named("olcSyncrepl", PASSWORD),
    named("olcDbIDAssertBind", PASSWORD),
    named("olcDbIDAssertPasswd", PASSWORD),
    named("olcDbACLBind", PASSWORD),
    named("olcDbACLPasswd", PASSWORD),
    named("olcDbCryptKey", KEY),
    named("olcTLSCertificateKey", KEY),
    named("reqMod", CHANGES),
    named("reqOld", CHANGES),
    named("reqData", CHANGES),
    named("reqAssertion", PASSWORD),
    named("oathEncKey", KEY),
    named("oathTokenPIN", PASSWORD),
    row("oathSecret", "1.3.6.1.4.1.5427.1.389.4226.4.1", KEY),
    // Samba and Active Directory.
    row("sambaLMPassword", "1.3.6.1.4.1.7165.2.1.24", PASSWORD),
    row("sambaNTPassword", "1.3.6.1.4.1.7165.2.1.25", PASSWORD),
    row("sambaPasswordHistory", "1.3.6.1.4.1.7165.2.1.54", OLD_PASSWORDS),
    row("sambaClearTextPassword", "1.3.6.1.4.1.7165.2.1.68", PASSWORD),
    row("sambaPreviousClearTextPassword", "1.3.6.1.4.1.7165.2.1.69", OLD_PASSWORDS),
    named("lmPassword", PASSWORD),
    named("ntPassword", PASSWORD),
    row("unicodePwd", "1.2.840.113556.1.4.90", PASSWORD),
    row("dBCSPwd", "1.2.840.113556.1.4.55", PASSWORD),
    row("ntPwdHistory", "1.2.840.113556.1.4.94", OLD_PASSWORDS),
    row("lmPwdHistory", "1.2.840.113556.1.4.160", OLD_PASSWORDS),
    row("supplementalCredentials", "1.2.840.113556.1.4.125", KEY),
    row("trustAuthIncoming", "1.2.840.113556.1.4.129", KEY),
    row("trustAuthOutgoing", "1.2.840.113556.1.4.135", KEY),
    named("initialAuthIncoming", KEY),
    named("initialAuthOutgoing", KEY),
    row("currentValue", "1.2.840.113556.1.4.27", KEY),
    row("priorValue", "1.2.840.113556.1.4.100", KEY),
    row("pekList", "1.2.840.113556.1.4.865", KEY),
    named("unixUserPassword", PASSWORD),
    named("msSFU30Password", PASSWORD),
    named("msDS-ExecuteScriptPassword", PASSWORD),
    named("msTPM-OwnerInformation", PASSWORD),
    named("msTPM-OwnerInformationTemp", PASSWORD),
    named("msKds-RootKeyData", KEY),
    named("msPKIAccountCredentials", KEY),
    named("msPKIDPAPIMasterKeys", KEY),
    named("msPKI-CredentialRoamingTokens", KEY),
    named("msDS-ManagedPassword", PASSWORD),
    named("ms-Mcs-AdmPwd", PASSWORD),
    named("msLAPS-Password", PASSWORD),
    named("msLAPS-EncryptedPassword", PASSWORD),
    named("msLAPS-EncryptedPasswordHistory", OLD_PASSWORDS),
    named("msLAPS-EncryptedDSRMPassword", PASSWORD),
    named("msLAPS-EncryptedDSRMPasswordHistory", OLD_PASSWORDS),
    named("msFVE-RecoveryPassword", PASSWORD),
    named("msFVE-KeyPackage", KEY),
    // Kerberos.
    row("krbPrincipalKey", "2.16.840.1.113719.1.301.4.39.1", KEY),
    row("krbMKey", "2.16.840.1.113719.1.301.4.46.1", KEY),
    named("krbPwdHistory", OLD_PASSWORDS),
    named("krbExtraData", STATE),
    row("krb5Key", "1.3.6.1.4.1.5322.10.1.10", KEY),
    // FreeIPA.
    named("ipaNTHash", PASSWORD),
    row("ipatokenOTPkey", "2.16.840.1.113730.3.8.16.1.8", KEY),
    named("ipatokenRadiusSecret", KEY),
    named("ipaPrivateKey", KEY),
    named("ipaSecretKey", KEY),
    named("ipaWrappedKey", KEY),
    named("ipaIdpClientSecret", KEY),
    named("ipaNTTrustAuthIncoming", KEY),
    named("ipaNTTrustAuthOutgoing", KEY),
    // eDirectory.
    named("nspmPassword", PASSWORD),
    named("nspmPasswordKey", KEY),
    named("nspmDistributionPassword", PASSWORD),
    named("nspmPreviousDistributionPassword", OLD_PASSWORDS),
    named("nspmPasswordHistory", OLD_PASSWORDS),
    named("sasLoginSecret", KEY),
    named("sasLoginSecretKey", KEY),
    named("passwordsUsed", OLD_PASSWORDS),
    named("nDSPKIPrivateKey", KEY),
    // IBM.
    named("ibm-slapdAdminPW", PASSWORD),
    named("ibm-slapdMasterPW", PASSWORD),
    named("replicaCredentials", PASSWORD),
    // Univention, Zimbra, Asterisk.
    named("pwhistory", OLD_PASSWORDS),
    named("zimbraPasswordHistory", OLD_PASSWORDS),
    named("zimbraAuthTokenKey", KEY),
    named("zimbraCsrfTokenKey", KEY),
    named("zimbraPreAuthKey", KEY),
    named("zimbraDataSourcePassword", PASSWORD),
    named("zimbraAppSpecificPassword", PASSWORD),
    named("zimbraGalLdapBindPassword", PASSWORD),
    named("zimbraAuthLdapSearchBindPassword", PASSWORD),
    named("zimbraTwoFactorAuthSecret", KEY),
    named("zimbraTwoFactorAuthScratchCodes", PASSWORD),
    named("zimbraSSLPrivateKey", KEY),
    named("AstAccountSecret", PASSWORD),
    named("AstAccountRealmedPassword", PASSWORD),
    named("AstMD5secret", PASSWORD),
    named("AstVoicemailPassword", PASSWORD),
    named("AstVoicemailPwd", PASSWORD),
    // Others.
    row("nisSecretKey", "1.3.6.1.1.1.1.29", KEY),
    row("userPKCS12", "2.16.840.1.113730.3.1.216", KEY),
    named("userPKCS8", KEY),
    named("sshPrivateKey", KEY),
    named("privateKey", KEY),
    named("dhcpKeySecret", KEY),
    named("radiusTunnelPassword", PASSWORD),
    named("radiusSecret", KEY),
    named("SIPIdentityPassword", PASSWORD),
    named("h235IdentityPassword", PASSWORD),
    named("googleAuthenticatorSecret", KEY),
    named("totpSecret", KEY),
];

const PASSWORD: &str = "a password or a hash of one";
const OLD_PASSWORDS: &str = "former passwords";
const KEY: &str = "a key";
const CHANGES: &str = "changes, including those of passwords";
const STATE: &str = "the state of a password";

const fn row(name: &'static str, oid: &'static str, what: &'static str) -> KnownSecret {
    KnownSecret { name, oid: Some(oid), what }
}

const fn named(name: &'static str, what: &'static str) -> KnownSecret {
    KnownSecret { name, oid: None, what }
}

#[cfg(test)]
mod tests {
    use crate::{Schema, SchemaFile};

    #[test]
    fn a_type_is_secret_by_its_name_its_oid_its_mark_or_its_superior() {
        for name in ["currentValue", "priorValue", "unixUserPassword", "msSFU30Password", "reqMod"]
            .into_iter()
            .chain(["msTPM-OwnerInformation", "olcSyncrepl", "olcRootPW", "reqOld", "oathEncKey"])
            .chain(["AstAccountSecret", "pwhistory", "ds-sync-hist", "changes"])
        {
            assert!(super::KNOWN_SECRETS.iter().any(|known| known.name == name), "{name}");
        }
        let text = "dn: cn=schema\nobjectClass: subschema\ncn: schema\n\
            attributeTypes: ( 1.3.6.1.4.1.99999.1 NAME ( 'my-hash' 'SAMBANTPassword' ) \
            SYNTAX 1.3.6.1.4.1.1466.115.121.1.26 )\n\
            attributeTypes: ( 1.3.6.1.4.1.7165.2.1.24 NAME 'otherName' \
            SYNTAX 1.3.6.1.4.1.1466.115.121.1.26 )\n\
            attributeTypes: ( 1.3.6.1.4.1.99999.3 NAME 'pin' \
            SYNTAX 1.3.6.1.4.1.1466.115.121.1.26 X-SECRET 'TRUE' )\n\
            attributeTypes: ( 1.3.6.1.4.1.99999.4 NAME 'longPin' SUP pin )\n\
            attributeTypes: ( 1.3.6.1.4.1.99999.5 NAME 'badge' \
            SYNTAX 1.3.6.1.4.1.1466.115.121.1.26 X-SECRET 'FALSE' )\n\
            attributeTypes: ( 1.3.6.1.4.1.99999.6 NAME 'msLAPSPassword' \
            SYNTAX 1.3.6.1.4.1.1466.115.121.1.26 )\n";
        let file = SchemaFile { name: "99-user.ldif".to_owned(), text: text.to_owned() };
        let schema = Schema::builtin().with_files(&[file]).unwrap();
        let is_secret = |name: &str| schema.attribute_type(name).unwrap().is_secret();
        for name in ["my-hash", "otherName", "pin", "longPin", "msLAPSPassword", "userPassword"] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["badge", "cn", "description", "uid", "userCertificate", "sn"] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn what_the_tables_oids_name_has_that_name() {
        let schema = Schema::builtin();
        for known in super::KNOWN_SECRETS {
            if let Some(by_oid) = known.oid.and_then(|oid| schema.attribute_type(oid)) {
                assert!(by_oid.is_named(known.name), "{known:?} is {by_oid:?}");
            }
            if let Some(by_name) = schema.attribute_type(known.name) {
                assert!(known.oid.is_none_or(|oid| by_name.oid == oid), "{known:?}");
            }
        }
    }
}
