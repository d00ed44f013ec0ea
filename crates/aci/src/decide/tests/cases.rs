//! Each feature of the language, by example. Every question is asked in several ways, and of the
//! plain evaluator, too.

use super::*;

const ANNA: &str = "uid=anna,ou=people,dc=x";
const BERT: &str = "uid=bert,ou=people,dc=x";
const DORA: &str = "cn=dora,uid=anna,ou=people,dc=x";

/// One ACI of `dc=x`: targets, what it says, and a bind rule.
#[track_caller]
fn one(targets: &str, says: &str, rule: &str) -> Case {
    case(&[("dc=x", &format!("{targets}(version 3.0; acl \"x\"; {says} {rule};)"))])
}

/// One that lets read and search every attribute by a rule.
#[track_caller]
fn by(rule: &str) -> Case {
    one("(targetattr=\"*||+\")", "allow (read,search,write)", rule)
}

const ANYONE: &str = "userdn=\"ldap:///anyone\"";

#[test]
fn nothing_is_allowed_by_default() {
    case(&[]).check("anna", "read cn", ANNA, false).check("anna", "add", ANNA, false);
    by(ANYONE).check("", "read cn", ANNA, true).check("", "compare cn", ANNA, false);
    by(ANYONE).check("", "add", ANNA, false).check("", "read", ANNA, true);
}

#[test]
fn a_deny_wins() {
    let allow =
        ("dc=x", "(targetattr=\"*\")(version 3.0; acl \"x\"; allow (all) userdn=\"ldap:///all\";)");
    let deny =
        ("", "(targetattr=\"cn\")(version 3.0; acl \"x\"; deny (read) userdn=\"ldap:///all\";)");
    let far = ("uid=anna,ou=people,dc=x", deny.1);
    for deny in [deny, far] {
        case(&[allow, deny])
            .check("bert", "read cn", ANNA, false)
            .check("bert", "read cn;lang-de", ANNA, false)
            .check("bert", "read sn", ANNA, true)
            .check("bert", "search cn", ANNA, true)
            .check("bert", "read", ANNA, true)
            .check("bert", "add", ANNA, true)
            .check("bert", "proxy", ANNA, false)
            .check("", "read sn", ANNA, false);
    }
    case(&[allow, far]).check("bert", "read cn", BERT, true);
}

#[test]
fn attributes_are_listed_or_excepted() {
    let with = |targets: &str| one(targets, "allow (read)", ANYONE);
    with("").check("", "read cn", ANNA, false).check("", "read", ANNA, true);
    with("(targetattr=\"*\")").check("", "read cn", ANNA, true).check(
        "",
        "read createTimestamp",
        ANNA,
        false,
    );
    with("(targetattr=\"+\")").check("", "read cn", ANNA, false).check(
        "",
        "read createTimestamp",
        ANNA,
        true,
    );
    with("(targetattr=\"cn || uid\")")
        .check("", "read commonName", ANNA, true)
        .check("", "read sn", ANNA, false);
    with("(targetattr=\"cn;lang-de\")").check("", "read cn", ANNA, false).check(
        "",
        "read cn;lang-de",
        ANNA,
        true,
    );
    with("(targetattr=\"cn\")").check("", "read cn;lang-de", ANNA, true);
    // A name does not give what is derived from it, but takes it.
    with("(targetattr=\"name\")").check("", "read cn", ANNA, false).check(
        "",
        "read name",
        ANNA,
        true,
    );
    with("(targetattr!=\"name\")")
        .check("", "read cn", ANNA, false)
        .check("", "read uid", ANNA, true);
    with("(targetattr!=\"cn\")")
        .check("", "read cn", ANNA, false)
        .check("", "read cn;lang-de", ANNA, false)
        .check("", "read sn", ANNA, true)
        .check("", "read createTimestamp", ANNA, false);
    with("(targetattr!=\"cn || modifyTimestamp\")")
        .check("", "read createTimestamp", ANNA, true)
        .check("", "read modifyTimestamp", ANNA, false);
    with("(targetattr!=\"modifyTimestamp\")").check("", "read cn", ANNA, false);
    with("(targetattr=\"noSuchType\")")
        .check("", "read cn", ANNA, false)
        .check("", "read", ANNA, false);
    let all = "(targetattr=\"*\")(version 3.0; acl \"x\"; allow (read) userdn=\"ldap:///anyone\";)";
    let deny =
        "(targetattr=\"name\")(version 3.0; acl \"x\"; deny (read) userdn=\"ldap:///anyone\";)";
    case(&[("dc=x", all), ("dc=x", deny)])
        .check("", "read cn", ANNA, false)
        .check("", "read sn;lang-de", ANNA, false)
        .check("", "read uid", ANNA, true);
}

#[test]
fn a_target_names_a_subtree() {
    let with = |targets: &str| one(&format!("(targetattr=\"*\"){targets}"), "allow (read)", ANYONE);
    let people = "(target=\"ldap:///ou=people,dc=x\")";
    with(people)
        .check("", "read cn", "dc=x", false)
        .check("", "read cn", "ou=people,dc=x", true)
        .check("", "read cn", ANNA, true);
    with("(target!=\"ldap:///ou=people,dc=x\")")
        .check("", "read cn", "dc=x", true)
        .check("", "read cn", ANNA, false)
        .check("", "read cn", "cn=staff,ou=groups,dc=x", true);
    let scopes = [
        ("base", [true, false, false]),
        ("onelevel", [false, true, false]),
        ("subtree", [true, true, true]),
        ("subordinate", [false, true, true]),
    ];
    for (scope, [base, one, two]) in scopes {
        with(&format!("{people}(targetscope=\"{scope}\")"))
            .check("", "read cn", "dc=x", false)
            .check("", "read cn", "ou=people,dc=x", base)
            .check("", "read cn", ANNA, one)
            .check("", "read cn", DORA, two);
        with(&format!("(target=\"ldap:///ou=p*,dc=x\")(targetscope=\"{scope}\")"))
            .check("", "read cn", "ou=groups,dc=x", false)
            .check("", "read cn", "ou=people,dc=x", base)
            .check("", "read cn", ANNA, one)
            .check("", "read cn", DORA, two);
        with(&format!("(targetscope=\"{scope}\")"))
            .check("", "read cn", "dc=x", base)
            .check("", "read cn", "ou=people,dc=x", one)
            .check("", "read cn", ANNA, two);
    }
    // What lies outside the holder is out of reach.
    case(&[(
        "ou=groups,dc=x",
        "(targetattr=\"*\")(target=\"ldap:///dc=x\")(version 3.0; acl \"x\"; allow (read) \
         userdn=\"ldap:///anyone\";)",
    )])
    .check("", "read cn", "dc=x", false)
    .check("", "read cn", "cn=staff,ou=groups,dc=x", false);
    // But what it denies was meant for something that the holder has: it denies that of all.
    for target in ["dc=x", "ou=gone,dc=x", "cn=*,ou=gone,dc=x", "ou=gone,($dn),ou=gone,dc=x"] {
        let deny = format!(
            "(targetattr=\"cn\")(target=\"ldap:///{target}\")(targetscope=\"base\")(version 3.0; \
             acl \"x\"; deny (read) userdn=\"ldap:///anyone\"; allow (search) \
             userdn=\"ldap:///anyone\";)"
        );
        let allow = "(targetattr=\"*\")(version 3.0; acl \"x\"; allow (read) \
             userdn=\"ldap:///anyone\";)";
        case(&[("ou=groups,dc=x", &deny), ("dc=x", allow)])
            .check("", "read cn", "dc=x", true)
            .check("", "read cn", "ou=groups,dc=x", false)
            .check("", "read cn", "cn=staff,ou=groups,dc=x", false)
            .check("", "search cn", "ou=groups,dc=x", false)
            .check("", "read description", "cn=staff,ou=groups,dc=x", true);
    }
}

#[test]
fn stars_stand_for_parts_of_names() {
    let with = |name: &str| {
        one(&format!("(targetattr=\"*\")(target=\"ldap:///{name}\")"), "allow (read)", ANYONE)
    };
    with("uid=*,ou=people,dc=x")
        .check("", "read cn", ANNA, true)
        .check("", "read cn", DORA, true)
        .check("", "read cn", "ou=people,dc=x", false);
    with("uid=a*a,ou=people,dc=x")
        .check("", "read cn", ANNA, true)
        .check("", "read cn", BERT, false);
    with("UID=*NN*,ou=*eo*,dc=x").check("", "read cn", ANNA, true);
    with("*,dc=x").check("", "read cn", "ou=people,dc=x", true).check("", "read cn", "dc=x", false);
    with("cn=*,**,dc=x").check("", "read cn", DORA, true).check("", "read cn", ANNA, false).check(
        "",
        "read cn",
        "cn=staff,ou=groups,dc=x",
        true,
    );
    // A star that would have to reach over a comma is not known to match.
    with("uid=*,dc=x").check("", "read cn", ANNA, false);
    let all = "(targetattr=\"*\")(version 3.0; acl \"x\"; allow (read) userdn=\"ldap:///anyone\";)";
    let deny = "(targetattr=\"*\")(target=\"ldap:///uid=*,dc=x\")(version 3.0; acl \"x\"; deny \
                (read) \
                userdn=\"ldap:///anyone\";)";
    case(&[("dc=x", all), ("dc=x", deny)]).check("", "read cn", ANNA, false).check(
        "",
        "read cn",
        "ou=people,dc=x",
        true,
    );
}

#[test]
fn filters_pick_entries() {
    let with =
        |targets: &str, says: &str| one(&format!("(targetattr=\"*\"){targets}"), says, ANYONE);
    let person = "(targetfilter=\"(objectClass=inetOrgPerson)\")";
    with(person, "allow (read)").check("", "read cn", ANNA, true).check("", "read cn", BERT, false);
    with("(targetfilter!=\"(l=rome)\")", "allow (read)").check("", "read cn", ANNA, false).check(
        "",
        "read cn",
        "uid=carl,ou=people,dc=x",
        true,
    );
    // What the schema does not know is not known: neither it nor its opposite grants.
    for operator in ["=", "!="] {
        let unknown = format!("(targetfilter{operator}\"(noSuchType=a)\")");
        with(&unknown, "allow (read)").check("", "read cn", ANNA, false);
        with(&unknown, "allow (read) userdn=\"ldap:///anyone\"; deny (read)")
            .check("", "read cn", ANNA, false);
    }
}

#[test]
fn values_are_filtered_when_they_are_written() {
    let filters = "(targattrfilters=\"add=title:(title=x*) && l:(l=rome),del=title:(title=y*)\")";
    one(filters, "allow (write,add,delete)", ANYONE)
        .check("", "+title=xy", ANNA, true)
        .check("", "+title=y", ANNA, false)
        .check("", "-title=y", ANNA, true)
        .check("", "-title=x", ANNA, false)
        .check("", "+l=ROME", ANNA, true)
        .check("", "+l=oslo", ANNA, false)
        .check("", "+cn=a", ANNA, false)
        .check("", "-cn=a", ANNA, false)
        .check("", "add", ANNA, true)
        .check("", "add", BERT, false)
        .check("", "add", "uid=carl,ou=people,dc=x", false)
        .check("", "delete", ANNA, true)
        .check("", "delete", BERT, false);
    one(
        "(targetattr=\"cn\")(targattrfilters=\"add=title:(title=x)\")",
        "allow (read,write)",
        ANYONE,
    )
    .check("", "+title=x", ANNA, true)
    .check("", "+cn=x", ANNA, false)
    .check("", "-cn=x", ANNA, true)
    .check("", "-title=x", ANNA, false)
    .check("", "read cn", ANNA, true)
    .check("", "read title", ANNA, false);
    let all = "(targetattr=\"*\")(version 3.0; acl \"x\"; allow (all) userdn=\"ldap:///anyone\";)";
    let deny = format!("{filters}(version 3.0; acl \"x\"; deny (write,add) {ANYONE};)");
    case(&[("dc=x", all), ("dc=x", &deny)])
        .check("", "+title=xy", ANNA, false)
        .check("", "+title=a", ANNA, true)
        .check("", "+cn=a", ANNA, true)
        .check("", "add", BERT, false)
        .check("", "add", "ou=people,dc=x", true);
}

#[test]
fn selfwrite_is_for_the_own_name() {
    one("(targetattr=\"member || cn\")", "allow (selfwrite)", "userdn=\"ldap:///all\"")
        .check("anna", "+member=UID=anna, ou=people,dc=x", "cn=staff,ou=groups,dc=x", true)
        .check("anna", "-member=uid=anna,ou=people,dc=x", "cn=staff,ou=groups,dc=x", true)
        .check("anna", "+member=uid=bert,ou=people,dc=x", "cn=staff,ou=groups,dc=x", false)
        .check("anna", "+cn=uid=anna,ou=people,dc=x", "cn=staff,ou=groups,dc=x", false)
        .check("anna", "write member", "cn=staff,ou=groups,dc=x", false)
        .check("", "+member=", "cn=staff,ou=groups,dc=x", false);
}

#[test]
fn controls_and_operations_are_targets_of_their_own() {
    let text = "(targetcontrol=\"1.2.3 || 1.2.4\")(extop!=\"1.3\")(version 3.0; acl \"x\"; allow \
                (read) userdn=\"ldap:///all\";)";
    let deny =
        "(targetcontrol=\"1.2.4\")(version 3.0; acl \"x\"; deny (read) userdn=\"ldap:///self\";)";
    case(&[("", text)])
        .check("anna", "control 1.2.3", ANNA, true)
        .check("anna", "control 1.2.5", ANNA, false)
        .check("", "control 1.2.3", ANNA, false)
        .check("anna", "extop 1.3", ANNA, false)
        .check("anna", "extop 1.4", ANNA, true)
        .check("anna", "read cn", ANNA, false)
        .check("anna", "read", ANNA, false);
    // Whether it is self is not known without an entry.
    case(&[("", text), ("dc=x", deny)])
        .check("anna", "control 1.2.4", ANNA, false)
        .check("anna", "control 1.2.4", "dc=x", false)
        .check("anna", "control 1.2.3", ANNA, true);
    by(ANYONE).check("anna", "control 1.2.3", ANNA, false);
}

#[test]
fn userdn_says_who() {
    by(ANYONE).check("", "read cn", ANNA, true);
    by("userdn=\"ldap:///all\"")
        .check("", "read cn", ANNA, false)
        .check("bert", "read cn", ANNA, true);
    by("userdn=\"ldap:///self\"")
        .check("anna", "read cn", ANNA, true)
        .check("bert", "read cn", ANNA, false)
        .check("anna", "read cn", DORA, false)
        .check("", "read cn", ANNA, false);
    by("userdn=\"ldap:///parent\"")
        .check("anna", "read cn", DORA, true)
        .check("anna", "read cn", ANNA, false)
        .check("bert", "read cn", DORA, false);
    by("userdn!=\"ldap:///self\"")
        .check("anna", "read cn", ANNA, false)
        .check("", "read cn", ANNA, false);
    by("userdn=\"ldap:///UID=anna,ou=people,dc=x || ldap:///self\"")
        .check("anna", "read cn", BERT, true)
        .check("bert", "read cn", BERT, true)
        .check("carl", "read cn", BERT, false);
    by("userdn=\"ldap:///uid=a*,ou=people,dc=x\"")
        .check("anna", "read cn", BERT, true)
        .check("bert", "read cn", BERT, false);
    by("userdn=\"ldap:///ou=people,dc=x??sub?(title=boss)\"")
        .check("bert", "read cn", ANNA, true)
        .check("carl", "read cn", ANNA, false)
        .check("cn=root", "read cn", ANNA, false);
    by("userdn=\"ldap:///ou=groups,dc=x??sub?(title=boss)\"").check("bert", "read cn", ANNA, false);
    // A URL without a scope means its base.
    by("userdn=\"ldap:///ou=people,dc=x???(title=boss)\"").check("bert", "read cn", ANNA, false);
}

#[test]
fn a_group_that_is_not_there_never_grants_and_never_lifts_a_deny() {
    by("groupdn=\"ldap:///cn=staff,ou=groups,dc=x\"")
        .check("bert", "read cn", ANNA, true)
        .check("anna", "read cn", ANNA, false)
        .check("", "read cn", ANNA, false);
    by("groupdn!=\"ldap:///cn=staff,ou=groups,dc=x\"")
        .check("bert", "read cn", ANNA, false)
        .check("anna", "read cn", ANNA, true);
    for rule in [
        "groupdn=\"ldap:///cn=lost,dc=x\"",
        "groupdn!=\"ldap:///cn=lost,dc=x\"",
        "not groupdn=\"ldap:///cn=lost,dc=x\"",
    ] {
        by(rule).check("anna", "read cn", ANNA, false);
        one("(targetattr=\"*\")", "allow (read) userdn=\"ldap:///all\"; deny (read)", rule)
            .check("anna", "read cn", ANNA, false);
    }
    by("groupdn=\"ldap:///cn=lost,dc=x || ldap:///cn=staff,ou=groups,dc=x\"")
        .check("bert", "read cn", ANNA, true);
}

#[test]
fn userattr_relates_asker_and_entry() {
    by("userattr=\"manager#USERDN\"")
        .check("bert", "read cn", ANNA, true)
        .check("carl", "read cn", ANNA, false)
        .check("", "read cn", ANNA, false);
    by("userattr=\"parent[1].manager#USERDN\"")
        .check("carl", "read cn", ANNA, true)
        .check("bert", "read cn", ANNA, false);
    by("userattr=\"parent[0,1].manager#USERDN\"")
        .check("carl", "read cn", ANNA, true)
        .check("bert", "read cn", ANNA, true)
        .check("bert", "read cn", DORA, true)
        .check("carl", "read cn", DORA, false);
    by("userattr=\"parent[9].manager#USERDN\"").check("carl", "read cn", ANNA, false);
    by("userattr=\"owner#GROUPDN\"")
        .check("bert", "read cn", ANNA, true)
        .check("carl", "read cn", ANNA, false);
    by("userattr!=\"seeAlso#GROUPDN\"").check("bert", "read cn", ANNA, false);
    by("userattr=\"labeledURI#LDAPURL\"")
        .check("carl", "read cn", ANNA, true)
        .check("bert", "read cn", ANNA, false);
    by("userattr=\"l#rome\"")
        .check("bert", "read cn", ANNA, true)
        .check("carl", "read cn", ANNA, false)
        .check("anna", "read cn", "uid=carl,ou=people,dc=x", false)
        .check("bert", "read cn", "dc=x", true);
    by("userattr=\"noSuchType#USERDN\"").check("bert", "read cn", ANNA, false);
}

#[test]
fn groups_of_an_attribute_count_within_a_name() {
    let a = "dc=a,dc=x";
    let with =
        |rule: &str| one("(target=\"ldap:///($dn),dc=x\")(targetattr=\"*\")", "allow (read)", rule);
    by("userattr=\"ldap:///ou=groups,dc=x?owner#GROUPDN\"")
        .check("bert", "read cn", ANNA, true)
        .check("carl", "read cn", ANNA, false)
        .check("bert", "read cn", a, false);
    by("userattr=\"ldap:///cn=staff,ou=groups,dc=x?owner#ROLEDN\"")
        .check("bert", "read cn", ANNA, true);
    by("userattr!=\"ldap:///dc=a,dc=x?owner#GROUPDN\"")
        .check("bert", "read cn", ANNA, true)
        .check("bert", "read cn", a, false);
    by("groupdnattr=\"ldap:///dc=a,dc=x?parent[1].owner\"")
        .check("bert", "read cn", "ou=people,dc=b,dc=a,dc=x", false)
        .check("bert", "read cn", "cn=staff,ou=groups,dc=a,dc=x", false);
    with("userattr=\"ldap:///ou=groups,($dn),dc=x?owner#GROUPDN\"")
        .check("bert", "read cn", a, true)
        .check("carl", "read cn", a, false)
        .check("bert", "read cn", ANNA, false);
    with("userattr=\"ldap:///ou=groups,[$dn],dc=x?owner#GROUPDN\"")
        .check("bert", "read cn", a, true);
    // Without a part in the target nothing is known.
    by("userattr=\"ldap:///ou=groups,($dn),dc=x?owner#GROUPDN\"")
        .check("bert", "read cn", a, false);
}

#[test]
fn an_entry_does_not_give_the_right_to_add_itself() {
    one("", "allow (add,delete)", "userattr=\"manager#USERDN\"")
        .check("bert", "delete", ANNA, true)
        .check("bert", "add", ANNA, false);
    one("", "allow (add)", "userattr=\"parent[0,1].manager#USERDN\"")
        .check("bert", "add", ANNA, false)
        .check("carl", "add", ANNA, true);
    one("", "allow (add) userdn=\"ldap:///all\"; deny (add)", "userattr=\"manager#USERDN\"")
        .check("bert", "add", ANNA, false)
        .check("carl", "add", ANNA, true);
}

#[test]
fn the_connection_is_asked_about() {
    let from = |address: &str| {
        let mut case = by("ip=\"10.0.0.0/8,2001:db8::/32\"");
        case.address = address.parse().ok();
        case
    };
    from("10.1.2.3").check("", "read cn", ANNA, true);
    from("::ffff:10.1.2.3").check("", "read cn", ANNA, true);
    from("2001:db8::1").check("", "read cn", ANNA, true);
    from("11.1.2.3").check("", "read cn", ANNA, false);
    from("local").check("", "read cn", ANNA, false);
    by("ip!=\"10.0.0.0/8\"").check("", "read cn", ANNA, true);
    let with = |rule: &str, ssf: u32, method: AuthenticationMethod<'static>| {
        let mut case = by(rule);
        (case.ssf, case.method) = (ssf, method);
        case
    };
    use AuthenticationMethod::{Anonymous, Certificate, Sasl, Simple};
    with("ssf>=\"128\"", 128, Simple).check("", "read cn", ANNA, true);
    with("ssf>=\"128\"", 127, Simple).check("", "read cn", ANNA, false);
    with("authmethod=\"simple\"", 0, Simple).check("", "read cn", ANNA, true);
    with("authmethod=\"simple\"", 0, Anonymous).check("", "read cn", ANNA, false);
    with("authmethod=\"none\"", 0, Anonymous).check("", "read cn", ANNA, true);
    with("authmethod=\"ssl\"", 0, Certificate).check("", "read cn", ANNA, true);
    with("authmethod=\"ssl\"", 0, Sasl("EXTERNAL")).check("", "read cn", ANNA, false);
    with("authmethod=\"sasl external\"", 0, Certificate).check("", "read cn", ANNA, true);
    with("authmethod=\"sasl SCRAM-SHA-256\"", 0, Sasl("SCRAM-SHA-256"))
        .check("", "read cn", ANNA, true);
    with("authmethod!=\"sasl PLAIN\"", 0, Sasl("PLAIN")).check("", "read cn", ANNA, false);
}

#[test]
fn time_and_host_are_asked_about_and_may_not_be_known() {
    let at = |rule: &str, day: u8, minute: u16| {
        let mut case = by(rule);
        case.world.time = Some(TimeOfWeek { day, minute });
        case
    };
    at("timeofday>=\"0800\" and timeofday<\"1700\"", 1, 8 * 60).check("", "read cn", ANNA, true);
    at("timeofday>=\"0800\" and timeofday<\"1700\"", 1, 17 * 60).check("", "read cn", ANNA, false);
    at("timeofday=\"0001\"", 1, 1).check("", "read cn", ANNA, true);
    at("timeofday<\"2400\"", 1, 23 * 60 + 59).check("", "read cn", ANNA, true);
    at("dayofweek=\"sun,mon\"", 1, 0).check("", "read cn", ANNA, true);
    at("dayofweek!=\"sun,mon\"", 0, 0).check("", "read cn", ANNA, false);
    by("timeofday>=\"0000\"").check("", "read cn", ANNA, false);
    let mut host = by("dns=\"*.example.com\"");
    host.check("", "read cn", ANNA, false);
    host.world.host = Some("a.example.com");
    host.check("", "read cn", ANNA, true);
    for rule in ["dns=\"*.example.com\"", "dns!=\"*.example.com\""] {
        by(rule).check("", "read cn", ANNA, false);
        one("(targetattr=\"*\")", "allow (read) userdn=\"ldap:///anyone\"; deny (read)", rule)
            .check("", "read cn", ANNA, false);
    }
}

#[test]
fn rules_are_joined() {
    const YES: &str = "ssf=\"0\"";
    const NO: &str = "ssf=\"1\"";
    const UNKNOWN: &str = "dns=\"a\"";
    const SELF: &str = "userdn=\"ldap:///self\"";
    let check = |rule: &str, want: bool| {
        by(rule).check("anna", "read cn", ANNA, want);
        let denied =
            one("(targetattr=\"*\")", "allow (read) userdn=\"ldap:///all\"; deny (read)", rule);
        if !rule.contains(UNKNOWN) {
            denied.check("anna", "read cn", ANNA, !want);
        }
    };
    check(&format!("{YES} and {SELF}"), true);
    check(&format!("{NO} or {SELF}"), true);
    check(&format!("{YES} and not {SELF}"), false);
    check(&format!("not ({NO} or {SELF})"), false);
    check(&format!("not {NO} and {SELF}"), true);
    check(&format!("{UNKNOWN} or {SELF}"), true);
    check(&format!("{UNKNOWN} and {SELF}"), false);
    check(&format!("not {UNKNOWN}"), false);
    // Read from the left it is true, read from the right it is not.
    check(&format!("{YES} or {YES} and {SELF}"), true);
    by(&format!("{YES} or {YES} and {NO}")).check("anna", "read cn", ANNA, false);
    one(
        "(targetattr=\"*\")",
        "allow (read) userdn=\"ldap:///all\"; deny (read)",
        &format!("{YES} or {YES} and {NO}"),
    )
    .check("anna", "read cn", ANNA, false);
    by(&format!("({YES} or {YES}) and {NO}")).check("anna", "read cn", ANNA, false);
    by(&format!("{YES} or ({YES} and {NO})")).check("anna", "read cn", ANNA, true);
}

#[test]
fn macros_repeat_parts_of_the_name() {
    let with = |target: &str, rule: &str| {
        one(&format!("(targetattr=\"*\")(target=\"ldap:///{target}\")"), "allow (read)", rule)
    };
    let a = "cn=staff,ou=groups,dc=a,dc=x";
    let b = "ou=people,dc=b,dc=a,dc=x";
    // Of `dc=a` the group is there, of `dc=b,dc=a` it has no members.
    with("ou=groups,($dn),dc=x", "groupdn=\"ldap:///cn=staff,ou=groups,($dn),dc=x\"")
        .check("bert", "read cn", a, true)
        .check("anna", "read cn", a, false)
        .check("bert", "read cn", b, false);
    with("ou=people,($dn),dc=x", "groupdn=\"ldap:///cn=staff,ou=groups,($dn),dc=x\"")
        .check("bert", "read cn", b, false);
    with("ou=people,($dn),dc=x", "groupdn=\"ldap:///cn=staff,ou=groups,[$dn],dc=x\"")
        .check("bert", "read cn", b, true)
        .check("carl", "read cn", b, false);
    with("($dn),dc=x", "userdn=\"ldap:///uid=*,ou=people,dc=x\"").check("bert", "read cn", b, true);
    with("ou=people,($dn),dc=x", "userdn=\"ldap:///uid=*,ou=people,($dn),dc=x\"")
        .check("uid=z,ou=people,dc=b,dc=a,dc=x", "read cn", b, true)
        .check("bert", "read cn", b, false);
    // Without a part to repeat nothing is known.
    by("groupdn=\"ldap:///cn=staff,ou=groups,($dn),dc=x\"").check("bert", "read cn", a, false);
    by("groupdn=\"ldap:///cn=($attr.cn),ou=groups,dc=x\"")
        .check("bert", "read cn", b, true)
        .check("bert", "read cn", ANNA, false);
    by("userdn=\"ldap:///uid=bert,ou=($attr.ou)\"")
        .check("bert", "read cn", "dc=a,dc=x", true)
        .check("anna", "read cn", "dc=a,dc=x", false);
}

#[test]
fn what_cannot_be_read_denies_everything() {
    let mut case = by(ANYONE);
    case.holders.push((key("ou=people,dc=x"), vec![Arc::new(Aci::unreadable("rubbish"))]));
    case.set = set_of(&case.holders);
    case.check("", "read cn", ANNA, false).check("", "read cn", "dc=x", true);
    case.check("", "read", ANNA, false).check("", "read", "dc=x", true);
    let mut case = one("", "allow (read,add)", ANYONE);
    case.check("", "read", ANNA, true).check("", "add", ANNA, true);
    case.holders.push((key("ou=people,dc=x"), vec![Arc::new(Aci::unreadable("rubbish"))]));
    case.set = set_of(&case.holders);
    case.check("", "read", ANNA, false).check("", "add", ANNA, false);
}

#[test]
fn an_explanation_names_what_decides_and_why_the_others_do_not() {
    let aci = |name: &str, targets: &str, says: &str| {
        format!("{targets}(version 3.0; acl \"{name}\"; {says};)")
    };
    let texts = [
        aci(
            "content",
            "(targetattr=\"*\")(targetfilter=\"(cn=x)\")",
            "allow (read) userdn=\"ldap:///all\"",
        ),
        aci("asker", "(targetattr=\"*\")", "allow (read) userdn=\"ldap:///self\""),
        aci("group", "(targetattr=\"*\")", "allow (read) groupdn=\"ldap:///cn=lost\""),
        aci("right", "(targetattr=\"*\")", "allow (write) userdn=\"ldap:///all\""),
        aci("attribute", "(targetattr=\"sn\")", "allow (read) userdn=\"ldap:///all\""),
        aci(
            "entry",
            "(targetattr=\"*\")(target=\"ldap:///uid=*,ou=groups,dc=x\")",
            "allow (read) userdn=\"ldap:///all\"",
        ),
        aci("control", "(targetcontrol=\"*\")", "allow (read) userdn=\"ldap:///all\""),
        aci("yes", "(targetattr=\"*\")", "allow (read) userdn=\"ldap:///all\""),
        aci("no", "(targetattr=\"*\")", "deny (read) dns=\"a\""),
    ];
    let acis: Vec<(&str, &str)> = texts.iter().map(|text| ("dc=x", text.as_str())).collect();
    let check = |count: usize, want: &str, outcomes: &[RuleOutcome]| {
        let case = case(&acis[..count]);
        let schema = Schema::builtin();
        let cn = schema.describe("cn").unwrap();
        let explanation = case.asked("bert", |asker| {
            let rules = Rules::new(&case.set, 0);
            let reach = rules.below(asker, &key(ANNA));
            reach
                .of(case.world.find(&key(ANNA)).unwrap())
                .explain(&Question::Attribute(Right::Read, &cn))
        });
        let decides =
            explanation.decided_by.map(|place| explanation.considered[place].aci.name().to_owned());
        assert_eq!(decides.unwrap_or_default(), want);
        let found: Vec<RuleOutcome> =
            explanation.considered.iter().map(|one| one.outcome).collect();
        assert_eq!(found[..outcomes.len()], *outcomes);
        assert_eq!(explanation.considered[0].holder, key("dc=x"));
    };
    let outcomes = [
        RuleOutcome::OtherContent,
        RuleOutcome::OtherSubject,
        RuleOutcome::Unknown,
        RuleOutcome::OtherRight,
        RuleOutcome::OtherAttribute,
        RuleOutcome::OtherEntry,
        RuleOutcome::OtherKind,
        RuleOutcome::Applies,
        RuleOutcome::AppliesUnknown,
    ];
    check(7, "", &outcomes[..7]);
    check(8, "yes", &outcomes[..8]);
    check(9, "no", &outcomes);
}

#[test]
fn rules_stay_current_as_long_as_what_they_depend_on() {
    let current = |rule: &str| {
        let case = by(rule);
        let rules = Rules::new(&case.set, 7);
        let other = set_of(&case.holders);
        assert!(!rules.is_current(&other, 7));
        [rules.is_current(&case.set, 7), rules.is_current(&case.set, 8)]
    };
    assert_eq!(current("userdn=\"ldap:///self\""), [true, true]);
    assert_eq!(current("groupdn=\"ldap:///cn=staff\""), [true, false]);
    assert_eq!(current("timeofday>\"0800\""), [false, false]);
}

#[test]
fn nothing_is_asked_of_entries_where_nothing_depends_on_them() {
    /// An entry that must not be asked.
    struct Sealed;
    impl EntryRead for Sealed {
        fn dn(&self) -> &str {
            panic!("the name was asked for")
        }
        fn visit_matching(
            &self,
            _: &AttributeDescription,
            _: Option<&schema::ValueKey<'_>>,
            _: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
        ) -> bool {
            panic!("a value was asked for")
        }
        fn visit_wanted(
            &self,
            _: &dyn Fn(&AttributeDescription) -> bool,
            _: &mut dyn FnMut(&AttributeDescription, Option<ldap::message::Values<'_>>),
        ) {
            panic!("the attributes were asked for")
        }
    }
    let texts: Vec<(&str, String)> =
        crate::GlobalAcis::Public.texts().into_iter().map(|text| ("", text.to_owned())).collect();
    let acis: Vec<(&str, &str)> =
        texts.iter().map(|(holder, text)| (*holder, text.as_str())).collect();
    let case = case(&acis);
    let schema = Schema::builtin();
    case.asked("bert", |asker| {
        let rules = Rules::new(&case.set, 0);
        let reach = rules.below(asker, &key("dc=x"));
        for (name, want) in
            [("cn", true), ("userPassword", false), ("aci", false), ("entryUUID", true)]
        {
            let description = schema.describe(name).unwrap();
            assert_eq!(reach.of(&Sealed).may(Right::Read, &description), want, "{name}");
            assert_eq!(reach.always(Right::Search, &description), Some(want), "{name}");
            assert_eq!(
                reach.always(Right::Write, &description),
                if name == "userPassword" { None } else { Some(false) }
            );
        }
        assert!(reach.of(&Sealed).may_entry(Right::Read));
        assert_eq!(reach.always_entry(Right::Read), Some(true));
        assert!(!reach.of(&Sealed).may_entry(Right::Delete));
    });
}

/// Rules about attributes leave it known that all entries are seen; a deny without any does not.
#[test]
fn a_deny_of_whole_entries_is_heard_where_all_entries_are_asked_about() {
    let own = "(targetattr=\"cn || l\")(version 3.0; acl \"own\"; allow (all) \
               userdn=\"ldap:///self\"; deny (write) groupdn!=\"ldap:///cn=staff,dc=x\";)";
    let hide =
        "(version 3.0; acl \"hide\"; deny (all) userdn=\"ldap:///uid=bert,ou=people,dc=x\";)";
    let some = "(version 3.0; acl \"some\"; deny (read) userattr=\"manager#USERDN\";)";
    let mut acis: Vec<(&str, &str)> =
        crate::GlobalAcis::Public.texts().into_iter().map(|text| ("", text)).collect();
    acis.extend(["dc=x", "ou=people,dc=x", "dc=a,dc=x"].map(|holder| (holder, own)));
    acis.extend([("dc=a,dc=x", hide), ("ou=groups,dc=x", some)]);
    let case = case(&acis);
    let check = |who: &str, base: &str, want: Option<bool>| {
        case.asked(who, |asker| {
            let rules = Rules::new(&case.set, 0);
            let reach = rules.below(asker, &key(base));
            assert_eq!(reach.always_entry(Right::Read), want, "{who} {base}");
        });
    };
    check("carl", "ou=people,dc=x", Some(true));
    check("bert", "ou=people,dc=x", Some(true));
    check("carl", "dc=a,dc=x", Some(true));
    check("bert", "dc=a,dc=x", Some(false));
    check("bert", "ou=groups,dc=x", None);
    check("bert", "dc=x", None);
}

/// What was found out below one name was told of a larger part of the tree that begins with the
/// same place: a search below `dc=a` opened to the next one what a deny elsewhere hides.
#[test]
fn what_holds_below_one_name_is_not_taken_for_what_holds_above_it() {
    let own = "(targetattr=\"cn\")(version 3.0; acl \"own\"; allow (read,search) \
               userdn=\"ldap:///self\";)";
    let hide = "(targetattr=\"*\")(version 3.0; acl \"hide\"; deny (all) \
                userdn=\"ldap:///anyone\";)";
    let whole = "(version 3.0; acl \"hide\"; deny (all) userdn=\"ldap:///anyone\";)";
    let mut acis: Vec<(&str, &str)> =
        crate::GlobalAcis::Public.texts().into_iter().map(|text| ("", text)).collect();
    acis.extend([("dc=b,dc=a,dc=x", own), ("ou=groups,dc=x", hide), ("ou=groups,dc=x", whole)]);
    let case = case(&acis);
    let cn = Schema::builtin().describe("cn").unwrap();
    case.asked("bert", |asker| {
        let rules = Rules::new(&case.set, 0);
        let ask = |base: &str| {
            let reach = rules.below(asker, &key(base));
            let all = reach.always_all(Right::Search, &cn);
            (reach.always(Right::Search, &cn), all, reach.always_entry(Right::Read))
        };
        for _ in 0..2 {
            assert_eq!(ask("dc=a,dc=x"), (Some(true), true, Some(true)));
            assert_eq!(ask("dc=x"), (None, false, None));
        }
    });
}

#[test]
fn a_deny_that_cannot_be_answered_denies_and_an_allow_allows_nothing() {
    const ALL: &str = "(targetattr=\"*\")(version 3.0; acl \"all\"; allow (all) \
                       userdn=\"ldap:///all\";)";
    let (holder, bert) = ("dc=x", "uid=bert,ou=people,dc=x");
    let check = |targets: &str, rule: &str, what: &str| {
        let aci =
            |verb: &str| format!("{targets}(version 3.0; acl \"x\"; {verb} (read,write) {rule};)");
        let told = format!("{targets} {rule}");
        assert!(case(&[(holder, ALL)]).ask("anna", what, bert), "{told}");
        let (allow, deny) = (aci("allow"), aci("deny"));
        assert!(!case(&[(holder, &allow)]).ask("anna", what, bert), "allow {told}");
        assert!(!case(&[(holder, ALL), (holder, &deny)]).ask("anna", what, bert), "deny {told}");
    };
    // No such type, an assertion that is not of the syntax, no such rule, no rule at all.
    let filters = [
        "(noSuchType=x)",
        "(noSuchType=*)",
        "(uidNumber=many)",
        "(uidNumber>=many)",
        "(createTimestamp<=yesterday)",
        "(manager=nobody)",
        "(cn:noSuchRule:=x)",
        "(cn>=x)",
        "(jpegPhoto=*x*)",
    ];
    for filter in filters {
        let anyone = "userdn=\"ldap:///all\"";
        for target in [
            format!("(targetattr=\"*\")(targetfilter=\"{filter}\")"),
            format!("(targetattr=\"*\")(targetfilter!=\"{filter}\")"),
            format!("(targetattr=\"*\")(targetfilter=\"(!{filter})\")"),
            format!("(targetattr=\"*\")(targetfilter=\"(&(uid=bert){filter})\")"),
        ] {
            check(&target, anyone, "read cn");
        }
        check(&format!("(targattrfilters=\"add=cn:{filter}\")"), anyone, "+cn=b");
        check(&format!("(targattrfilters=\"del=cn:{filter}\")"), anyone, "-cn=b");
        let found = format!("userdn=\"ldap:///ou=people,dc=x??sub?{filter}\"");
        check("(targetattr=\"*\")", &found, "read cn");
    }
    for relation in [
        "noSuchType#USERDN",
        "noSuchType#GROUPDN",
        "noSuchType#LDAPURL",
        "noSuchType#x",
        // Values that are no names: nobody knows whom they were to mean.
        "title#USERDN",
        "title#GROUPDN",
        "title#LDAPURL",
    ] {
        check("(targetattr=\"*\")", &format!("userattr=\"{relation}\""), "read cn");
    }
}

/// What denied a type with an option said nothing of a type derived from it that another rule
/// names: `cn;lang-de` could be read, and searched for by `cn`.
#[test]
fn a_name_with_options_speaks_of_derived_types_that_are_named_as_well() {
    let allow = "(targetattr=\"*\")(version 3.0; acl \"all\"; allow (read,search) \
                 userdn=\"ldap:///anyone\";)";
    let deny = "(targetattr=\"name;lang-de\")(version 3.0; acl \"x\"; deny (read,search) \
                userdn=\"ldap:///anyone\";)";
    let other = "(targetattr=\"cn || createTimestamp\")(version 3.0; acl \"y\"; allow (read) \
                 userdn=\"ldap:///anyone\";)";
    let bert = "uid=bert,ou=people,dc=x";
    case(&[("", deny), ("", allow), ("", other)])
        .check("anna", "read cn", bert, true)
        .check("anna", "search cn", bert, true)
        .check("anna", "read cn;lang-de", bert, false)
        .check("anna", "search cn;lang-de", bert, false)
        .check("anna", "search sn;lang-de", bert, false)
        .check("anna", "search description;lang-de", bert, true);
}
