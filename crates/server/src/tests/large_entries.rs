//! Entries that are sent in parts: nothing comes between the parts, and nothing is left of them
//! when the client is gone.

use std::rc::Rc;

use ldap::message::DeleteRequest;
use testing::chance::Chance;
use tokio::time::Instant;

use super::simulated::{all_ended, ask_calmly, connect, described, finish, until, with_worker};
use super::*;
use crate::worker::Worker;

const SUFFIX: &str = "dc=example,dc=org";
const MEMBERS: usize = 400;
const OTHERS: usize = 20;

fn person(number: usize) -> String {
    format!("cn=a member of the large group {number},{SUFFIX}")
}

fn settings(settings: &mut Settings, options: &mut DirectoryOptions) {
    settings.server.scan_threads = 2;
    settings.limits.output_buffer_max_bytes = 2_000;
    options.limits.large_entry_values_min = 20;
    options.limits.large_entries_max = 4;
    options.limits.chunk_bytes = 700;
    options.limits.inline_output_max_bytes = 1_000;
}

/// People, of whom one may sign in, and a group of all.
async fn fill(worker: &Rc<Worker>) {
    let mut requests = bind(1, ROOT, "secret");
    for (id, number) in (2..).zip(0..MEMBERS) {
        let pairs = [("objectClass", "person"), ("sn", "x"), ("userPassword", "theirs")];
        requests.extend(add_entry(id, &person(number), &pairs[..if number == 0 { 3 } else { 2 }]));
    }
    let members: Vec<String> = (0..MEMBERS).map(person).collect();
    let mut pairs = vec![("objectClass", "groupOfNames")];
    pairs.extend(members.iter().map(|member| ("member", member.as_str())));
    requests.extend(add_entry(9_999, &format!("cn=group,{SUFFIX}"), &pairs));
    let answers = ask_calmly(worker, &requests).await;
    let answers = described(&answers);
    assert_eq!(answers.len(), MEMBERS + 2);
    let failed = answers.iter().find(|answer| !answer.ends_with(" success"));
    assert_eq!(failed, None);
}

fn read_group(id: i32) -> Vec<u8> {
    search_by(id, SUFFIX, Scope::Subtree, "(cn=group)")
}

/// How many members are in each entry of the group.
fn members(mut octets: &[u8]) -> Vec<usize> {
    let mut all = Vec::new();
    while let Ok(Frame::Complete(length)) = frame(octets, usize::MAX) {
        let message = Message::<Response<'_>>::decode(&octets[..length], &DecodeLimits::default());
        if let Response::SearchEntry { attributes, .. } = message.unwrap().op {
            let member = attributes.iter().find(|one| one.description == "member");
            all.extend(member.map(|one| one.values.iter().count()));
        }
        octets = &octets[length..];
    }
    all
}

/// Answers of searches, of updates and of what is answered at once, to a client that takes a little
/// at a time.
#[test]
fn nothing_comes_between_the_parts_of_a_message() {
    with_worker(settings, async |worker| {
        fill(worker).await;
        for is_plain in [true, false] {
            let mut requests = bind(1, ROOT, "secret");
            let mut want = vec!["1 bind success".to_owned()];
            for id in (10..).step_by(4).take(OTHERS) {
                requests.extend(read_group(id));
                let pairs = [("objectClass", "person"), ("sn", "x")];
                let name = format!("cn=p{is_plain}{id},{SUFFIX}");
                requests.extend(add_entry(id + 1, &name, &pairs));
                requests.extend(extended(id + 2, WHO_AM_I));
                requests.extend(search_by(id + 3, &person(1), Scope::Base, "(objectClass=*)"));
                want.extend([
                    format!("{id} entry cn=group,{SUFFIX}"),
                    format!("{id} done success"),
                    format!("{} add success", id + 1),
                    format!("{} extended success dn:{ROOT}", id + 2),
                    format!("{} entry {}", id + 3, person(1)),
                    format!("{} done success", id + 3),
                ]);
            }
            let peer = connect(worker, Chance::new(5, u64::from(is_plain)), is_plain);
            peer.borrow_mut().send(requests);
            let mut chance = Chance::new(6, 0);
            let mut room = 0;
            while peer.borrow().received.len() < OTHERS * MEMBERS * 50 {
                let before = peer.borrow().received.len();
                let more = 1 + chance.below(3_000) as usize;
                room += more;
                peer.borrow_mut().take_more(more);
                until(|| peer.borrow().received.len() > before).await;
                assert!(peer.borrow().received.len() <= room);
            }
            finish(&mut peer.borrow_mut(), &[]);
            all_ended(worker).await;
            let received = std::mem::take(&mut peer.borrow_mut().received);
            assert_eq!(members(&received), [MEMBERS; OTHERS]);
            let mut answers = described(&received);
            answers.sort();
            want.sort();
            assert_eq!(answers, want);
        }
    });
}

#[test]
fn what_a_client_has_not_taken_is_free_again_when_it_is_gone() {
    with_worker(settings, async |worker| {
        fill(worker).await;
        let slow = connect(worker, Chance::new(0, 0), true);
        slow.borrow_mut().take_more(3_000);
        slow.borrow_mut().send(read_group(2));
        until(|| slow.borrow().received.len() == 3_000).await;
        // Strangers have a quarter, which is this one.
        let ask = async || {
            let other = connect(worker, Chance::new(0, 0), true);
            finish(&mut other.borrow_mut(), &read_group(3));
            let is_over = || described(&other.borrow().received).last().cloned();
            until(|| is_over().is_some_and(|last| last.contains(" done "))).await;
            is_over().unwrap()
        };
        assert_eq!(ask().await, "3 done busy");
        // The server is at it when that happens, or has parked it.
        slow.borrow_mut().take_more(2_000);
        slow.borrow_mut().reset();
        all_ended(worker).await;
        let begun = Instant::now();
        while ask().await != "3 done success" {
            assert!(begun.elapsed() < TIMEOUT, "what was held is not given back");
        }
        all_ended(worker).await;
    });
}

#[test]
fn a_session_that_ends_within_a_message_says_nothing_more() {
    with_worker(settings, async |worker| {
        fill(worker).await;
        let slow = connect(worker, Chance::new(0, 0), true);
        slow.borrow_mut().take_more(3_000);
        slow.borrow_mut().send([bind(1, &person(0), "theirs"), read_group(2)].concat());
        until(|| slow.borrow().received.len() == 3_000).await;
        let delete = request(2, Request::Delete(DeleteRequest { name: &person(0) }));
        let root = connect(worker, Chance::new(0, 0), true);
        finish(&mut root.borrow_mut(), &[bind(1, ROOT, "secret"), delete].concat());
        until(|| described(&root.borrow().received).len() == 2).await;
        assert_eq!(described(&root.borrow().received)[1], "2 delete success");
        // Its session is looked at again while it takes nothing.
        all_ended(worker).await;
        let received = std::mem::take(&mut slow.borrow_mut().received);
        assert_eq!(described(&received), ["1 bind success"]);
        let notice = |octets: &[u8]| octets == NOTICE.as_bytes();
        assert!(!received.windows(NOTICE.len()).any(notice), "it would be a part of the entry");
    });
}

/// Of searches that came together each had its share of what all may hold, and a view, while it
/// waited for those before it.
#[test]
fn searches_of_one_connection_send_them_one_after_another() {
    let change = |all: &mut Settings, options: &mut DirectoryOptions| {
        settings(all, options);
        // Several of them are under way at once.
        all.limits.output_buffer_max_bytes = 400_000;
    };
    with_worker(change, async |worker| {
        fill(worker).await;
        for round in 0..10 {
            let peer = connect(worker, Chance::new(7, round), true);
            let requests = (2..8).flat_map(read_group).collect::<Vec<_>>();
            finish(&mut peer.borrow_mut(), &requests);
            all_ended(worker).await;
            let received = std::mem::take(&mut peer.borrow_mut().received);
            // Strangers have room for one.
            assert_eq!(members(&received), [MEMBERS; 6]);
            let mut answers = described(&received);
            answers.sort();
            let of_one =
                |id| [format!("{id} done success"), format!("{id} entry cn=group,{SUFFIX}")];
            assert_eq!(answers, (2..8).flat_map(of_one).collect::<Vec<_>>());
        }
    });
}
