//! The tree that sessions are about, with values that nobody in it may read.

/// The tree: names, and attributes each with a value.
pub(super) fn entries() -> Vec<(String, Vec<(&'static str, String)>)> {
    let own = |text: &[(&'static str, &str)]| -> Vec<(&'static str, String)> {
        text.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
    };
    let mut all = vec![
        (
            PEOPLE.to_owned(),
            own(&[
                ("objectClass", "organizationalUnit"),
                ("aci", SELF),
                ("aci", BERTS),
                ("aci", HIDE),
            ]),
        ),
        (
            SECRET.to_owned(),
            own(&[
                ("objectClass", "organizationalUnit"),
                ("aci", HIDE_ALL),
                ("description", "SECRETMARKER"),
            ]),
        ),
    ];
    all.push((
        "cn=policy,dc=example,dc=org".to_owned(),
        own(&[
            ("objectClass", "subentry"),
            ("objectClass", "pwdPolicy"),
            ("cn", "policy"),
            ("subtreeSpecification", "{}"),
            ("pwdAttribute", "userPassword"),
            ("pwdLockout", "TRUE"),
            ("pwdLockoutDuration", "5"),
            ("pwdMaxFailure", "9"),
            ("pwdInHistory", "2"),
            ("pwdMinLength", "4"),
            ("pwdMaxAge", "864000"),
            ("pwdGraceAuthNLimit", "3"),
        ]),
    ));
    for uid in ["anna", "bert", "carla"] {
        let mut entry = own(&[
            ("objectClass", "inetOrgPerson"),
            ("cn", uid),
            ("sn", "Berg"),
            ("mail", "x@example.org"),
            ("employeeNumber", "SECRETMARKER 1"),
        ]);
        let hash = "{SSHA}SECRETMARKERSECRETMARKERSECRETMARKERAA==";
        let password = if uid == "carla" { hash } else { PASSWORD };
        entry.push(("userPassword", password.to_owned()));
        all.push((format!("uid={uid},{PEOPLE}"), entry));
    }
    for number in 0..40 {
        let text = format!("{number} {}", "long ".repeat(30));
        let entry = [("cn", "x"), ("sn", "Berg"), ("employeeNumber", "SECRETMARKER 2")];
        let mut entry = own(&entry);
        entry.push(("objectClass", "inetOrgPerson".to_owned()));
        entry.push(("description", text));
        all.push((format!("uid=user{number},{PEOPLE}"), entry));
        let entry = [("objectClass", "device"), ("description", "SECRETMARKER 3")];
        all.push((format!("cn=thing{number},{SECRET}"), own(&entry)));
    }
    all.push((
        format!("cn=staff,{PEOPLE}"),
        own(&[("objectClass", "groupOfNames"), ("member", ANNA), ("member", "cn=x")][..2]),
    ));
    all.push((
        format!("cn=link,{PEOPLE}"),
        own(&[
            ("objectClass", "alias"),
            ("objectClass", "extensibleObject"),
            ("aliasedObjectName", SECRET),
        ]),
    ));
    all.push((
        format!("cn=elsewhere,{PEOPLE}"),
        own(&[
            ("objectClass", "referral"),
            ("objectClass", "extensibleObject"),
            ("ref", "ldap://other.example.org/dc=example"),
        ]),
    ));
    all
}

pub(super) const SUFFIX: &str = "dc=example,dc=org";
pub(super) const ROOT_DN: &str = "cn=Directory Manager";
pub(super) const ADMIN_PASSWORD: &str = "7f0c-of-the-administrator-alone";
pub(super) const PASSWORD: &str = "secret";
pub(super) const PEOPLE: &str = "ou=people,dc=example,dc=org";
pub(super) const SECRET: &str = "ou=secret,dc=example,dc=org";
pub(super) const ANNA: &str = "uid=anna,ou=people,dc=example,dc=org";
pub(super) const BERT: &str = "uid=bert,ou=people,dc=example,dc=org";

const SELF: &str = "(targetattr=\"description || userPassword || mail || jpegPhoto\")(version 3.0; \
                    acl \"own\"; allow (write) userdn=\"ldap:///self\";)";
pub(super) const BERTS: &str = "(targetattr=\"*\")(version 3.0; acl \"bert SECRETMARKER\"; allow \
                     (all,proxy,import,export) userdn=\"ldap:///uid=bert,ou=people,dc=example,\
                     dc=org\" or groupdn=\"ldap:///cn=staff,ou=people,dc=example,dc=org\";)";
const HIDE: &str = "(targetattr=\"employeeNumber || userPassword || aci\")(version 3.0; acl \
                    \"SECRETMARKER\"; deny (read,search,compare) userdn=\"ldap:///anyone\";)";
const HIDE_ALL: &str = "(targetattr=\"* || +\")(version 3.0; acl \"SECRETMARKER\"; deny (all,proxy,\
                        import,export) userdn=\"ldap:///anyone\";)";
