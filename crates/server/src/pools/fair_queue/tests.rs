//! Order, positions, and threads that are reserved.

use std::net::IpAddr;
use std::sync::Arc;
use std::thread;

use schema::EntryId;

use super::*;

fn queue<T>(max: usize, reserved: usize, asker_max: usize) -> FairQueue<T> {
    FairQueue::new(QueueSize { max, reserved, asker_max }, Shares::ALL)
}

fn entry(number: u64) -> Asker {
    Asker::Entry(EntryId(number))
}

fn stranger(number: u8) -> Asker {
    Asker::Address(IpAddr::from([192, 0, 2, number]))
}

/// What is left, as a thread that serves so takes it.
fn rest<T>(queue: &FairQueue<T>, serves: Serves) -> Vec<T> {
    let mut taken = Vec::new();
    while let Some((item, _turn)) = queue.try_take(serves) {
        taken.push(item);
    }
    taken
}

#[test]
fn those_who_ask_take_turns() {
    let queue = queue(1_000, 0, 1_000);
    for number in 0..100 {
        queue.put(entry(1), format!("one {number}")).unwrap();
    }
    queue.put(entry(2), "two 0".to_owned()).unwrap();
    queue.put(Asker::Root, "root 0".to_owned()).unwrap();
    queue.put(entry(2), "two 1".to_owned()).unwrap();
    assert_eq!(queue.depth(), (103, 1_000));
    let taken = rest(&queue, Serves::Everybody);
    let want = ["one 0", "two 0", "root 0", "one 1", "two 1", "one 2", "one 3"];
    assert_eq!(taken[..7], want);
    assert_eq!((taken.len(), queue.depth()), (103, (0, 1_000)));
}

#[test]
fn strangers_are_one_half_however_many_they_are() {
    let queue = queue(1_000, 0, 1_000);
    for number in 0..50 {
        queue.put(stranger(number), "stranger").unwrap();
    }
    for number in 1..4 {
        queue.put(entry(number), "signed in").unwrap();
    }
    let taken = rest(&queue, Serves::Everybody);
    let known = taken.iter().take(6).filter(|&&who| who == "signed in").count();
    assert_eq!(known, 3, "{taken:?}");
    assert_eq!(taken.len(), 53);
}

#[test]
fn a_reserved_thread_takes_nothing_of_strangers() {
    let queue = queue(10, 0, 10);
    queue.put(stranger(1), 1).unwrap();
    queue.put(Asker::Local, 2).unwrap();
    queue.put(entry(1), 3).unwrap();
    queue.put_back(stranger(1), 4);
    assert_eq!(rest(&queue, Serves::SignedIn), [3]);
    assert_eq!(rest(&queue, Serves::Everybody).len(), 3);
}

#[test]
fn nobody_fills_it_alone_and_places_are_kept_for_the_signed_in() {
    let queue = queue(8, 3, 4);
    for number in 0..4 {
        queue.put(stranger(1), number).unwrap();
    }
    assert_eq!(queue.put(stranger(1), 4), Err(4), "no more of one address");
    queue.put(stranger(2), 5).unwrap();
    assert_eq!(queue.put(stranger(3), 6), Err(6), "no more of strangers");
    assert_eq!(queue.put(Asker::Local, 6), Err(6), "no more of strangers");
    for number in 0..3 {
        queue.put(entry(1), 10 + number).unwrap();
    }
    assert_eq!(queue.put(entry(1), 20), Err(20), "no more at all");
    // Order is worth nothing to who cannot get in: one each, and the administrator.
    queue.put(entry(2), 21).unwrap();
    assert_eq!(queue.put(entry(2), 22), Err(22), "no second one");
    for number in 0..8 {
        queue.put(Asker::Root, 50 + number).unwrap();
    }
    assert_eq!(queue.put(Asker::Root, 58), Err(58), "its own are the whole queue");
    // What was let in before is.
    queue.put_back(stranger(1), 30);
    queue.put_back(entry(2), 31);
    assert_eq!(queue.depth(), (19, 8));
    assert_eq!(rest(&queue, Serves::Everybody).len(), 19);
    assert_eq!(queue.depth(), (0, 8));
    queue.put(stranger(3), 40).unwrap();
}

#[test]
fn who_has_most_makes_room_for_who_has_less() {
    let queue = queue(8, 2, 8);
    for number in 0..6 {
        assert_eq!(queue.put_or_displace(stranger(1), number), Ok(None));
    }
    // His newest, down to what the other one has.
    assert_eq!(queue.put_or_displace(stranger(2), 20), Ok(Some(5)));
    assert_eq!(queue.put_or_displace(stranger(2), 21), Ok(Some(4)));
    assert_eq!(queue.put_or_displace(stranger(2), 22), Ok(Some(3)));
    assert_eq!(queue.put_or_displace(stranger(2), 23), Err(23));
    assert_eq!(queue.put_or_displace(stranger(1), 6), Err(6));
    // Positions of those who have signed in are not for anonymous ones, and the other way round.
    for number in 0..2 {
        assert_eq!(queue.put_or_displace(entry(1), 30 + number), Ok(None));
    }
    assert_eq!(queue.put_or_displace(entry(1), 32), Err(32));
    // Whoever has nothing here gets in, even where nobody has more than one.
    assert_eq!(queue.put_or_displace(entry(2), 40), Ok(None));
    for number in 3..7 {
        assert!(matches!(queue.put_or_displace(stranger(number), 50), Ok(Some(1..23))));
    }
    assert_eq!(queue.put_or_displace(stranger(7), 51), Ok(None));
    assert_eq!(queue.depth(), (10, 8));
    assert_eq!(rest(&queue, Serves::Everybody).len(), 10);
}

#[test]
fn what_one_leaves_behind_is_looked_for_among_his_own() {
    let queue = queue(8, 0, 8);
    for number in 0..3 {
        queue.put(stranger(1), number).unwrap();
        queue.put(stranger(2), number).unwrap();
    }
    queue.retain_of(stranger(1), |number| *number == 1);
    assert_eq!(queue.depth(), (4, 8));
    queue.retain_of(stranger(1), |_| false);
    queue.retain_of(entry(1), |_| false);
    assert_eq!(queue.depth(), (3, 8));
    assert_eq!(rest(&queue, Serves::Everybody), [0, 1, 2]);
}

#[test]
fn what_nobody_waits_for_gives_up_its_place() {
    let queue = queue(8, 0, 8);
    for number in 0..4 {
        queue.put(entry(1), number).unwrap();
        queue.put(stranger(1), 10 + number).unwrap();
    }
    queue.put_back(entry(2), 4);
    queue.put_back(entry(3), 5);
    queue.retain(|number| number % 2 == 1);
    assert_eq!(queue.depth(), (5, 8));
    queue.put(entry(2), 7).unwrap();
    let mut left = rest(&queue, Serves::Everybody);
    left.sort_unstable();
    assert_eq!(left, [1, 3, 5, 7, 11, 13]);
    assert_eq!(queue.depth(), (0, 8));
}

#[test]
fn a_closed_queue_gives_out_what_is_left_and_then_ends() {
    let queue = Arc::new(queue(10, 0, 10));
    let threads = [Serves::SignedIn, Serves::Everybody].map(|serves| {
        let queue = Arc::clone(&queue);
        thread::spawn(move || {
            let mut taken = 0;
            while queue.take(serves, || None).is_some() {
                taken += 1;
            }
            taken
        })
    });
    for number in 0..5 {
        queue.put(entry(1), number).unwrap();
        queue.put_back(stranger(1), number);
    }
    queue.close();
    let taken = threads.map(|thread| thread.join().unwrap());
    assert_eq!(taken.iter().sum::<usize>(), 10, "{taken:?}");
    assert!(taken[1] >= 5);
}

#[test]
fn each_request_wakes_a_thread_that_may_take_it() {
    let queue = Arc::new(queue::<std::sync::mpsc::Sender<()>>(10, 0, 10));
    let threads = [Serves::SignedIn, Serves::Everybody, Serves::Everybody].map(|serves| {
        let queue = Arc::clone(&queue);
        thread::spawn(move || {
            while let Some((answer, _turn)) = queue.take(serves, || None) {
                answer.send(()).unwrap();
            }
        })
    });
    for round in 0..2_000 {
        let (sender, receiver) = std::sync::mpsc::channel();
        let asker = if round % 2 == 0 { stranger(1) } else { entry(1) };
        queue.put(asker, sender).unwrap();
        receiver.recv().unwrap();
    }
    queue.close();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Whoever had enough requests under way had all threads: those of another waited for the end of a
/// time slice, or of what is not divided into time slices.
#[test]
fn nobody_has_all_threads_at_once() {
    let size = QueueSize { max: 100, reserved: 0, asker_max: 100 };
    // Four threads, one of which serves nobody anonymous.
    let queue = FairQueue::new(size, Shares::of(4, 1));
    for number in 0..10 {
        queue.put(entry(1), number).unwrap();
        queue.put(stranger(1), 100 + number).unwrap();
    }
    let mut leases = Vec::new();
    let mut take = |serves| {
        let (item, lease) = queue.try_take(serves)?;
        leases.push(lease);
        Some(item)
    };
    let of_both = [0; 5].map(|_| take(Serves::Everybody));
    assert_eq!(of_both, [Some(0), Some(100), Some(1), Some(101), Some(2)]);
    assert_eq!(take(Serves::Everybody), None, "a stranger has two, and three are served by none");
    assert_eq!(take(Serves::SignedIn), None);
    // They delay nobody, and nobody gives up a thread for them.
    assert!(!queue.others_wait(Serves::Everybody, entry(2)));
    queue.put(stranger(2), 200).unwrap();
    queue.put(entry(2), 20).unwrap();
    assert!(queue.others_wait(Serves::Everybody, entry(1)));
    let others = [Serves::SignedIn, Serves::Everybody].map(&mut take);
    assert_eq!(others, [Some(20), Some(200)]);
    // A lease that ends makes room for the next of the same.
    assert_eq!(take(Serves::Everybody), None);
    leases.remove(0);
    assert!(queue.others_wait(Serves::SignedIn, entry(2)));
    let (item, _turn) = queue.try_take(Serves::SignedIn).unwrap();
    assert_eq!(item, 3);
    assert!(queue.try_take(Serves::SignedIn).is_none());
}

#[test]
fn of_few_threads_everybody_may_have_one() {
    for (threads, reserved, signed_in_max, anonymous_max) in
        [(1, 0, 1, 1), (2, 1, 1, 1), (3, 1, 2, 1), (8, 2, 7, 5)]
    {
        assert_eq!(Shares::of(threads, reserved), Shares { signed_in_max, anonymous_max });
    }
}

#[test]
fn what_was_held_back_finds_a_thread_when_a_turn_ends() {
    let size = QueueSize { max: 1_000, reserved: 0, asker_max: 1_000 };
    let queue = Arc::new(FairQueue::new(size, Shares::of(3, 1)));
    let threads = [Serves::SignedIn, Serves::Everybody, Serves::Everybody].map(|serves| {
        let queue = Arc::clone(&queue);
        thread::spawn(move || {
            while let Some((answer, _turn)) = queue.take(serves, || None) {
                let answer: std::sync::mpsc::Sender<()> = answer;
                answer.send(()).unwrap();
            }
        })
    });
    for _ in 0..200 {
        let (sender, receiver) = std::sync::mpsc::channel();
        for asker in [stranger(1), entry(1), entry(2), stranger(2)] {
            (0..3).for_each(|_| queue.put(asker, sender.clone()).unwrap());
        }
        drop(sender);
        assert_eq!(receiver.iter().count(), 12);
    }
    queue.close();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
