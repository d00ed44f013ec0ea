//! Consumers that are further behind than changes are looked at together.

use ldap::message::ModifyOperation;
use ldap::result::ResultCode;

use super::streams::{CITIES, Consumer, Heard, Said, everybody_reads, people, person, replace};
use crate::support::{Asked, SUFFIX, Served};

const OK: ResultCode = ResultCode::Success;
/// So many changes of so many octets are more than are looked at together.
const MANY: usize = 60;
const LONG: usize = 200_000;

#[test]
fn changes_of_what_may_not_be_read_are_not_told_far_behind_either() {
    let served = Served::new();
    let mut root = served.root();
    people(&mut root);
    everybody_reads(&mut root, SUFFIX);
    let aci = "(targetattr=\"description || modifyTimestamp || modifiersName || entryCSN || etag\")\
               (version 3.0; acl \"no\"; deny (all) userdn=\"ldap:///anyone\";)";
    assert_eq!(root.modify(SUFFIX, &[(ModifyOperation::Add, "aci", &[aci])]), OK);
    let mut at = |number: usize| {
        let city = if number.is_multiple_of(2) { "zug" } else { "chur" };
        person(&mut root, &format!("p{number}"), &[("l", &[city])])
    };
    let all: Vec<String> = (0..4).map(&mut at).collect();
    let leaver = person(&mut root, "c", &[("l", &["zug"])]);
    let mut client = served.client();
    let hidden = Asked { filter: "(|(l=zug)(description=1))", ..CITIES };
    let (mut cities, mut numbers) = (Consumer::default(), Consumer::default());
    assert_eq!(cities.ask(&mut client, &CITIES, false), Some(OK));
    assert_eq!(numbers.ask(&mut client, &hidden, false), Some(OK));
    for number in 0..MANY {
        replace(&mut root, &all[number % 4], "description", &[&number.to_string().repeat(LONG)]);
        if number == 10 {
            replace(&mut root, &leaver, "l", &["chur"]);
        }
    }
    for (consumer, asked) in [(&mut cities, &CITIES), (&mut numbers, &hidden)] {
        assert_eq!(consumer.ask(&mut client, asked, false), Some(OK));
        consumer.check(&mut client, asked);
        let names = consumer.told.iter().filter_map(|one| match one {
            Heard::Entry { dn, said: Said::State(..), .. } => Some(dn),
            _ => None,
        });
        let names: Vec<&String> = names.collect();
        // What its reader may not read has changed of the others.
        assert!(names == [&leaver], "{}: {} are told", asked.filter, names.len());
    }
}
