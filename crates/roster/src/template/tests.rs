//! What templates yield and what they are refused for, as tables of text.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;

/// One word file beside the template.
struct Beside;

impl WordFiles for Beside {
    fn read(&self, name: &str) -> Result<Option<String>, String> {
        match name {
            "colours" => Ok(Some("red\ngreen\nblue\n".to_owned())),
            "empty" => Ok(Some("\n".to_owned())),
            "broken" => Err("cannot read broken: permission denied".to_owned()),
            _ => Ok(None),
        }
    }
}

fn parse(text: &str) -> Result<Arc<Template>, TemplateError> {
    Template::parse("t", text, &Beside, &ParseOptions::default()).map(Arc::new)
}

fn ldif(template: &Arc<Template>, numbers: impl IntoIterator<Item = u64>) -> String {
    let mut generator = template.generator(1);
    let mut out = Vec::new();
    for number in numbers {
        generator.generate(number).unwrap().write_ldif(&mut out);
    }
    String::from_utf8(out).unwrap()
}

/// The template yields these records; the one blank line after the last is left out.
#[track_caller]
fn check(text: &str, want: &str) {
    let template = parse(text).unwrap();
    assert_eq!(ldif(&template, 0..template.entries()).trim_end(), want);
}

/// A template whose first entry's `description` is made by `value`.
fn with_value(value: &str) -> String {
    format!(
        "define word=constant\nbranch: o=x\nsubordinateTemplate: a:3\ntemplate: a\nrdnAttr: uid\n\
         uid: u<sequential:7>\nsn: Zoë O'Neil\ncn: a\ncn: b\ndescription: {value}\n"
    )
}

/// The descriptions of the three entries.
#[track_caller]
fn check_value(value: &str, want: [&str; 3]) {
    let template = parse(&with_value(value)).unwrap();
    let mut generator = template.generator(1);
    let got: Vec<String> = (1..4)
        .map(|number| {
            let entry = generator.generate(number).unwrap();
            let mut values = entry.attributes().filter(|(name, _)| *name == "description");
            values.next().map_or("-", |(_, value)| value).to_owned()
        })
        .collect();
    assert_eq!(got, want, "{value}");
}

/// The value is made of characters that `shape` names: 9 a digit, a a letter, * any of both.
#[track_caller]
fn check_shape(value: &str, shape: &str) {
    let template = parse(&with_value(value)).unwrap();
    let mut generator = template.generator(1);
    let mut seen = BTreeSet::new();
    for number in 1..4 {
        let entry = generator.generate(number).unwrap();
        let (_, got) = entry.attributes().find(|(name, _)| *name == "description").unwrap();
        let fits = got.len() == shape.len()
            && got.chars().zip(shape.chars()).all(|(got, shape)| match shape {
                '9' => got.is_ascii_digit(),
                'a' => got.is_ascii_lowercase(),
                'x' => got.is_ascii_hexdigit(),
                '*' => got.is_ascii_alphanumeric(),
                other => got == other,
            });
        assert!(fits, "{value} gave {got}");
        seen.insert(got.to_owned());
    }
    assert_eq!(seen.len(), 3, "{value} gave the same twice: {seen:?}");
}

#[track_caller]
fn check_error(text: &str, want: &str) {
    let error = parse(text).unwrap_err();
    assert_eq!(error.to_string(), format!("t:{want}"));
}

#[track_caller]
fn check_value_error(value: &str, want: &str) {
    check_error(&with_value(value), &format!("10: {want}"));
}

#[test]
fn branches_get_what_their_name_implies() {
    check(
        "define suffix=dc=example,dc=com\nbranch: [suffix]\n\nbranch: ou=People\\, all,[suffix]\n\
         description: those of {ou}\n",
        "dn: dc=example,dc=com\nobjectClass: top\nobjectClass: domain\ndc: example\n\n\
         dn: ou=People\\, all,dc=example,dc=com\nobjectClass: top\n\
         objectClass: organizationalUnit\ndescription: those of People, all\nou: People, all",
    );
    check(
        "branch: uid=x\nobjectClass: account\nuid: x\n",
        "dn: uid=x\nobjectClass: account\nuid: x",
    );
}

#[test]
fn entries_stand_below_their_parent_and_count_anew_there() {
    check(
        "branch: o=x\nsubordinateTemplate: unit:2\n\ntemplate: unit\nsubordinateTemplate: b:2\n\
         rdnAttr: ou\nou: unit <sequential>\n\ntemplate: b\nrdnAttr: cn+sn\ncn: <sequential:1>\n\
         sn: s\nseeAlso: <parentdn>\n",
        "dn: o=x\nobjectClass: top\nobjectClass: organization\no: x\n\n\
         dn: ou=unit 0,o=x\nou: unit 0\n\n\
         dn: cn=1+sn=s,ou=unit 0,o=x\ncn: 1\nsn: s\nseeAlso: ou=unit 0,o=x\n\n\
         dn: cn=2+sn=s,ou=unit 0,o=x\ncn: 2\nsn: s\nseeAlso: ou=unit 0,o=x\n\n\
         dn: ou=unit 1,o=x\nou: unit 1\n\n\
         dn: cn=1+sn=s,ou=unit 1,o=x\ncn: 1\nsn: s\nseeAlso: ou=unit 1,o=x\n\n\
         dn: cn=2+sn=s,ou=unit 1,o=x\ncn: 2\nsn: s\nseeAlso: ou=unit 1,o=x",
    );
}

#[test]
fn entries_do_not_depend_on_the_order_they_are_made_in() {
    let template = parse(
        "branch: o=x\nsubordinateTemplate: a:5\ntemplate: a\nsubordinateTemplate: b:3\n\
         rdnAttr: uid\nuid: <random:alpha:8>\ncn: <first> <last>\ntemplate: b\nrdnAttr: cn\n\
         cn: <guid>\nbranch: o=y\nsubordinateTemplate: b:2\n",
    )
    .unwrap();
    assert_eq!(template.entries(), 1 + 5 * 4 + 1 + 2);
    let forward: Vec<String> = (0..24).map(|number| ldif(&template, [number])).collect();
    assert_eq!(ldif(&template, 0..24), forward.concat());
    let backward: Vec<&str> = forward.iter().rev().map(String::as_str).collect();
    assert_eq!(ldif(&template, (0..24).rev()), backward.concat());
    let mut generator = template.generator(1);
    assert_eq!(generator.generate(24).unwrap_err(), GenerateError::NoSuchEntry);
}

#[test]
fn a_seed_decides_what_is_drawn() {
    let template = parse(&with_value("<guid>")).unwrap();
    let of = |seed| {
        let mut out = Vec::new();
        template.generator(seed).generate(2).unwrap().write_ldif(&mut out);
        out
    };
    assert_eq!(of(5), of(5));
    assert_ne!(of(5), of(6));
}

#[test]
fn tags_that_count_and_copy() {
    for (value, want) in [
        ("plain", ["plain", "plain", "plain"]),
        ("[word] [WORD]", ["constant constant", "constant constant", "constant constant"]),
        ("<sequential>", ["0", "1", "2"]),
        ("<SEQUENTIAL:9>x", ["9x", "10x", "11x"]),
        ("{uid}-{uid:1}", ["u7-u", "u8-u", "u9-u"]),
        ("{sn:3}{sn:99}", ["ZoëZoë O'Neil", "ZoëZoë O'Neil", "ZoëZoë O'Neil"]),
        ("{cn}", ["a", "a", "a"]),
        ("<dn>", ["uid=u7,o=x", "uid=u8,o=x", "uid=u9,o=x"]),
        ("<dn:1>,<rdn>", ["uid=u7,uid=u7", "uid=u8,uid=u8", "uid=u9,uid=u9"]),
        ("<parentdn>", ["o=x", "o=x", "o=x"]),
        ("<file:colours:sequential>", ["red", "green", "blue"]),
        ("<presence:0>x", ["-", "-", "-"]),
        ("<presence:100>x", ["x", "x", "x"]),
        ("<ifpresent:uid:u8>yes", ["-", "yes", "-"]),
        ("<ifabsent:uid:u8>no", ["no", "-", "no"]),
        ("<ifpresent:cn:b>yes", ["yes", "yes", "yes"]),
        ("<ifabsent:cn>never", ["-", "-", "-"]),
        ("<list:only:3,never:0>", ["only", "only", "only"]),
        ("<list:a\\:1\\,b>", ["a:1,b", "a:1,b", "a:1,b"]),
        ("<random:numeric:5:5>", ["5", "5", "5"]),
        ("<random:numeric:5:5:3>", ["005", "005", "005"]),
        ("<random:chars:z:4>", ["zzzz", "zzzz", "zzzz"]),
        ("<random:alpha:0>", ["-", "-", "-"]),
        ("\\<a\\> \\{b} \\[c] \\\\ \\x", ["<a> {b} [c] \\ x"; 3]),
        ("a\n  b", ["a b", "a b", "a b"]),
    ] {
        check_value(value, want);
    }
}

#[test]
fn tags_that_draw() {
    for (value, shape) in [
        ("<random:numeric:12>", "999999999999"),
        ("<random:alpha:8>", "aaaaaaaa"),
        ("<random:alphanumeric:8>", "********"),
        ("<random:hex:8>", "xxxxxxxx"),
        ("<random:telephone>", "+1 999 999 9999"),
        ("<random:numeric:1000:9999>", "9999"),
        ("<guid>", "xxxxxxxx-xxxx-4xxx-xxxx-xxxxxxxxxxxx"),
    ] {
        check_shape(value, shape);
    }
}

#[test]
fn drawn_words_come_from_their_list() {
    let draw = |value: &str| {
        let text = with_value(value).replace("a:3", "a:300");
        let template = parse(&text).unwrap();
        let mut generator = template.generator(3);
        let mut seen = BTreeSet::new();
        for number in 1..301 {
            let entry = generator.generate(number).unwrap();
            seen.extend(
                entry.attributes().filter(|(n, _)| *n == "description").map(|(_, v)| v.to_owned()),
            );
        }
        seen.into_iter().collect::<Vec<String>>().join(" ")
    };
    assert_eq!(draw("<file:colours>"), "blue green red");
    assert_eq!(draw("<list:a,b:5,c;2>"), "a b c");
    assert_eq!(draw("<random:boolean>"), "FALSE TRUE");
    assert_eq!(draw("<random:month:1>"), "A D F J M N O S");
    assert_eq!(draw("<random:alpha:1:1>").len(), 26 * 2 - 1);
    assert_eq!(draw("<presence:50>x"), "x");
}

#[test]
fn no_pair_of_names_comes_twice_before_all_were_used() {
    let text = with_value("<first> <last>").replace("a:3", "a:20000");
    let template = parse(&text).unwrap();
    let mut generator = template.generator(9);
    let mut seen = BTreeSet::new();
    for number in 1..20_001 {
        let entry = generator.generate(number).unwrap();
        let (_, name) = entry.attributes().find(|(name, _)| *name == "description").unwrap();
        assert!(seen.insert(name.to_owned()), "{name}");
    }
}

#[test]
fn lines_may_refer_to_later_ones() {
    check(
        "branch: o=x\nsubordinateTemplate: a:1\ntemplate: a\nmail: {uid}@x\nuid: {sn}1\nsn: s\n\
         rdnAttr: uid\n",
        "dn: o=x\nobjectClass: top\nobjectClass: organization\no: x\n\n\
         dn: uid=s1,o=x\nmail: s1@x\nuid: s1\nsn: s",
    );
}

#[test]
fn a_template_adds_to_the_one_it_extends() {
    check(
        "branch: o=x\nsubordinateTemplate: b:1\ntemplate: a\nrdnAttr: uid\nuid: u\ncn: a\n\
         template: b\nextends: a\ncn: b after {uid}\n",
        "dn: o=x\nobjectClass: top\nobjectClass: organization\no: x\n\n\
         dn: uid=u,o=x\nuid: u\ncn: a\ncn: b after u",
    );
}

#[test]
fn unsafe_values_are_written_in_base64() {
    check(
        "branch: o=x\nsubordinateTemplate: a:1\ntemplate: a\nrdnAttr: cn\ncn: a, b\nsn: ü\n\
         l: \\:x\ndescription: x\\ \n",
        "dn: o=x\nobjectClass: top\nobjectClass: organization\no: x\n\n\
         dn: cn=a\\, b,o=x\ncn: a, b\nsn:: w7w=\nl:: Ong=\ndescription: x\\",
    );
}

#[test]
fn options_replace_count_and_constants() {
    let options = ParseOptions {
        entries: Some(2),
        constants: vec![("Suffix".to_owned(), "o=other".to_owned())],
    };
    let text = "define suffix=o=x\nbranch: [suffix]\nsubordinateTemplate: a:9\n\
                subordinateTemplate: a:1\ntemplate: a\nrdnAttr: cn\ncn: <sequential>\n";
    let template = Arc::new(Template::parse("t", text, &ShippedWords, &options).unwrap());
    assert_eq!(template.entries(), 4);
    assert_eq!(template.generator(1).generate(2).unwrap().dn(), "cn=1,o=other");
    let constants = vec![("sufix".to_owned(), "o=other".to_owned())];
    let options = ParseOptions { entries: None, constants };
    let error = Template::parse("t", text, &ShippedWords, &options).unwrap_err();
    assert_eq!(error.to_string(), "t: the template defines no constant 'sufix'");
    assert_eq!(error.hint.as_deref(), Some("it defines: suffix"));
}

#[test]
fn faults_of_structure_are_refused_with_their_line() {
    let person = "template: p\nrdnAttr: cn\ncn: <sequential>\n";
    for (text, want) in [
        ("", " there is no branch"),
        ("hello\n", "1: 'hello' is not of the form 'name: value'"),
        ("# c\n\ncn: x\n", "3: 'cn:' comes before any branch or template"),
        ("define x\n", "1: 'x' is not of the form 'name=value'"),
        ("define x=1\ndefine X=2\n", "2: 'x' is defined twice"),
        ("branch: [x]\n", "1: there is no constant 'x'"),
        ("branch: [x\n", "1: '[' without ']'"),
        ("branch:\n", "1: 'branch:' needs a name"),
        ("branch: o=x\nsubordinateTemplate: p\n", "2: 'p' has no count"),
        ("branch: o=x\nsubordinateTemplate: p:-1\n", "2: '-1' is not a count of entries"),
        ("branch: o=x\nsubordinateTemplate: p:1\n", "2: there is no template 'p'"),
        ("branch: o=x\nc n: p\n", "2: 'c n' is not an attribute description"),
        ("branch: uid=x\n", "1: the branch needs objectClass lines"),
        ("branch: x\n", "1: 'x' is not a distinguished name: "),
        ("branch: o=x\ntemplate: p\ncn: x\n", "2: the template has no rdnAttr line"),
        (
            "branch: o=x\ntemplate: p\nrdnAttr: cn\n",
            "2: no line of this template gives the rdnAttr 'cn' a value",
        ),
        ("branch: o=x\ntemplate: p\nextends: q\n", "3: there is no template 'q'"),
        ("branch: o=x\ntemplate: p\nextends: p\n", "3: templates extend each other over 16 times"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.starts_with(&format!("t:{want}")), "{text}: {error}");
    }
    check_error(&format!("branch: o=x\n{person}{person}"), "5: template 'p' is defined twice");
    check_error(
        &format!("branch: o=x\nsubordinateTemplate: p:2\n{person}subordinateTemplate: p:1\n"),
        "1: templates are nested more than 16 levels deep",
    );
    check_error(
        &format!("branch: o=x\nsubordinateTemplate: p:{}\n{person}", u64::MAX),
        "1: the template yields more than 2^64 entries",
    );
}

#[test]
fn faults_of_values_are_refused_with_their_line() {
    for (value, want) in [
        ("{nothing}", "no other line of this template gives 'nothing' a value"),
        ("{description}", "no other line of this template gives 'description' a value"),
        ("{uid", "'{' without '}'"),
        ("{uid:x}", "'x' is not a number of characters"),
        ("<first", "'<' without '>'"),
        ("<frist>", "unknown tag '<frist>'"),
        ("<random>", "unknown kind of random value ''"),
        ("<random:blue:3>", "unknown kind of random value 'blue'"),
        ("<random:alpha>", "the length is missing"),
        ("<random:alpha:x>", "'x' is not a length"),
        ("<random:alpha:5:4>", "the length 5 is greater than 4"),
        ("<random:alpha:65537>", "a random value may have at most 65536 characters"),
        ("<random:numeric:5:4>", "5 is greater than 4"),
        ("<random:numeric:5:6:7:8>", "too many arguments"),
        ("<random:chars::4>", "there are no characters to choose from"),
        ("<sequential:x>", "'x' is not a first number"),
        ("<presence:101>", "the percentage must be between 0 and 100"),
        ("<presence>", "the percentage is missing"),
        ("<ifpresent>", "the attribute is missing"),
        ("<dn:0>", "the number of RDNs must be at least 1"),
        ("<list:a:0>", "the list is empty, or all weights are 0"),
        ("<list:a:x>", "'x' is not a weight"),
        ("<list:a:18446744073709551615,b>", "the weights are too large together"),
        ("<file>", "the name of the file is missing"),
        ("<file:nowhere>", "there is no word file 'nowhere'"),
        ("<file:empty>", "word file 'empty' contains no words"),
        ("<file:broken>", "cannot read broken: permission denied"),
        ("<file:colours:backward>", "'backward' is not an order of words"),
    ] {
        check_value_error(value, want);
    }
    check_error(
        "branch: o=x\ntemplate: a\nrdnAttr: cn\ncn: {sn}\nsn: <rdn>\n",
        "4: the value depends on itself",
    );
}

#[test]
fn an_entry_that_cannot_be_made_is_refused() {
    let error = |lines: &str| {
        let text =
            format!("branch: o=x\nsubordinateTemplate: a:1\ntemplate: a\nrdnAttr: cn\n{lines}");
        parse(&text).unwrap().generator(1).generate(1).unwrap_err()
    };
    assert_eq!(
        error("cn: <presence:0>x\n"),
        GenerateError::NoRdnValue { attribute: "cn".to_owned(), entry: 1 }
    );
    let doubling: String = (1..30).map(|n| format!("a{n}: {{a{0}}}{{a{0}}}\n", n - 1)).collect();
    let error = error(&format!("cn: x\na0: <random:alpha:1000>\n{doubling}"));
    assert!(matches!(error, GenerateError::TooLarge { .. }), "{error}");
}

#[test]
fn constants_cannot_explode() {
    let doubling: String = (1..40).map(|n| format!("define a{n}=[a{0}][a{0}]\n", n - 1)).collect();
    let error = parse(&format!("define a0=0123456789\n{doubling}branch: [a39]\n")).unwrap_err();
    assert_eq!(error.reason, "the line is longer than 16384 bytes");
}

#[test]
fn the_shipped_template_yields_people() {
    let options = ParseOptions { entries: Some(10), constants: Vec::new() };
    let template = Template::parse("people", PEOPLE, &ShippedWords, &options).unwrap();
    let template = Arc::new(template);
    assert_eq!(template.entries(), 12);
    let entry = ldif(&template, [2]);
    assert!(entry.starts_with("dn: uid=user.1,ou=people,dc=example,dc=com\n"), "{entry}");
    assert_eq!(entry.lines().count(), 1 + 4 + 19 + 1, "{entry}");
}

/// The descriptions of the first entry.
fn descriptions(value: &str) -> Vec<String> {
    let template = parse(&with_value(value)).unwrap();
    let mut generator = template.generator(1);
    let entry = generator.generate(1).unwrap();
    let values = entry.attributes().filter(|(name, _)| *name == "description");
    values.map(|(_, value)| value.to_owned()).collect()
}

#[test]
fn one_line_gives_many_different_values() {
    for (count, low, high) in [(40, 1, 1000), (1000, 1, 1000), (1, 7, 7), (3, 0, u64::MAX)] {
        let values = descriptions(&format!("uid={{uid}}.<distinct:{count}:{low}:{high}>,o=x"));
        let numbers: Vec<u64> = values
            .iter()
            .map(|value| value.strip_prefix("uid=u7.").unwrap().strip_suffix(",o=x").unwrap())
            .map(|number| number.parse().unwrap())
            .collect();
        assert_eq!(numbers.len(), count as usize);
        assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
        assert!(numbers.iter().all(|number| (low..=high).contains(number)), "{numbers:?}");
    }
    assert_eq!(descriptions("<distinct:3:5:7>"), ["5", "6", "7"]);
    assert_eq!(descriptions("<distinct:0:5:7>"), [""; 0]);
    assert_eq!(descriptions("<presence:0><distinct:3:5:7>"), [""; 0]);
    // Other entries and other lines draw otherwise, and what stands behind is not left out.
    let of = |number| {
        let text = with_value("<distinct:40:1:100000>") + "title: <distinct:40:1:100000>\nl: x\n";
        let template = parse(&text).unwrap();
        let mut generator = template.generator(1);
        let entry = generator.generate(number).unwrap();
        assert_eq!(entry.attributes().last(), Some(("l", "x")));
        let of = |asked: &str| -> Vec<String> {
            let values = entry.attributes().filter(|(name, _)| *name == asked);
            values.map(|(_, value)| value.to_owned()).collect()
        };
        (of("description"), of("title"))
    };
    let (one, two) = (of(1), of(2));
    assert_eq!([one.0.len(), one.1.len(), two.0.len(), two.1.len()], [40; 4]);
    assert!(one.0 != one.1 && one.0 != two.0 && one.1 != two.1);
}

#[test]
fn values_of_many_are_bounded_and_nothing_refers_to_them() {
    check_value_error("<distinct:4:5:7>", "there are no 4 different numbers from 5 to 7");
    check_value_error("<distinct:4:7:5>", "7 is greater than 5");
    check_value_error("<distinct:4>", "the least number is missing");
    check_value_error("<distinct:4000001:0:5000000>", "a line may have at most 4000000 values");
    check_value_error("<distinct:2:5:7><distinct:2:5:7>", "a value may have one tag <distinct>");
    let text = with_value("<distinct:2:5:7>") + "title: {description}\n";
    check_error(&text, "11: the value refers to an attribute that has many values by <distinct>");
    let text = with_value("<distinct:2:5:7>").replace("rdnAttr: uid", "rdnAttr: description");
    check_error(&text, "10: an rdnAttr cannot have many values by <distinct>");
    let template = parse(&with_value("<distinct:1000:1000:9999>")).unwrap();
    let mut generator = template.generator(1).with_repeated_max_bytes(3_999);
    let error = generator.generate(1).unwrap_err();
    assert_eq!(error, GenerateError::TooLarge { line: 10, limit_bytes: 3_999 });
    let mut generator = template.generator(1).with_repeated_max_bytes(4_000);
    assert_eq!(generator.generate(1).unwrap().attributes().count(), 4 + 1000);
}
