//! Configurations as other servers write them, and what is made of them.

use std::fmt::Write as _;
use std::fs;

use schema::Schema;

use super::row::{Fate, Row};
use super::*;

fn read(text: &str) -> Configuration {
    try_read(text.as_bytes()).unwrap()
}

fn try_read(text: &[u8]) -> Result<Configuration, ConfigurationError> {
    let source = Source::new("config.ldif", text);
    Configuration::read(source, Some(&Schema::builtin()))
}

/// What is set, as the report says it.
fn settings(found: &Configuration) -> Vec<String> {
    found.settings.iter().map(|setting| setting.change.to_string()).collect()
}

#[track_caller]
fn check(text: &str, wanted: &[&str], left_out: &[&str]) {
    let found = read(text);
    assert_eq!(settings(&found), wanted);
    let told: Vec<String> = found
        .untranslated
        .iter()
        .map(|SettingRemark { about, why, .. }| format!("{about}: {why}"))
        .collect();
    assert_eq!(told.len(), left_out.len(), "{told:#?}");
    for (told, wanted) in told.iter().zip(left_out) {
        assert!(told.contains(wanted), "{wanted}: {told}");
    }
}

const DATABASE: &str = "dn: olcDatabase={1}mdb,cn=config\nobjectClass: olcDatabaseConfig\n\
                        olcDatabase: {1}mdb\nolcSuffix: dc=x\n";

/// An overlay of that database.
fn overlay(name: &str, values: &str) -> String {
    format!(
        "{DATABASE}\ndn: olcOverlay={{0}}{name},olcDatabase={{1}}mdb,cn=config\n\
         objectClass: olcOverlayConfig\nolcOverlay: {{0}}{name}\n{values}"
    )
}

const C: &str = " (cn=Constraints,cn=config)";
const A: &str = " (cn=Assignments,cn=config)";
const R: &str = " (cn=References,cn=config)";
const G: &str = " (cn=Groups,cn=config)";

#[test]
fn groups_of_openldap_are_direct_ones() {
    let direct = format!("roster-member-of: direct{G}");
    check(&overlay("memberof", ""), &[&direct], &[]);
    check(
        &overlay("memberof", "olcMemberOfDangling: error\n"),
        &[&direct, &format!("roster-constraint: members-exist: exists member below dc=x{C}")],
        &[],
    );
    check(&overlay("memberof", "olcMemberOfMemberOfAD: seeAlso\n"), &[], &["not 'seeAlso'"]);
    check(&overlay("memberof", "olcMemberOfMemberAD: owner\n"), &[], &["not in 'owner'"]);
    check(&overlay("memberof", "olcMemberOfDangling: drop\n"), &[&direct], &["are kept"]);
    check(&overlay("memberof", "olcDisabled: TRUE\n"), &[], &["disabled"]);
}

#[test]
fn references_get_an_index() {
    check(
        &overlay(
            "refint",
            "olcRefintAttribute: Secretary documentAuthor\n\
                            olcRefintAttribute: noSuch\nolcRefintNothing: cn=x\n\
                            olcRefintAttribute: cn\n",
        ),
        &[
            "index equality secretary",
            "index equality documentAuthor",
            &format!("roster-reference: secretary{R}"),
            &format!("roster-reference: documentAuthor{R}"),
        ],
        &["noSuch", "'cn' are no names", "may be empty"],
    );
}

#[test]
fn unique_values_of_openldap_are_constraints() {
    check(
        &overlay(
            "unique",
            "olcUniqueURI: strict ldap:///ou=a,dc=x?mail,uid?sub?(objectClass=person)\n\
             olcUniqueURI: ldap:///?uid?sub\nolcUniqueURI: ignore ldap:///?cn?sub\n\
             olcUniqueURI: ldap:///ou=a,dc=x?uid?one\nolcUniqueURI: ldap:///ou=a,dc=x??sub\n\
             olcUniqueURI: ldap:///?userPassword?sub\nolcUniqueURI: x:y\n",
        ),
        &[
            "index equality mail",
            "index equality uid",
            &format!(
                "roster-constraint: unique-mail-uid: unique mail,uid below ou=a,dc=x where \
                 (objectClass=person){C}"
            ),
            &format!("roster-constraint: unique-uid: unique uid below dc=x{C}"),
        ],
        &["not unique", "and all below", "every attribute", "is secret", "no URL"],
    );
    check(
        &overlay("unique", "olcUniqueBase: ou=b,dc=x\nolcUniqueAttribute: uid\n"),
        &["index equality uid", &format!("roster-constraint: uid: unique uid below ou=b,dc=x{C}")],
        &[],
    );
}

#[test]
fn constraints_of_openldap_are_constraints() {
    check(
        &overlay(
            "constraint",
            "olcConstraintAttribute: {0}mail,cn count 3\n\
             olcConstraintAttribute: {1}uid regex \"^[a-z]+$\"\n\
             olcConstraintAttribute: {2}title size 9 restrict=\"ldap:///ou=a,dc=x??sub?(sn=b)\"\n\
             olcConstraintAttribute: uid regex \\d\nolcConstraintAttribute: uid set \"a b\"\n\
             olcConstraintAttribute: uid\n",
        ),
        &[
            &format!("roster-constraint: count-mail-cn: count mail,cn ..3 below dc=x{C}"),
            &format!("roster-constraint: regex-uid: pattern uid /[a-z]+/ below dc=x{C}"),
            &format!(
                "roster-constraint: size-title: length title ..9 below ou=a,dc=x where (sn=b){C}"
            ),
        ],
        &["something else", "no such kind", "are expected"],
    );
}

#[test]
fn the_rest_of_openldap_is_told() {
    let text = format!(
        "{DATABASE}olcDbIndex: default eq\nolcDbIndex: uid,mail\nolcDbIndex: objectClass eq\n\
         olcDbIndex: cn sub,nolang\nolcDbIndex: memberOf eq\nolcAccess: {{0}}to * by * read\n\
         olcLastBind: TRUE\nolcReadOnly: FALSE\n\n\
         dn: cn=config\nobjectClass: olcGlobal\nolcSizeLimit: 17\nolcTimeLimit: unlimited\n\n\
         dn: olcOverlay={{0}}ppolicy,olcDatabase={{1}}mdb,cn=config\nolcOverlay: {{0}}ppolicy\n\
         olcPPolicyDefault: cn=a\\\"b,dc=x\n\n\
         dn: olcOverlay={{1}}strange,olcDatabase={{1}}mdb,cn=config\nolcOverlay: {{1}}strange\n\n\
         dn: cn={{9}}own,cn=schema,cn=config\nobjectClass: olcSchemaConfig\ncn: {{9}}own\n"
    );
    check(
        &text,
        &[
            "index equality uid",
            "index equality mail",
            "index substring cn",
            "[password_policy] last_login = \"on\"",
            "[limits] size_limit_entries = 17",
            "[password_policy] default_dn = \"cn=a\\\\\\\"b,dc=x\"",
        ],
        &["1 access rule ", "limits.time_limit_s", "strange: there is no", "schema own"],
    );
    let found = read(&text);
    assert_eq!(found.default_policies, ["cn=a\\\"b,dc=x"]);
    assert_eq!(found.built_in.len(), 1, "{:?}", found.built_in);
}

/// An overlay of the frontend is about every database.
#[test]
fn overlays_of_no_database_are_about_all() {
    let frontend = |name: &str, values: &str| {
        overlay(name, values).replace("{1}mdb", "{-1}frontend").replace("olcSuffix: dc=x\n", "")
    };
    let unique = "olcUniqueURI: ldap:///?uid?sub\n";
    let wanted = ["index equality uid", &format!("roster-constraint: unique-uid: unique uid{C}")];
    check(&frontend("unique", unique), &wanted, &[]);
    let old = ["index equality uid", &format!("roster-constraint: uid: unique uid{C}")];
    check(&frontend("unique", "olcUniqueAttribute: uid\n"), &old, &[]);
    check(
        &frontend("constraint", "olcConstraintAttribute: uid count 3\n"),
        &[&format!("roster-constraint: count-uid: count uid ..3{C}")],
        &[],
    );
    check(
        &frontend("memberof", "olcMemberOfDangling: error\n"),
        &[
            &format!("roster-member-of: direct{G}"),
            &format!("roster-constraint: members-exist: exists member{C}"),
        ],
        &[],
    );
    check(&format!("{DATABASE}olcRestrict: add\n"), &[], &["olcRestrict: deny what it forbids"]);
}

/// The file of a server has one value for each key.
#[test]
fn limits_are_those_of_the_whole_server() {
    let policy = |number: u32, name: &str| {
        format!(
            "dn: olcOverlay={{0}}ppolicy,olcDatabase={{{number}}}mdb,cn=config\n\
             olcOverlay: {{0}}ppolicy\nolcPPolicyDefault: {name}\n\n"
        )
    };
    let text = format!(
        "dn: cn=config\nobjectClass: olcGlobal\nolcSizeLimit: 10\n\n\
         dn: olcDatabase={{-1}}frontend,cn=config\nobjectClass: olcDatabaseConfig\n\
         olcDatabase: {{-1}}frontend\nolcSizeLimit: 20\nolcTimeLimit: 30\n\n\
         {DATABASE}olcSizeLimit: 40\nolcTimeLimit: 30\n\n{}{}{}",
        policy(1, "cn=a,dc=x"),
        policy(2, "cn=b,dc=x"),
        policy(3, "cn=a,dc=x")
    );
    check(
        &text,
        &[
            "[limits] size_limit_entries = 10",
            "[limits] time_limit_s = 30",
            "[password_policy] default_dn = \"cn=a,dc=x\"",
        ],
        &[
            "limits.size_limit_entries = 20: there is one value",
            "olcSizeLimit: of one database",
            "olcTimeLimit: of one database",
            "\"cn=b,dc=x\": there is one value",
        ],
    );
    assert_eq!(read(&text).default_policies, ["cn=a,dc=x"]);
}

const PLUGINS: &str = "dn: cn=config\nobjectClass: nsslapdConfig\n\n\
                       dn: cn=userRoot,cn=ldbm database,cn=plugins,cn=config\n\
                       objectClass: nsBackendInstance\nnsslapd-suffix: dc=x\n\n";

/// A plugin that is switched on, and entries below it.
fn plugin(library: &str, values: &str, below: &str) -> String {
    let below: String = below.split_terminator("\n\n").fold(String::new(), |mut text, entry| {
        let (rdn, values) = entry.split_once('\n').unwrap();
        let _ = write!(text, "\ndn: {rdn},cn=it,cn=plugins,cn=config\n{values}\n");
        text
    });
    format!(
        "{PLUGINS}dn: cn=it,cn=plugins,cn=config\nobjectClass: nsSlapdPlugin\n\
         nsslapd-pluginPath: /usr/lib/{library}.so\nnsslapd-pluginEnabled: on\n{values}{below}"
    )
}

#[test]
fn plugins_of_389_about_groups_and_references() {
    check(&plugin("libmemberof-plugin", "memberOfGroupAttr: member\n", ""), &[], &[]);
    check(
        &plugin("libmemberof-plugin", "memberOfSkipNested: on\nmemberOfGroupAttr: owner\n", ""),
        &[&format!("roster-member-of: direct{G}")],
        &["not in 'owner'"],
    );
    let wanted = ["index equality owner", &format!("roster-reference: owner{R}")];
    check(&plugin("libreferint-plugin", "referint-membership-attr: owner\n", ""), &wanted, &[]);
    let old = "nsslapd-pluginarg3: owner\nnsslapd-pluginarg0: 0\nnsslapd-pluginarg1: log\n\
               nsslapd-pluginarg2: 0\n";
    check(&plugin("libreferint-plugin", old, ""), &wanted, &[]);
    let off = plugin("libreferint-plugin", old, "").replace("Enabled: on", "Enabled: off");
    check(&off, &[], &[]);
}

#[test]
fn plugins_of_389_about_values() {
    let unique = "nsslapd-pluginInitfunc: NSUniqueAttr_Init\n";
    check(
        &plugin(
            "libattr-unique-plugin",
            &format!(
                "{unique}uniqueness-attribute-name: mail\nuniqueness-attribute-name: uid\n\
                 uniqueness-subtrees: ou=a,dc=x\nuniqueness-subtree-entries-oc: person\n"
            ),
            "",
        ),
        &[
            "index equality mail",
            "index equality uid",
            &format!(
                "roster-constraint: it: unique across mail,uid below ou=a,dc=x where \
                 (objectClass=person){C}"
            ),
        ],
        &[],
    );
    let old = format!("{unique}nsslapd-pluginarg0: uid\nnsslapd-pluginarg1: dc=x\n");
    check(
        &plugin("libattr-unique-plugin", &old, ""),
        &["index equality uid", &format!("roster-constraint: it: unique uid below dc=x{C}")],
        &[],
    );
    let nowhere =
        plugin("libattr-unique-plugin", &format!("{unique}nsslapd-pluginarg0: uid\n"), "")
            .replace("nsBackendInstance", "top");
    let all = ["index equality uid", &format!("roster-constraint: it: unique uid{C}")];
    check(&nowhere, &all, &[]);
    let top = format!("{unique}uniqueness-attribute-name: uid\nuniqueness-top-entry-oc: o\n");
    check(&plugin("libattr-unique-plugin", &top, ""), &[], &["and all below"]);
    let seven = "nsslapd-pluginInitfunc: NS7bitAttr_Init\nnsslapd-pluginarg0: uid\n\
                 nsslapd-pluginarg1: userPassword\nnsslapd-pluginarg2: ,\n\
                 nsslapd-pluginarg3: dc=x\n";
    check(
        &plugin("libattr-unique-plugin", seven, ""),
        &[&format!("roster-constraint: 7-bit: ascii uid below dc=x{C}")],
        &["passwords have no constraint"],
    );
}

#[test]
fn plugins_of_389_that_write() {
    check(
        &plugin(
            "libdna-plugin",
            "",
            "cn=uids\ndnaType: uidNumber\ndnaType: gidNumber\ndnaNextValue: 10\ndnaMaxValue: 99\n\
             dnaMagicRegen: -1\ndnaFilter: objectClass=posixAccount\ndnaScope: ou=a,dc=x\n\n\
             cn=mails\ndnaType: mail\ndnaPrefix: user\n\n",
        ),
        &[
            "index equality uidNumber",
            "index equality gidNumber",
            &format!(
                "roster-assignment: uids: number uidNumber,gidNumber 10..99 for -1 below \
                 ou=a,dc=x where (objectClass=posixAccount){A}"
            ),
        ],
        &["no text before it"],
    );
    check(
        &plugin("liblinkedattrs-plugin", "", "cn=l\nlinkType: secretary\nmanagedType: seeAlso\n\n"),
        &[
            "index equality secretary",
            "index equality seeAlso",
            &format!("roster-assignment: l: link secretary to seeAlso below dc=x{A}"),
            &format!("roster-reference: secretary{R}"),
            &format!("roster-reference: seeAlso{R}"),
        ],
        &[],
    );
    check(
        &plugin("libmanagedentries-plugin", "", "cn=m\noriginScope: dc=x\n\n"),
        &[],
        &["with another one"],
    );
    check(&plugin("libown-plugin", "", ""), &[], &["it: the plugin is not known"]);
    check(&plugin("libown-plugin", "nsslapd-pluginType: syntax\n", ""), &[], &[]);
}

#[test]
fn members_by_expressions_are_members_by_filters() {
    let group = "autoMemberScope: dc=x\nautoMemberFilter: objectClass=device\n\
                 autoMemberDefaultGroup: cn=rest,dc=x\nautoMemberGroupingAttr: member:dn\n\
                 objectClass: autoMemberDefinition\n\n";
    let rule = |expression: &str| {
        format!(
            "cn=r,cn=hosts\nautoMemberTargetGroup: cn=web,dc=x\n\
             autoMemberInclusiveRegex: {expression}\nautoMemberExclusiveRegex: cn=^webmail\n\n"
        )
    };
    let index = "index equality member";
    let reference = format!("roster-reference: member{R}");
    // Case counts in an expression.
    let (web, mail) =
        ("(cn:caseExactSubstringsMatch:=web\\2a)", "(cn:caseExactSubstringsMatch:=webmail\\2a)");
    check(
        &plugin("libautomember-plugin", "", &format!("cn=hosts\n{group}")),
        &[
            index,
            &format!(
                "roster-assignment: hosts: member member of cn=rest,dc=x below dc=x where \
                 (objectClass=device){A}"
            ),
            &reference,
        ],
        &[],
    );
    check(
        &plugin("libautomember-plugin", "", &format!("cn=hosts\n{group}{}", rule("cn=^web"))),
        &[
            index,
            &format!(
                "roster-assignment: hosts: member member of cn=web,dc=x below dc=x where \
                 (&(objectClass=device){web}(!{mail})){A}"
            ),
            &format!(
                "roster-assignment: hosts-2: member member of cn=rest,dc=x below dc=x where \
                 (&(objectClass=device)(!(|(&{web}(!{mail}))))){A}"
            ),
            &reference,
        ],
        &[],
    );
    check(
        &plugin("libautomember-plugin", "", &format!("cn=hosts\n{group}{}", rule("cn=^w[0-9]"))),
        &[],
        &["no text with anchors", "one of its rules"],
    );
    // An expression that finds nothing is no filter that finds everything.
    check(
        &plugin("libautomember-plugin", "", &format!("cn=hosts\n{group}{}", rule("cn=^$"))),
        &[],
        &["no text with anchors", "one of its rules"],
    );
}

#[test]
fn members_that_389_makes_no_more_are_made_here_no_more() {
    let group = "autoMemberScope: dc=x\nautoMemberFilter: objectClass=device\n\
                 autoMemberDefaultGroup: cn=rest,dc=x\nobjectClass: autoMemberDefinition\n";
    let below = |more: &str| format!("cn=hosts\n{group}{more}\n");
    let library = "libautomember-plugin";
    let made = read(&plugin(library, "autoMemberProcessModifyOps: on\n", &below("")));
    assert_eq!((made.settings.len(), made.untranslated.len()), (3, 0), "{made}");
    for value in ["on", "off"] {
        let off = below(&format!("autoMemberDisabled: {value}\n"));
        check(&plugin(library, "", &off), &[], &["hosts: it is switched off"]);
    }
    let adds_only = plugin(library, "autoMemberProcessModifyOps: off\n", &below(""));
    check(&adds_only, &[], &["hosts: there only new entries"]);
}

#[test]
fn definitions_that_389_has_elsewhere_are_told() {
    let area = "nsslapd-pluginConfigArea: cn=here,dc=x\nreferint-membership-attr: owner\n";
    let number = "cn=a\ndnaType: uidNumber\ndnaNextValue: 1\n\n";
    for library in
        ["libautomember-plugin", "libmemberof-plugin", "libdna-plugin", "libreferint-plugin"]
    {
        let found = read(&plugin(library, area, number));
        assert!(found.built_in.is_empty(), "{found}");
        check(&plugin(library, area, number), &[], &["defined below 'cn=here,dc=x'"]);
    }
}

#[test]
fn indexes_limits_and_the_policy_of_389() {
    let found = read(
        "dn: cn=config\nobjectClass: nsslapdConfig\nnsslapd-sizelimit: 2000\n\
         nsslapd-timelimit: 60\npasswordLockout: on\npasswordMaxFailure: 5\n\
         nsslapd-rootpw: x\n\n\
         dn: cn=userRoot,cn=ldbm database,cn=plugins,cn=config\n\
         objectClass: nsBackendInstance\nnsslapd-suffix: dc=x\n\n\
         dn: cn=sn,cn=index,cn=userRoot,cn=ldbm database,cn=plugins,cn=config\n\
         objectClass: nsIndex\ncn: sn\nnsIndexType: eq,sub\nnsIndexType: approx\n\n\
         dn: cn=cn,cn=default indexes,cn=config,cn=ldbm database,cn=plugins,cn=config\n\
         objectClass: nsIndex\ncn: cn\nnsIndexType: eq\n",
    );
    assert_eq!(
        settings(&found),
        [
            "index equality sn",
            "index substring sn",
            "index approximate sn",
            "entry cn=Global Password Policy,dc=x",
            "[limits] time_limit_s = 60",
        ]
    );
    let policy = found.settings.iter().find_map(|setting| match &setting.change {
        SettingKind::Entry { attributes, .. } => Some(attributes),
        _ => None,
    });
    let has =
        |name: &str, value: &str| policy.unwrap().contains(&(name.to_owned(), value.to_owned()));
    assert!(has("objectClass", "subentry") && has("objectClass", "passwordPolicy"));
    assert!(has("subtreeSpecification", "{ }") && has("passwordMaxFailure", "5"));
    assert!(!has("nsslapd-rootpw", "x"));
}

#[test]
fn what_389_forbids_is_a_policy_or_told() {
    let config =
        |value: &str| PLUGINS.replacen("nsslapdConfig\n", &format!("nsslapdConfig\n{value}\n"), 1);
    let policy = "entry cn=Global Password Policy,dc=x";
    check(&config("passwordChange: off"), &[policy], &[]);
    check(&config("passwordChange: on"), &[], &[]);
    check(&config("nsslapd-pwpolicy-local: off"), &[], &["of users and subtrees hold here"]);
    check(&config("nsslapd-pwpolicy-local: on"), &[], &[]);
}

/// Entries of OpenDJ: a backend, and what follows it.
fn opendj(entries: &str) -> String {
    format!(
        "dn: cn=config\nobjectClass: ds-cfg-root-config\nds-cfg-size-limit: 77\n\
         ds-cfg-time-limit: 60 seconds\nds-cfg-lookthrough-limit: 5000\n\
         ds-cfg-default-password-policy: cn=Usual,cn=Password Policies,cn=config\n\n\
         dn: ds-cfg-backend-id=u,cn=Backends,cn=config\nobjectClass: ds-cfg-backend\n\
         objectClass: ds-cfg-je-backend\nds-cfg-enabled: true\nds-cfg-base-dn: dc=x\n\n{entries}"
    )
}

const LIMIT: &str = "[limits] size_limit_entries = 77";

#[test]
fn plugins_of_opendj() {
    check(
        &opendj(
            "dn: cn=mail,cn=Plugins,cn=config\nobjectClass: ds-cfg-plugin\n\
             objectClass: ds-cfg-unique-attribute-plugin\nds-cfg-enabled: true\n\
             ds-cfg-type: mail\n\n\
             dn: cn=off,cn=Plugins,cn=config\nobjectClass: ds-cfg-unique-attribute-plugin\n\
             ds-cfg-enabled: false\nds-cfg-type: uid\n\n\
             dn: cn=ref,cn=Plugins,cn=config\nobjectClass: ds-cfg-referential-integrity-plugin\n\
             ds-cfg-enabled: true\nds-cfg-attribute-type: owner\nds-cfg-check-references: true\n\n\
             dn: cn=own,cn=Plugins,cn=config\nobjectClass: ds-cfg-plugin\nobjectClass: own\n\
             ds-cfg-enabled: true\n\n\
             dn: cn=uuid,cn=Plugins,cn=config\nobjectClass: ds-cfg-plugin\n\
             objectClass: ds-cfg-entry-uuid-plugin\nobjectClass: top\nds-cfg-enabled: true\n\n\
             dn: cn=group,cn=Virtual Attributes,cn=config\n\
             objectClass: ds-cfg-is-member-of-virtual-attribute\nds-cfg-enabled: true\n\
             ds-cfg-attribute-type: seeAlso\n\n\
             dn: cn=given,cn=Virtual Attributes,cn=config\n\
             objectClass: ds-cfg-user-defined-virtual-attribute\nds-cfg-enabled: true\n\
             ds-cfg-attribute-type: l\nds-cfg-value: A|B (x)\nds-cfg-base-dn: dc=x\n\
             ds-cfg-filter: (cn=a)\nds-cfg-filter: (cn=b)\n\
             ds-cfg-conflict-behavior: virtual-overrides-real\n\n\
             dn: cn=ours,cn=Virtual Attributes,cn=config\n\
             objectClass: ds-cfg-user-defined-virtual-attribute\nds-cfg-enabled: true\n\
             ds-cfg-attribute-type: o\nds-cfg-value: x\nds-cfg-group-dn: cn=g,dc=x\n\n\
             dn: ds-cfg-attribute=sn,cn=Index,ds-cfg-backend-id=u,cn=Backends,cn=config\n\
             objectClass: ds-cfg-backend-index\nds-cfg-attribute: sn\n\
             ds-cfg-index-type: substring\nds-cfg-index-type: extensible\n\
             ds-cfg-index-extensible-matching-rule: 1.2.3\n",
        ),
        &[
            "index equality mail",
            "index equality owner",
            "index substring sn",
            &format!("roster-constraint: mail: unique mail below dc=x{C}"),
            &format!("roster-reference: owner{R}"),
            &format!("roster-constraint: references-exist: exists owner below dc=x{C}"),
            "roster-virtual-attribute: l: constant l (A\\|B (x\\)) override below dc=x where \
             (|(cn=a)(cn=b)) (cn=Virtual Attributes,cn=config)",
            LIMIT,
        ],
        &["own (own): the plugin", "seeAlso", "the members of a group", "extensible sn 1.2.3"],
    );
}

#[test]
fn the_default_policy_of_opendj_is_that_of_all() {
    let found = read(&opendj(
        "dn: cn=Usual,cn=Password Policies,cn=config\nobjectClass: ds-cfg-password-policy\n\
         ds-cfg-lockout-failure-count: 4\nds-cfg-password-attribute: userPassword\n\
         ds-cfg-password-validator: cn=Long,cn=Password Validators,cn=config\n\n\
         dn: cn=Long,cn=Password Validators,cn=config\nds-cfg-enabled: true\n\
         objectClass: ds-cfg-length-based-password-validator\nds-cfg-min-password-length: 9\n\n\
         dn: cn=Other,cn=Password Policies,cn=config\nobjectClass: ds-cfg-password-policy\n",
    ));
    assert_eq!(settings(&found), ["entry cn=Usual,dc=x", LIMIT]);
    let text = String::from_utf8(found.ldif()).unwrap();
    for line in [
        "# from cn=Usual,cn=Password Policies,cn=config\ndn: cn=Usual,dc=x\nchangetype: add\n",
        "\nobjectClass: ds-pwp-length-based-validator\n",
        "\nds-pwp-lockout-failure-count: 4\n",
        "\nds-pwp-length-based-min-password-length: 9\n",
        "\n# [limits] size_limit_entries = 77\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("password-attribute"), "{text}");
    assert_eq!(found.untranslated.len(), 1, "{:?}", found.untranslated);
}

#[test]
fn rules_of_opendj_that_are_not_kept_are_told() {
    let text = opendj(
        "dn: cn=Usual,cn=Password Policies,cn=config\nobjectClass: ds-cfg-password-policy\n\
         ds-cfg-java-class: x\nds-cfg-password-attribute: userPassword\n\
         ds-cfg-require-secure-authentication: true\n\
         ds-cfg-require-secure-password-changes: false\n\
         ds-cfg-require-change-by-time: 20200101000000Z\n\
         ds-cfg-last-login-time-attribute: ds-pwp-last-login-time\n\
         ds-cfg-password-validator: cn=Sets,cn=Password Validators,cn=config\n\n\
         dn: cn=Sets,cn=Password Validators,cn=config\nds-cfg-enabled: true\n\
         objectClass: ds-cfg-character-set-password-validator\n\
         ds-cfg-min-character-sets: 2\nds-cfg-character-set: 1:0123456789\n\
         ds-cfg-character-set: 0:abc\nds-cfg-allow-unclassified-characters: false\n",
    );
    check(
        &text,
        &["entry cn=Usual,dc=x", LIMIT],
        &[
            "Usual: ds-cfg-require-secure-authentication: true: ",
            "Usual: ds-cfg-require-change-by-time: 2020",
            "Sets: ds-cfg-character-set: 1:0123456789: ",
            "Sets: ds-cfg-allow-unclassified-characters: false: ",
        ],
    );
    let ldif = String::from_utf8(read(&text).ldif()).unwrap();
    for line in [
        "\nds-pwp-last-login-time-attribute: ds-pwp-last-login-time\n",
        "\nds-pwp-character-set-min-character-sets: 2\n",
    ] {
        assert!(ldif.contains(line), "{line}: {ldif}");
    }
}

#[test]
fn virtual_attributes_and_unique_values_of_opendj_have_their_place() {
    let given = |values: &str| {
        opendj(&format!(
            "dn: cn=given,cn=Virtual Attributes,cn=config\nds-cfg-enabled: true\n\
             objectClass: ds-cfg-user-defined-virtual-attribute\nds-cfg-value: x\n{values}"
        ))
    };
    let line = "roster-virtual-attribute: l: constant l (x) where (objectClass=*) \
                (cn=Virtual Attributes,cn=config)";
    check(&given("ds-cfg-attribute-type: l\nds-cfg-scope: whole-subtree\n"), &[line, LIMIT], &[]);
    let one = given("ds-cfg-attribute-type: l\nds-cfg-scope: single-level\n");
    check(&one, &[LIMIT], &["l with ds-cfg-scope: single-level: "]);
    let more = given("ds-cfg-attribute-type: l (y) below dc=x\n");
    check(&more, &[LIMIT], &["is no attribute"]);
    let unique = opendj(
        "dn: cn=mail,cn=Plugins,cn=config\nds-cfg-enabled: true\nds-cfg-type: mail\n\
         objectClass: ds-cfg-unique-attribute-plugin\n",
    );
    let nowhere = unique.replace("ds-cfg-je-backend", "ds-cfg-ldif-backend");
    let wanted =
        ["index equality mail", &format!("roster-constraint: mail: unique mail{C}"), LIMIT];
    check(&nowhere, &wanted, &[]);
}

#[test]
fn what_is_no_configuration_is_refused_with_its_line() {
    let limit = format!("{DATABASE}{}", "description: x\n".repeat(VALUES_MAX + 1));
    let many = "dn: cn=x\ncn: x\n\n".repeat(ENTRIES_MAX + 1);
    for (text, line, why) in [
        ("", 0, "no configuration that is known"),
        ("dn: dc=x\nobjectClass: domain\n", 0, "no configuration that is known"),
        ("dn: cn=x\nchangetype: delete\n", 1, "a change is no entry"),
        ("dn: cn=a\ncn: a\n\ndn: cn=b\nnonsense\n", 5, ""),
        (&limit, 1, ""),
        (&many, 30_001, "at most 10000 entries"),
    ] {
        let error = try_read(text.as_bytes()).unwrap_err();
        assert!(error.reason.contains(why), "{error}");
        assert!(line == 0 || error.line >= line, "{error}");
    }
    let long = vec![b'#'; usize::try_from(CONFIGURATION_MAX_BYTES).unwrap() + 1];
    assert!(try_read(&long).unwrap_err().reason.contains("at most 64 MiB"));
}

#[test]
fn what_comes_from_another_server_begins_no_line_and_is_bounded() {
    let name = "olcOverlay=x\\0adn: cn=evil\\0achangetype: delete,olcDatabase={1}mdb,cn=config";
    let urls: String = (0..5000).fold(String::new(), |mut text, number| {
        let _ = writeln!(text, "olcUniqueURI: ldap:///ou={number},dc=x?uid?sub");
        text
    });
    let found = read(&format!(
        "{DATABASE}\ndn: {name}\nobjectClass: olcOverlayConfig\nolcOverlay: unique\n{urls}"
    ));
    assert!(found.settings.len() <= 2000, "{}", found.settings.len());
    assert!(found.untranslated.len() <= 2001, "{}", found.untranslated.len());
    let text = [String::from_utf8(found.ldif()).unwrap(), found.to_string()].concat();
    assert!(!text.contains("\ndn: cn=evil"), "{text}");
}

/// A value of a configuration is one part of a line, whatever is in it.
#[test]
fn no_value_says_more_than_its_place_in_a_line() {
    check(
        &overlay(
            "constraint",
            "olcConstraintAttribute: mail count \"3 below dc=y\"\n\
             olcConstraintAttribute: \"mail below dc=y\" count 3\n",
        ),
        &[],
        &["a number is expected", "is no attribute"],
    );
    let unique = "nsslapd-pluginInitfunc: NSUniqueAttr_Init\n\
                  uniqueness-attribute-name: uid below dc=y\n";
    check(&plugin("libattr-unique-plugin", unique, ""), &[], &["is no attribute"]);
    check(
        &plugin(
            "libdna-plugin",
            "",
            "cn=a\ndnaType: uidNumber\ndnaNextValue: 1\ndnaMagicRegen: -1 below dc=y\n\n",
        ),
        &[],
        &["have blanks"],
    );
    check(
        &plugin(
            "libautomember-plugin",
            "",
            "cn=a\nobjectClass: autoMemberDefinition\nautoMemberScope: dc=x\n\
             autoMemberDefaultGroup: cn=a below dc=y where (cn=z),dc=x\n\n",
        ),
        &[
            "index equality member",
            &format!(
                "roster-assignment: a: member member of cn=a\\20below dc=y\\20where (cn=z),dc=x \
                 below dc=x where (objectClass=*){A}"
            ),
            &format!("roster-reference: member{R}"),
        ],
        &[],
    );
}

/// `ROSTER_WRITE_REFERENCE=1 cargo test -p offline reference` writes it again.
#[test]
fn the_reference_of_configurations_is_written_from_the_tables() {
    let tables: [(&str, &[Row]); 6] = [
        ("OpenLDAP, overlay", openldap_overlays::OVERLAYS),
        ("OpenLDAP, attribute", openldap::ATTRIBUTES),
        ("389, plugin", ds389_plugins::PLUGINS),
        ("389, class", ds389::CLASSES),
        ("389, attribute", ds389::ATTRIBUTES),
        ("OpenDJ, class", opendj::CLASSES),
    ];
    let mut table = String::from("| where | what | becomes |\n| --- | --- | --- |\n");
    for (place, rows) in tables {
        for Row { name, fate, says } in rows {
            let becomes = match fate {
                Fate::Becomes(_) => (*says).to_owned(),
                Fate::BuiltIn => format!("nothing: {says}"),
                Fate::LeftOut => format!("not translated: {says}"),
                Fate::Nothing => continue,
            };
            writeln!(table, "| {place} | `{name}` | {becomes} |").unwrap();
        }
    }
    let path = format!("{}/../../docs/how-to/migrate.md", env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once("<!-- configuration -->\n").unwrap();
    let (written, after) = rest.split_once("<!-- end of configuration -->").unwrap();
    if std::env::var_os("ROSTER_WRITE_REFERENCE").is_some() {
        let head = format!("{before}<!-- configuration -->\n{table}");
        fs::write(&path, format!("{head}<!-- end of configuration -->{after}")).unwrap();
    } else {
        assert!(written == table, "write the reference again: see the comment of this test");
    }
}

/// Whatever is cut away of a configuration, the rest is read or refused with a sentence, and what
/// comes of it is LDIF again.
#[test]
fn what_is_left_of_a_configuration_is_read_or_refused() {
    let unique = "nsslapd-pluginInitfunc: NSUniqueAttr_Init\nuniqueness-attribute-name: mail\n\
                  uniqueness-subtrees: ou=a,dc=x\nuniqueness-subtree-entries-oc: person\n";
    let texts = [
        overlay(
            "constraint",
            "olcConstraintAttribute: uid regex \"^[a-z]+$\" restrict=\"ldap:///dc=x??sub?(a=b)\"\n",
        ),
        overlay("unique", "olcUniqueURI: ldap:///ou=a,dc=x?mail,uid?sub?(objectClass=person)\n"),
        plugin("libattr-unique-plugin", unique, ""),
        plugin(
            "libautomember-plugin",
            "",
            "cn=a\nobjectClass: autoMemberDefinition\nautoMemberDefaultGroup: cn=b,dc=x\n\n\
             cn=r,cn=a\nautoMemberTargetGroup: cn=c,dc=x\nautoMemberInclusiveRegex: cn=^w\\.\n\n",
        ),
        opendj(
            "dn: cn=Usual,cn=Password Policies,cn=config\nobjectClass: ds-cfg-password-policy\n\
             ds-cfg-lockout-failure-count: 4\n",
        ),
    ];
    let look = |text: &str| match try_read(text.as_bytes()) {
        Ok(found) => {
            let ldif = found.ldif();
            let mut reader = LdifReader::new(ldif.as_slice(), LdifLimits::default());
            let mut records = 0;
            while reader.next_record().unwrap().is_some() {
                records += 1;
            }
            let is_record = |setting: &&Setting| {
                matches!(setting.change, SettingKind::Value { .. } | SettingKind::Entry { .. })
            };
            assert_eq!(records, found.settings.iter().filter(is_record).count(), "{text}");
        }
        Err(error) => assert!(!error.reason.is_empty(), "{text}"),
    };
    for text in &texts {
        for at in 0..text.len() {
            let Some((head, rest)) = text.split_at_checked(at) else { continue };
            look(head);
            let mut letters = rest.chars();
            letters.next();
            look(&format!("{head}{}", letters.as_str()));
            look(&format!("{head}\"({rest}"));
        }
    }
}
