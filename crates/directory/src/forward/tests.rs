//! Requests and answers between nodes are read as they were written, and nothing else is read.

use history::record::Who;
use ldap::result::ResultCode;
use schema::EntryId;
use store::Lsn;
use zeroize::Zeroizing;

use super::answer::{Answered, ForwardedAnswer};
use super::request::{
    ForwardedIdentity, ForwardedRequest, ForwardedSession, ForwardedWork, asker, reads_as_written,
};
use crate::password_policy::PolicyError;
use crate::password_policy::account_event::{
    ACCOUNTS_PER_WRITE, AccountEvents, EVENTS_PER_REQUEST, Event, What,
};
use crate::request::asker_queues::Asker;
use crate::request::session::{LocalUser, Peer};

fn session(identity: ForwardedIdentity) -> ForwardedSession {
    let address = "[2001:db8::1]:1000".to_owned();
    ForwardedSession {
        identity,
        who: Who {
            dn: "cn=a,dc=x".to_owned(),
            authz: "dn:cn=b,dc=x".to_owned(),
            address: address.clone(),
            mechanism: "SCRAM-SHA-256".into(),
            session: 17,
        },
        peer: Peer {
            address,
            ip: Some("2001:db8::1".parse().unwrap()),
            is_proxied: true,
            local_user: Some(LocalUser { uid: 1, gid: 2 }),
            secure: true,
            ..Peer::default()
        },
        key_bits: 256,
        host_name: Some("host.example".to_owned()),
        must_change: Some(EntryId(9)),
    }
}

/// A request has its turn with others of its entry or address, whichever node it came to.
#[test]
fn a_request_says_who_has_a_turn_with_it() {
    let stranger = Asker::Address("2001:db8::".parse().unwrap());
    let of_server = Asker::Root;
    let askers = [stranger, Asker::Root, Asker::Entry(EntryId(3)), of_server, of_server];
    for (octets, expected) in requests().iter().zip(askers) {
        assert_eq!(asker(octets), Some(expected));
        for cut in 0..octets.len() {
            assert!(asker(&octets[..cut]).is_none_or(|one| one == expected));
        }
    }
    let work = |peer| {
        let who = Who { address: String::new(), ..session(ForwardedIdentity::Anonymous).who };
        let session =
            Box::new(ForwardedSession { who, peer, ..session(ForwardedIdentity::Anonymous) });
        ForwardedWork::Messages { session, messages: vec![Zeroizing::new(b"one".to_vec())] }
    };
    let local = ForwardedRequest { id: [1; 16], work: work(Peer::default()) }.encode();
    assert_eq!(asker(&local), Some(Asker::Local));
    assert_eq!(asker(b"nothing"), None);
}

fn requests() -> Vec<Vec<u8>> {
    let entry = ForwardedIdentity::Entry {
        name: "cn=a,dc=x".to_owned(),
        entry: EntryId(3),
        prover: Some(EntryId(4)),
    };
    let identities =
        [ForwardedIdentity::Anonymous, ForwardedIdentity::Root("cn=root".to_owned()), entry];
    let messages = || [b"one".to_vec(), b"two".to_vec()].map(Zeroizing::new).into();
    let events = vec![
        Event { at: environment::Timestamp(5), what: What::Success, is_counted: true },
        Event { at: environment::Timestamp(6), what: What::Failure, is_counted: false },
    ];
    let mut works: Vec<_> = identities
        .into_iter()
        .map(|one| ForwardedWork::Messages {
            session: Box::new(session(one)),
            messages: messages(),
        })
        .collect();
    let (id, told) = (EntryId(7), Vec::new());
    works.push(ForwardedWork::Events(vec![AccountEvents { id, events, told, is_urgent: true }]));
    works.push(ForwardedWork::Rehash {
        name: "cn=a,dc=x".to_owned(),
        old: Zeroizing::new(b"old".to_vec()),
        new: Zeroizing::new(b"new".to_vec()),
    });
    let encode = |work| ForwardedRequest { id: [1; 16], work }.encode().to_vec();
    works.into_iter().map(encode).collect()
}

#[test]
fn requests_are_read_as_they_were_written() {
    for octets in requests() {
        assert!(reads_as_written(&octets));
        for cut in 0..octets.len() {
            assert!(!reads_as_written(&octets[..cut]), "{cut} octets are not all of it");
        }
        assert!(!reads_as_written(&[&octets[..], &[0]].concat()));
        // Whatever an octet is changed to, it is read as it stands or not at all.
        for at in 0..octets.len() {
            for with in [0, 1, 2, 0x7f, 0xff] {
                let mut other = octets.clone();
                other[at] = with;
                let _ = reads_as_written(&other);
            }
        }
    }
}

#[test]
fn a_session_tells_everything_that_decisions_ask_for() {
    let told = session(ForwardedIdentity::Root("cn=root".to_owned()));
    let work = ForwardedWork::Messages {
        session: Box::new(told.clone()),
        messages: vec![Zeroizing::new(b"one".to_vec())],
    };
    let octets = ForwardedRequest { id: [1; 16], work }.encode();
    let read = ForwardedRequest::decode(&octets).unwrap();
    let ForwardedWork::Messages { session, messages } = read.work else { panic!("messages") };
    assert_eq!(format!("{session:?}"), format!("{:?}", Box::new(told)));
    assert_eq!((messages.len(), &*messages[0]), (1, &b"one".to_vec()));
}

#[test]
fn answers_are_read_as_they_were_written() {
    let answers = [
        ForwardedAnswer::Answered(Answered {
            lsn: Lsn(70_000),
            is_wrong_guess: true,
            policy: Some(PolicyError::PasswordTooLong),
            code: Some(ResultCode::Success),
            diagnostic: "why".to_owned(),
            response: b"response".to_vec(),
        }),
        ForwardedAnswer::Answered(Answered {
            lsn: Lsn(0),
            is_wrong_guess: false,
            policy: None,
            code: None,
            diagnostic: String::new(),
            response: Vec::new(),
        }),
        ForwardedAnswer::NotDeciding { leader: Some("ldap://x".to_owned()) },
        ForwardedAnswer::NotDeciding { leader: None },
        ForwardedAnswer::Unknown,
        ForwardedAnswer::Refused { code: ResultCode::Busy, diagnostic: "why".to_owned() },
    ];
    for answer in answers {
        let octets = answer.encode();
        assert_eq!(ForwardedAnswer::decode(&octets).as_ref(), Ok(&answer));
        for cut in 0..octets.len() {
            assert!(ForwardedAnswer::decode(&octets[..cut]).is_err());
        }
    }
}

#[test]
fn no_more_accounts_or_events_are_read_than_may_be_sent() {
    let event = Event { at: environment::Timestamp(5), what: What::Failure, is_counted: false };
    let account = |events| AccountEvents {
        id: EntryId(7),
        events: vec![event; events],
        told: Vec::new(),
        is_urgent: false,
    };
    let reads = |accounts: &[AccountEvents]| {
        reads_as_written(&ForwardedRequest::of_events([1; 16], accounts))
    };
    assert!(reads(&[account(EVENTS_PER_REQUEST)]));
    assert!(!reads(&[account(EVENTS_PER_REQUEST + 1)]));
    let many = |count: usize| (0..count).map(|_| account(1)).collect::<Vec<_>>();
    assert!(reads(&many(ACCOUNTS_PER_WRITE)));
    assert!(!reads(&many(ACCOUNTS_PER_WRITE + 1)));
}
