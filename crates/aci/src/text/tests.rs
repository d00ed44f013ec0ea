//! Tests of reading and writing ACIs.

use schema::{DnKey, Schema};

use super::*;

const HEAD: &str = "(version 3.0; acl \"x\"; ";

#[track_caller]
fn parsed(text: &str) -> Aci {
    Aci::parse(text, &Schema::builtin()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// What is displayed of an ACI, which reads back as an equal one.
#[track_caller]
fn check(text: &str, want: &str) {
    let aci = parsed(text);
    let shown = aci.to_string();
    assert_eq!(shown, want);
    assert_eq!(parsed(&shown), aci, "{text}");
}

#[track_caller]
fn check_same(text: &str) {
    check(text, text);
}

/// Checks the display of targets, before a common end.
#[track_caller]
fn check_target(targets: &str, want: &str) {
    const REST: &str = "(version 3.0; acl \"x\"; allow (read) userdn = \"ldap:///anyone\";)";
    check(&format!("{targets}{REST}"), &format!("{want}{REST}"));
}

/// Checks the display of a bind rule.
#[track_caller]
fn check_rule(rule: &str, want: &str) {
    check(
        &format!("(targetattr=\"*\"){HEAD}allow (read) {rule};)"),
        &format!("(targetattr = \"*\"){HEAD}allow (read) {want};)"),
    );
}

#[track_caller]
fn check_refused(text: &str, want: &str) {
    let error = Aci::parse(text, &Schema::builtin()).expect_err(text);
    assert_eq!(error.to_string(), want, "{text}");
}

/// Checks the refusal of a bind rule; the column is that in the rule.
#[track_caller]
fn check_rule_refused(rule: &str, column: usize, want: &str) {
    let head = format!("{HEAD}allow (read) ");
    let error = Aci::parse(&format!("{head}{rule};)"), &Schema::builtin()).expect_err(rule);
    assert_eq!((error.column, error.reason.to_string().as_str()), (head.len() + column, want));
}

#[track_caller]
fn check_target_refused(targets: &str, column: usize, want: &str) {
    let text = format!("{targets}{HEAD}allow (read) userdn = \"ldap:///self\";)");
    let error = Aci::parse(&text, &Schema::builtin()).expect_err(targets);
    assert_eq!((error.column, error.reason.to_string().as_str()), (column, want), "{targets}");
}

#[test]
fn an_aci_of_any_server_is_read() {
    check_same(
        "(targetattr = \"*\")(version 3.0; acl \"a b\"; allow (all) userdn = \"ldap:///self\";)",
    );
    // 389 Directory Server, without quotes and spaces.
    check(
        "(targetattr=*)(version 3.0;acl \"x\";allow(read,search)userdn=\"ldap:///anyone\";)",
        "(targetattr = \"*\")(version 3.0; acl \"x\"; allow (read,search) userdn = \
         \"ldap:///anyone\";)",
    );
    // Sun, with another quotation and everything in capitals.
    check(
        "( TARGETATTR != \"cn\" || \"sn\" ) ( VERSION 3.0 ; ACL x ; DENY ( WRITE , ALL ) ( USERDN \
         = \"LDAP:///ALL\" ) ; ) ",
        "(targetattr != \"cn || sn\")(version 3.0; acl \"x\"; deny (all) userdn = \
         \"ldap:///all\";)",
    );
    check(
        "(version 3.0;acl \"x\";allow(read)userdn=\"ldap:///self\";deny(write)userdn=\
         \"ldap:///all\")",
        "(version 3.0; acl \"x\"; allow (read) userdn = \"ldap:///self\"; deny (write) userdn = \
         \"ldap:///all\";)",
    );
    check(
        "(version 3.0;acl \"x\";allow(all,proxy,import,export)userdn=\"ldap:///self\";)",
        "(version 3.0; acl \"x\"; allow (all,import,export,proxy) userdn = \"ldap:///self\";)",
    );
}

#[test]
fn targets_are_read_and_written() {
    check_target("", "");
    check_target("(target=\"ldap:///ou=a,dc=b\")", "(target = \"ldap:///ou=a,dc=b\")");
    check_target("(target!=ldap:///ou=a,dc=b)", "(target != \"ldap:///ou=a,dc=b\")");
    check_target("(target=\"ldap:///uid=a*b,**,dc=b\")", "(target = \"ldap:///uid=a*b,**,dc=b\")");
    check_target("(target=\"ldap:///\")", "(target = \"ldap:///\")");
    check_target("(target=\"ldap:///ou=a%20b,dc=b\")", "(target = \"ldap:///ou=a b,dc=b\")");
    check_target("(target=\"ldap:///ou=x,($dn),dc=b\")", "(target = \"ldap:///ou=x,($dn),dc=b\")");
    check_target("(targetattr=\"cn||CommonName || + \")", "(targetattr = \"+ || cn\")");
    check_target("(targetattr=\"cn;lang-de\")", "(targetattr = \"cn;lang-de\")");
    check_target("(targetattr=\"noSuchType\")", "(targetattr = \"noSuchType\")");
    check_target("(targetscope=\"OneLevel\")", "(targetscope = \"onelevel\")");
    check_target("(targetscope=\"subtree\")", "");
    check_target("(targetfilter=(|(cn=a)(sn=b)))", "(targetfilter = \"(|(cn=a)(sn=b))\")");
    check_target("(targetfilter!=\"cn=a\")", "(targetfilter != \"cn=a\")");
    check_target(
        "(targattrfilters=\"add=cn:(cn=a*) && sn:(|(sn=b)(sn=c)) ; del=cn:(cn=d)\")",
        "(targattrfilters = \"add=cn:(cn=a*) && sn:(|(sn=b)(sn=c)),del=cn:(cn=d)\")",
    );
    check_target("(targattrfilters=\"delete=cn:(cn=d)\")", "(targattrfilters = \"del=cn:(cn=d)\")");
    check_target(
        "(targetcontrol=\"1.2.3 || 1.2.4\")(extop!=\"1.2.5\")",
        "(targetcontrol = \"1.2.3 || 1.2.4\")(extop != \"1.2.5\")",
    );
    check_target("(targetcontrol=\"*\")", "(targetcontrol = \"*\")");
}

#[test]
fn bind_rules_are_read_and_written() {
    let same = |rule: &str| check_rule(rule, rule);
    same("userdn = \"ldap:///self || ldap:///parent || ldap:///uid=*,dc=a\"");
    same("userdn != \"ldap:///dc=a??sub?(cn=x)\"");
    // A URL that finds one entry, which has to stay a URL.
    same("userdn = \"ldap:///a=b?\"");
    same("groupdn = \"ldap:///cn=a,dc=b || ldap:///cn=c,dc=b\"");
    same("groupdn = \"ldap:///cn=a,[$dn],dc=b\"");
    same("userdn = \"ldap:///cn=a,ou=($attr.ou)\"");
    same("userattr = \"manager#USERDN\"");
    same("userattr != \"parent[0,1].owner#GROUPDN\"");
    same("userattr = \"parent[1].labeledURI#LDAPURL\"");
    same("userattr = \"ldap:///ou=groups,dc=a?owner#GROUPDN\"");
    same("userattr = \"ldap:///cn=a%23b,dc=a?owner#GROUPDN\"");
    same("userattr != \"ldap:///ou=groups,($dn),dc=a?parent[0,1].owner#GROUPDN\"");
    same("userattr = \"l#Some Where\"");
    same("ip = \"10.0.0.0/8,192.168.1.7,2001:db8::/32\"");
    same("dns != \"*.example.com,host\"");
    same("timeofday >= \"0830\" and timeofday < \"2400\"");
    same("dayofweek = \"sun,sat\"");
    same("authmethod = \"none || simple || ssl || sasl EXTERNAL\"");
    same("ssf >= \"128\"");
    same("not (userdn = \"ldap:///self\")");
    same("userdn = \"ldap:///a=b\" and (ssf > \"1\" or ssf = \"0\") and not (dns = \"*\")");
    same("ssf > \"1\" or ssf > \"2\" and ssf > \"3\"");
    check_rule("((userdn=\"ldap:///self\"))", "userdn = \"ldap:///self\"");
    check_rule("NOT userdn=\"ldap:///self\"", "not (userdn = \"ldap:///self\")");
    check_rule("userdnattr=\"manager\"", "userattr = \"manager#USERDN\"");
    check_rule("groupdnattr=\"owner\"", "userattr = \"owner#GROUPDN\"");
    check_rule("groupdnattr=\"ldap:///dc=a?owner\"", "userattr = \"ldap:///dc=a?owner#GROUPDN\"");
    check_rule("ip=\"10.1.*\" || \"10.2.3.0+255.255.255.0\"", "ip = \"10.1.0.0/16,10.2.3.0/24\"");
    check_rule("dayofweek=\"Mon, Tue\"", "dayofweek = \"mon,tue\"");
    check_rule("roledn=\"ldap:///cn=a\"", "groupdn = \"ldap:///cn=a\"");
    check_rule("userattr=\"cn#ROLEDN\"", "userattr = \"cn#GROUPDN\"");
    check_rule("authmethod=\"SASL external\"", "authmethod = \"sasl EXTERNAL\"");
    check_rule(
        "userdn=\"ldap:///a\" || \"ldap:///b\""
            .replace("///a", "///a=b")
            .replace("///b\"", "///self\"")
            .as_str(),
        "userdn = \"ldap:///a=b || ldap:///self\"",
    );
}

#[test]
fn a_refusal_names_column_and_reason() {
    check_refused("", "column 1: expected '(' and a target or 'version 3.0'");
    check_refused("(", "column 2: expected a target or 'version 3.0'");
    check_refused("(version 2.0;acl \"x\";)", "column 10: the version must be 3.0");
    check_refused("(version 3.0;acl \"x;)", "column 18: nothing closes this quote");
    check_refused("(version 3.0;acl \"x\";)", "column 22: expected 'allow' or 'deny'");
    check_refused(
        "(version 3.0;acl \"x\";permit(read)userdn=\"ldap:///self\";)",
        "column 22: expected 'allow' or 'deny'",
    );
    check_refused(
        "(version 3.0;acl \"é\";allow(reed)userdn=\"ldap:///self\";)",
        "column 28: there is no right 'reed'",
    );
    check_refused(
        "(version 3.0;acl \"x\";allow(read);)",
        "column 33: expected a bind rule, such as userdn = \"ldap:///self\"",
    );
    check_refused(
        "(version 3.0;acl \"x\";allow(moddn)userdn=\"ldap:///self\";)",
        "column 28: the right 'moddn' is not supported: use 'export' on what is moved and 'import' \
         where it goes",
    );
    check_refused(
        "(version 3.0;acl \"x\";allow(read)userdn=\"ldap:///self\";) x",
        "column 57: there is text after the end of the ACI",
    );
    check_refused(
        "(version 3.0;acl \"x\";allow(read)userdn=\"ldap:///self\"",
        "column 54: expected 'and', 'or' or ';' after a bind rule",
    );
    let long = format!("(targetattr=\"{}\")", "cn||".repeat(ACI_LENGTH_MAX_BYTES / 4));
    check_refused(&long, "column 65537: the ACI is longer than 65536 octets");
    let many = format!("(targetattr=\"{}cn\")", "cn||".repeat(ACI_VALUES_MAX));
    let error = Aci::parse(&many, &Schema::builtin()).unwrap_err();
    assert_eq!(error.reason, AciReason::TooManyValues);
}

#[test]
fn wrong_targets_are_refused() {
    check_target_refused("(targetfoo=\"x\")", 2, "there is no target 'targetfoo'");
    check_target_refused(
        "(targetattr=\"cn\")(targetattr=\"sn\")",
        19,
        "there are two targets 'targetattr'",
    );
    check_target_refused("(targetattr>\"cn\")", 12, "expected '=' or '!='");
    check_target_refused("(targetattr=\"cn || \")", 20, "expected an attribute, '*' or '+'");
    check_target_refused("(targetattr=\"cn || s n\")", 20, "'s n' is not an attribute description");
    check_target_refused("(targetattr=\"cn\"", 17, "expected ')' after a target");
    check_target_refused("(target=\"ou=a\")", 10, "expected a name after 'ldap:///'");
    check_target_refused(
        "(target=\"ldap:///ou\")",
        18,
        "the name is wrong: an attribute type is not followed by '=' (at byte 2)",
    );
    check_target_refused("(target=\"ldap:///[$dn],dc=b\")", 18, "a macro cannot stand here");
    check_target_refused(
        "(target=\"ldap:///($dn),ou=x,($dn),dc=b\")",
        18,
        "a name has at most one ($dn) or [$dn] and one ($attr.NAME), and no '**' beside ($dn) in a \
         target",
    );
    check_target_refused(
        "(targetscope=\"one\")",
        15,
        "the scope must be base, onelevel, subtree or subordinate",
    );
    check_target_refused("(targattrfilters=\"cn:(cn=a)\")", 19, "expected 'add=' or 'del='");
    check_target_refused("(targattrfilters=\"add=cn:cn\")", 26, "expected a filter in parentheses");
    check_target_refused(
        "(targetcontrol=\"x\")",
        17,
        "controls and extended operations are given by OIDs, or as '*'",
    );
    check_target_refused(
        "(target_to=\"ldap:///dc=a\")",
        2,
        "'target_to' and 'target_from' are not supported: use the right 'export' on what \
         is moved and 'import' where it goes",
    );
    let mixed = "'targetcontrol' and 'extop' cannot be limited to entries or attributes";
    check_target_refused("(targetcontrol=\"1.2\")(targetattr=\"cn\")", 23, mixed);
    let error = Aci::parse("(targetfilter=\"(cn=a\")", &Schema::builtin()).unwrap_err();
    assert!(matches!(error.reason, AciReason::Filter(_)));
    assert_eq!(error.column, 21);
}

#[test]
fn wrong_bind_rules_are_refused() {
    check_rule_refused("user=\"x\"", 1, "bind rules have no keyword 'user'");
    check_rule_refused("userdn \"x\"", 8, "expected '=' or '!='");
    check_rule_refused("userdn=ldap:///self", 8, "expected a value in quotes");
    check_rule_refused("userdn=\"self\"", 9, "expected a name after 'ldap:///'");
    check_rule_refused("userdn=\"ldap://host/dc=a\"", 9, "expected a name after 'ldap:///'");
    check_rule_refused(
        "userattr=\"manager\"",
        11,
        "expected an attribute, '#', and USERDN, GROUPDN, LDAPURL or a value",
    );
    check_rule_refused(
        "userattr=\"ldap:///dc=a?manager#USERDN\"",
        11,
        "a URL can stand before an attribute with GROUPDN only",
    );
    check_rule_refused(
        "userattr=\"ldap:///dc=a#GROUPDN\"",
        11,
        "expected '?' and an attribute after the name that groups are within",
    );
    check_rule_refused(
        "userattr=\"parent[10].cn#USERDN\"",
        18,
        "levels are numbers from 0 to 9, as in parent[0,1].manager#USERDN",
    );
    check_rule_refused(
        "groupdn=\"ldap:///cn=*,dc=a\"",
        18,
        "a star cannot stand here; write '\\2A' for the character itself",
    );
    check_rule_refused(
        "userdn=\"ldap:///cn=%22b,c%22,ou=*,dc=a\"",
        17,
        "a name with a star or a macro cannot have quotes; write '\\' before special characters \
         instead",
    );
    check_rule_refused(
        "groupdn=\"ldap:///dc=a??sub?(cn=x)\"",
        10,
        "groupdn takes names of groups, no searches",
    );
    check_rule_refused(
        "ip=\"10.1.2\"",
        5,
        "addresses are IPv4 or IPv6, with '/BITS', '+NETMASK' or, in IPv4, stars for octets",
    );
    check_rule_refused(
        "dns=\"a*b\"",
        6,
        "hosts are names, with a star for what is before a dot: \"*.example.com\"",
    );
    check_rule_refused(
        "timeofday=\"2460\"",
        12,
        "the time must be hours and minutes, \"0000\" to \"2400\"",
    );
    check_rule_refused("dayofweek=\"mon,x\"", 16, "days are sun, mon, tue, wed, thu, fri and sat");
    check_rule_refused("dayofweek<\"mon\"", 10, "expected '=' or '!='");
    check_rule_refused(
        "authmethod=\"sasl\"",
        13,
        "methods are none, simple, ssl, and sasl with a mechanism: \"sasl EXTERNAL\"",
    );
    check_rule_refused("ssf>\"-1\"", 6, "the strength must be a number, such as \"128\"");
    check_rule_refused(
        "ssf>\"1\" xor ssf>\"2\"",
        9,
        "expected 'and', 'or' or ';' after a bind rule",
    );
    check_rule_refused("(ssf>\"1\"", 9, "expected ')' after a bind rule");
    let deep = format!("{}ssf>\"1\"{}", "(".repeat(40), ")".repeat(40));
    check_rule_refused(&deep, 33, "bind rules are nested deeper than 32");
    check_rule_refused(
        &format!("{}ssf>\"1\"", "not ".repeat(40)),
        129,
        "bind rules are nested deeper than 32",
    );
}

#[test]
fn names_that_the_schema_lacks_are_told() {
    let aci = parsed(
        "(targetattr=\"cn || fooBar\")(targetfilter=\"(&(cn=a)(bazQux=b))\")(version 3.0;acl \"x\";\
         allow(read)userattr=\"fooBar#USERDN\";)",
    );
    assert_eq!(aci.unknown_names(), ["fooBar", "bazQux"]);
    let aci = parsed(
        "(target=\"ldap:///($dn),dc=x\")(targetattr=\"cn\")(targetfilter=\"(fooBar=($dn))\")\
         (version 3.0;acl \"x\";allow(read)userdn=\"ldap:///dc=x??sub?(bazQux=a)\";)",
    );
    assert_eq!(aci.unknown_names(), ["fooBar", "bazQux"]);
}

#[test]
fn terms_of_filters_that_have_no_answer_are_told() {
    let aci = parsed(
        "(targattrfilters=\"add=cn:(cn:noRule:=x)\")\
         (targetfilter=\"(&(cn=a)(!(|(uidNumber=many)(fooBar=b)))(uidNumber=1))\")\
         (version 3.0;acl \"x\";deny(write)userdn=\"ldap:///dc=x??sub?(uidNumber>=all)\";)",
    );
    let terms = ["(cn:noRule:=x)", "(uidNumber=many)", "(uidNumber>=all)"];
    assert_eq!(aci.unanswered_terms(), terms);
    assert_eq!(aci.unknown_names(), ["fooBar"]);
}

#[test]
fn a_target_must_be_within_its_holder() {
    let schema = Schema::builtin();
    let check = |target: &str, holder: &str, want: bool| {
        let aci = parsed(&format!("(target=\"ldap:///{target}\"){HEAD}allow(read)ssf>\"0\";)"));
        let holder = DnKey::from_text(&schema, holder).unwrap();
        assert_eq!(aci.check_holder(&holder).is_ok(), want, "{target}");
    };
    check("ou=a,dc=b", "dc=b", true);
    check("dc=b", "dc=b", true);
    check("dc=b", "ou=a,dc=b", false);
    check("uid=*,dc=b", "ou=a,dc=b", true);
    check("ou=a,dc=b", "", true);
}

/// ACIs with everything that the language has, to be mutilated.
const CORPUS: &[&str] = &[
    "(target=\"ldap:///uid=a*,**,dc=x\")(targetscope=\"onelevel\")(targetattr!=\"cn || * || +\")\
     (version 3.0; acl \"x\"; allow (read,all) userdn=\"ldap:///self || ldap:///a=b??sub?(c=d)\";)",
    "(targattrfilters=\"add=cn:(cn=a) && sn:(|(sn=b)(sn=c)),del=cn:(cn=*)\")(targetfilter=(a=b))\
     (version 3.0; acl \"x\"; deny (proxy) not (ip=\"10.1.*,2001:db8::/32\" or dns=\"*.a.b\");)",
    "(targetcontrol=\"1.2 || *\")(extop!=\"1.3\")(version 3.0; acl \"x\"; allow (read) \
     timeofday>=\"0800\" and dayofweek=\"mon,sun\" or authmethod=\"sasl PLAIN\" and ssf>\"1\";)",
    "(target=\"ldap:///ou=a,($dn),dc=x\")(version 3.0; acl \"x\"; allow (add) groupdn=\"ldap:///\
     cn=a,\
     [$dn],dc=x || ldap:///ou=($attr.ou),b=c\"; deny (write) userattr=\"parent[0,3].l#GROUPDN\";)",
];

proptest::proptest! {
    #[test]
    fn a_mutilated_aci_is_read_or_refused_at_a_column_inside_it(
        which in 0..CORPUS.len(),
        cuts in proptest::collection::vec(
            (
                proptest::prelude::any::<proptest::sample::Index>(),
                0_usize..4,
                "[\\PC\\t]{0,3}|[()\"|=*$,;%?#\\[\\]]{0,3}",
            ),
            0..4,
        ),
    ) {
        let mut text = CORPUS[which].to_owned();
        for (at, length, put) in cuts {
            let places: Vec<usize> = text.char_indices().map(|(place, _)| place).collect();
            let start = at.index(places.len());
            let end = places.get(start + length).copied().unwrap_or(text.len());
            text.replace_range(places[start]..end, &put);
            if text.is_empty() {
                break;
            }
        }
        let schema = Schema::builtin();
        match Aci::parse(&text, &schema) {
            Ok(aci) => {
                let shown = aci.to_string();
                proptest::prop_assert_eq!(Aci::parse(&shown, &schema), Ok(aci), "{}", shown);
            }
            Err(error) => {
                proptest::prop_assert!((1..=text.chars().count() + 1).contains(&error.column));
            }
        }
    }
}
