//! Tests of what is counted of the addresses of clients.

use super::*;

const LIMITS: AddressLimits = AddressLimits {
    connections_max: 2,
    bind_failures_max: 3,
    bind_delay_max: Duration::from_secs(1),
};

fn four(last: u8) -> Option<IpAddr> {
    Some(IpAddr::from([192, 0, 2, last]))
}

fn of(address: Option<IpAddr>) -> Option<Source> {
    address.map(Source::whole)
}

/// What comes of a bind.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Now,
    After(Duration),
    Never,
}

/// A bind comes, and is right if it is looked at.
fn outcome(table: &ClientAddresses, source: Option<Source>, now: Duration) -> Outcome {
    match table.admit_bind(source, now) {
        Admission::Now(ticket) => {
            ticket.into_iter().for_each(|ticket| table.end(ticket, false, now));
            Outcome::Now
        }
        Admission::Waits(position, wait) => {
            table.give_up(position, now);
            Outcome::After(wait)
        }
        Admission::Never => Outcome::Never,
    }
}

/// One begins to wait for its hash.
fn begun(table: &ClientAddresses, source: Option<Source>) -> Option<Ticket> {
    match table.admit_bind(source, at(0)) {
        Admission::Now(ticket) => ticket.or_else(|| table.begin(source, at(0))),
        Admission::Waits(..) | Admission::Never => None,
    }
}

/// A bind that comes, and has to wait.
fn in_line(table: &ClientAddresses, source: Option<Source>, now: Duration) -> Position {
    match table.admit_bind(source, now) {
        Admission::Waits(position, _) => position,
        other => panic!("{other:?}"),
    }
}

/// A bind that has waited is called, and has to wait once more.
fn again(table: &ClientAddresses, position: Position, now: Duration) -> (Position, Duration) {
    match table.admit_waited(position, now) {
        Admission::Waits(position, wait) => (position, wait),
        other => panic!("{other:?}"),
    }
}

/// A bind that has waited is looked at.
fn admitted(table: &ClientAddresses, position: Position, now: Duration) -> Ticket {
    match table.admit_waited(position, now) {
        Admission::Now(Some(ticket)) => ticket,
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_fails_behind_a_gateway_waits_alone() {
    let gateways = vec!["192.0.2.8/29".parse().unwrap()];
    let table = ClientAddresses::new(LIMITS, gateways);
    let source = |address, name: &str| {
        table.source(address, || (!name.is_empty()).then(|| name.as_bytes().to_vec()))
    };
    for _ in 0..8 {
        for address in [four(9), four(1)] {
            table.bind_failed(source(address, "anna"), at(0));
        }
    }
    let waits =
        |address, name| matches!(outcome(&table, source(address, name), at(0)), Outcome::After(_));
    assert!(waits(four(9), "anna"));
    assert!(!waits(four(9), "bert") && !waits(four(10), "anna"));
    // Elsewhere the address counts: one may guess the password of many.
    assert!(waits(four(1), "anna") && waits(four(1), "bert"));
    // What names nobody is counted for the gateway, beside its accounts.
    for _ in 0..8 {
        table.bind_failed(source(four(9), ""), at(0));
    }
    assert!(waits(four(9), "") && !waits(four(9), "bert"));
}

#[test]
fn no_more_are_under_way_than_may_fail() {
    let table = ClientAddresses::new(LIMITS, Vec::new());
    let source = of(four(1));
    let mut tickets: Vec<_> = (0..4).map(|_| begun(&table, source).unwrap()).collect();
    let mut waiting: Vec<_> = (0..4).map(|_| in_line(&table, source, at(0))).collect();
    assert_eq!(outcome(&table, of(four(2)), at(0)), Outcome::Now);
    assert!(waiting.iter_mut().all(|one| one.called.try_recv().is_err()));
    // A right one makes room for the one that has waited for longest.
    table.end(tickets.pop().unwrap(), false, at(0));
    assert_eq!(waiting[0].called.try_recv(), Ok(()));
    tickets.push(admitted(&table, waiting.remove(0), at(0)));
    // One that is gone takes none.
    table.end(tickets.pop().unwrap(), false, at(0));
    assert_eq!(waiting[0].called.try_recv(), Ok(()));
    table.give_up(waiting.remove(0), at(0));
    assert_eq!(waiting[0].called.try_recv(), Ok(()));
    tickets.push(admitted(&table, waiting.remove(0), at(0)));
    // What fails makes none; when too many have, the first one waits for its time.
    let mut last = waiting.remove(0);
    for ticket in tickets.drain(1..) {
        table.end(ticket, true, at(0));
        (last, _) = again(&table, last, at(0));
    }
    table.end(tickets.pop().unwrap(), true, at(0));
    assert_eq!(last.called.try_recv(), Ok(()));
    let (last, wait) = again(&table, last, at(0));
    assert_eq!(wait, Duration::from_millis(100));
    assert_eq!(table.suspects.load(Ordering::Relaxed), 1);
    table.end(admitted(&table, last, at(100)), false, at(100));
}

#[test]
fn beyond_the_limit_one_is_under_way_and_its_failure_counts_for_those_in_line() {
    let table = ClientAddresses::new(LIMITS, Vec::new());
    let source = of(four(1));
    (0..4).for_each(|_| table.bind_failed(source, at(0)));
    let first = in_line(&table, source, at(0));
    let second = in_line(&table, source, at(0));
    let third = in_line(&table, source, at(0));
    let ticket = admitted(&table, first, at(100));
    // Its time has come, and one is under way.
    let (mut second, _) = again(&table, second, at(200));
    table.end(ticket, true, at(250));
    assert_eq!(second.called.try_recv(), Ok(()));
    // Five have failed now, the last one at 250.
    let (second, wait) = again(&table, second, at(300));
    assert_eq!(wait, Duration::from_millis(150));
    // Nobody overtakes it.
    let (third, _) = again(&table, third, at(450));
    table.end(admitted(&table, second, at(450)), false, at(450));
    let (third, wait) = again(&table, third, at(450));
    assert_eq!(wait, Duration::from_millis(200));
    table.end(admitted(&table, third, at(650)), false, at(650));
}

#[test]
fn no_bind_waits_longer_than_four_of_the_longest_delays() {
    // A hundred come while the delay is still the shortest, and all but the last are wrong.
    let table = ClientAddresses::new(LIMITS, Vec::new());
    let source = of(four(1));
    (0..4).for_each(|_| table.bind_failed(source, at(0)));
    let mut line = VecDeque::new();
    let mut refused = 0;
    for _ in 0..100 {
        match table.admit_bind(source, at(0)) {
            Admission::Waits(position, _) => line.push_back(position),
            Admission::Never => refused += 1,
            Admission::Now(_) => panic!("it has to wait"),
        }
    }
    assert_eq!((line.len(), refused), (40, 60));
    let (mut now, mut guesses) = (0, 0);
    while let Some(position) = line.pop_front() {
        match table.admit_waited(position, at(now)) {
            Admission::Now(Some(ticket)) => {
                guesses += 1;
                table.end(ticket, true, at(now));
            }
            Admission::Waits(position, wait) => {
                line.push_front(position);
                now += u64::try_from(wait.as_millis()).unwrap();
            }
            Admission::Never => assert!(now >= 4_000, "{now}"),
            Admission::Now(None) => panic!("it is known"),
        }
    }
    assert_eq!((now, guesses), (4_000, 6));
    // Who comes now waits for one of the longest delays.
    assert!(matches!(outcome(&table, source, at(now)), Outcome::After(wait) if wait.as_secs() < 1));
}

#[test]
fn what_waits_for_those_under_way_is_bounded_too() {
    let table = ClientAddresses::new(LIMITS, Vec::new());
    let source = of(four(1));
    let tickets: Vec<_> = (0..4).map(|_| begun(&table, source).unwrap()).collect();
    let mut line: Vec<_> = (0..LINE_MAX).map(|_| in_line(&table, source, at(0))).collect();
    assert!(matches!(table.admit_bind(source, at(0)), Admission::Never));
    let (first, wait) = again(&table, line.remove(0), at(1_000));
    assert_eq!(wait, Duration::from_secs(3));
    assert!(matches!(table.admit_waited(first, at(4_000)), Admission::Never));
    line.into_iter().for_each(|position| table.give_up(position, at(4_000)));
    tickets.into_iter().for_each(|ticket| table.end(ticket, false, at(4_000)));
    assert_eq!(table.suspects.load(Ordering::Relaxed), 0);
    assert!(table.shards.iter().all(|shard| shard.lock().unwrap().is_empty()));
}

/// They took the places of binds that are looked at here, for as long as nobody leads.
#[test]
fn guesses_that_go_on_elsewhere_leave_places_to_others() {
    let table = ClientAddresses::new(AddressLimits { bind_failures_max: 20, ..LIMITS }, Vec::new());
    let source = of(four(1));
    let hand_on = || table.hand_on(begun(&table, source), source, at(0));
    let mut gone: Vec<_> = (0..HANDED_ON_MAX).map(|_| hand_on().unwrap().unwrap()).collect();
    let ticket = hand_on().unwrap_err().unwrap();
    table.end(ticket, false, at(0));
    let now = || match table.admit_bind(source, at(0)) {
        Admission::Now(Some(ticket)) => ticket,
        other => panic!("{other:?}"),
    };
    // One after the other, and side by side.
    for _ in 0..100 {
        table.end(now(), false, at(0));
    }
    let mut tickets: Vec<_> = (0..13).map(|_| now()).collect();
    let mut waiting = in_line(&table, source, at(0));
    // Whoever waits gets the place of one that was right.
    table.end_elsewhere(gone.pop().unwrap(), false, at(0));
    assert_eq!(waiting.called.try_recv(), Ok(()));
    tickets.push(admitted(&table, waiting, at(0)));
    // What all of them may be wrong about is no more than before.
    for ticket in tickets {
        table.end(ticket, true, at(0));
    }
    let (last, wait) = again(&table, in_line(&table, source, at(0)), at(0));
    assert_eq!(wait, Duration::from_millis(100));
    table.give_up(last, at(0));
    for one in gone {
        table.end_elsewhere(one, true, at(0));
    }
    assert_eq!(table.binds(four(1).unwrap()), [21, 0, 0]);
    let (last, wait) = again(&table, in_line(&table, source, at(0)), at(0));
    assert_eq!(wait, Duration::from_millis(100));
    table.give_up(last, at(0));
}

#[test]
fn of_guesses_that_go_on_elsewhere_one_may_where_too_many_have_failed() {
    let table = ClientAddresses::new(LIMITS, Vec::new());
    let source = of(four(1));
    let hand_on = || table.hand_on(table.begin(source, at(0)), source, at(0));
    (0..3).for_each(|_| table.bind_failed(source, at(0)));
    let one = hand_on().unwrap().unwrap();
    let ticket = hand_on().unwrap_err().unwrap();
    table.end(ticket, false, at(0));
    // It may be the one that is too many.
    let waiting = in_line(&table, source, at(0));
    table.end(admitted(&table, waiting, at(100)), false, at(100));
    // One that comes back is one of those here.
    let ticket = table.come_back(one, at(100));
    assert_eq!(table.binds(four(1).unwrap()), [3, 1, 0]);
    table.end(ticket, true, at(100));
    assert_eq!(table.binds(four(1).unwrap()), [4, 0, 0]);
    // Where nothing is counted there is no limit.
    let table = ClientAddresses::new(AddressLimits { bind_failures_max: 0, ..LIMITS }, Vec::new());
    assert!((0..100).all(|_| table.hand_on(None, source, at(0)) == Ok(None)));
    // What is over leaves nothing.
    let table = ClientAddresses::new(LIMITS, Vec::new());
    let one = table.hand_on(None, source, at(0)).unwrap().unwrap();
    assert_eq!(table.suspects.load(Ordering::Relaxed), 1);
    table.end_elsewhere(one, false, at(0));
    assert_eq!(table.suspects.load(Ordering::Relaxed), 0);
    assert!(table.shards.iter().all(|shard| shard.lock().unwrap().is_empty()));
}

#[test]
fn what_is_over_leaves_nothing() {
    let table = ClientAddresses::new(LIMITS, Vec::new());
    let ticket = begun(&table, of(four(1))).unwrap();
    assert_eq!(table.suspects.load(Ordering::Relaxed), 1);
    table.end(ticket, false, at(0));
    assert_eq!(table.suspects.load(Ordering::Relaxed), 0);
    assert!(table.shards.iter().all(|shard| shard.lock().unwrap().is_empty()));
    let table = ClientAddresses::new(AddressLimits { bind_failures_max: 0, ..LIMITS }, Vec::new());
    assert!((0..100).all(|_| begun(&table, of(four(1))).is_none()));
}

#[test]
fn names_that_are_made_up_have_nobody_forgotten() {
    let table = ClientAddresses::new(LIMITS, Vec::new());
    let source = |name: u64| {
        let address = IpAddr::from([192, 0, 2, 9]);
        Some(Source { address, account: Some(name) })
    };
    (0..20).for_each(|_| table.bind_failed(source(u64::MAX), at(0)));
    // Each fails as often as may be without a wait.
    for name in 0..(SHARDS * SHARD_MAX * 2) as u64 {
        (0..4).for_each(|_| table.bind_failed(source(name), at(0)));
    }
    assert!(matches!(outcome(&table, source(u64::MAX), at(0)), Outcome::After(_)));
}

fn at(milliseconds: u64) -> Duration {
    Duration::from_secs(100_000) + Duration::from_millis(milliseconds)
}

#[test]
fn connections_are_counted_by_address() {
    let table = ClientAddresses::new(LIMITS, Vec::new());
    let first = table.connect(four(1)).unwrap();
    let _second = table.connect(four(1)).unwrap();
    assert_eq!(table.connect(four(1)).unwrap_err(), TooMany);
    table.connect(four(2)).unwrap();
    table.disconnect(first);
    table.connect(four(1)).unwrap();
    // A network of 64 bits counts as one, and so does an IPv4 address in its IPv6 form.
    let six = |text: &str| Some(text.parse::<IpAddr>().unwrap());
    let _a = table.connect(six("2001:db8::1")).unwrap();
    let _b = table.connect(six("2001:db8::2:3:4:5")).unwrap();
    assert_eq!(table.connect(six("2001:db8::3")).unwrap_err(), TooMany);
    table.connect(six("2001:db8:1::3")).unwrap();
    assert_eq!(table.connect(six("::ffff:192.0.2.1")).unwrap_err(), TooMany);
    // The Unix socket has no address, and 0 stands for any number.
    for _ in 0..10 {
        table.connect(None).unwrap();
    }
    let table = ClientAddresses::new(AddressLimits { connections_max: 0, ..LIMITS }, Vec::new());
    for _ in 0..10 {
        table.connect(four(1)).unwrap();
    }
}

#[test]
fn who_fails_waits_longer_each_time_and_nobody_else_does() {
    let table = ClientAddresses::new(LIMITS, Vec::new());
    for _ in 0..3 {
        assert_eq!(outcome(&table, of(four(1)), at(0)), Outcome::Now);
        table.bind_failed(of(four(1)), at(0));
    }
    assert_eq!(outcome(&table, of(four(1)), at(0)), Outcome::Now);
    let mut now = 0;
    for delay in [100, 200, 400, 800, 1_000, 1_000] {
        table.bind_failed(of(four(1)), at(now));
        let wait = Duration::from_millis(delay);
        assert_eq!(outcome(&table, of(four(1)), at(now)), Outcome::After(wait));
        now += delay;
    }
    assert_eq!(outcome(&table, of(four(2)), at(now)), Outcome::Now);
    assert_eq!(outcome(&table, None, at(now)), Outcome::Now);
}

#[test]
fn binds_at_the_same_time_wait_one_after_the_other_and_not_without_end() {
    let table = ClientAddresses::new(LIMITS, Vec::new());
    for _ in 0..10 {
        table.bind_failed(of(four(1)), at(0));
    }
    let source = of(four(1));
    let line: Vec<_> = (0..4).map(|_| in_line(&table, source, at(0))).collect();
    assert_eq!(outcome(&table, source, at(0)), Outcome::Never);
    for (position, second) in line.into_iter().zip(1..) {
        let (position, wait) = again(&table, position, at(second * 1_000 - 1));
        assert_eq!(wait, Duration::from_millis(1));
        table.end(admitted(&table, position, at(second * 1_000)), false, at(second * 1_000));
    }
}

#[test]
fn failures_are_forgotten() {
    let table = ClientAddresses::new(LIMITS, Vec::new());
    for _ in 0..8 {
        table.bind_failed(of(four(1)), at(0));
    }
    assert_eq!(table.suspects.load(Ordering::Relaxed), 1);
    // After a minute there are four, after two there are two.
    assert!(matches!(outcome(&table, of(four(1)), at(61_000)), Outcome::Now));
    assert!(matches!(outcome(&table, of(four(1)), at(61_000)), Outcome::After(_)));
    assert_eq!(outcome(&table, of(four(1)), at(130_000)), Outcome::Now);
    assert_eq!(outcome(&table, of(four(1)), at(130_000)), Outcome::Now);
    assert_eq!(outcome(&table, of(four(1)), at(1_000_000)), Outcome::Now);
    assert_eq!(table.suspects.load(Ordering::Relaxed), 0);
    assert!(table.shards.iter().all(|shard| shard.lock().unwrap().is_empty()));
    // One that is forgotten and fails again, before anybody has looked, is one.
    table.bind_failed(of(four(1)), at(2_000_000));
    table.bind_failed(of(four(1)), at(3_000_000));
    assert_eq!(table.suspects.load(Ordering::Relaxed), 1);
}

#[test]
fn the_table_is_bounded_however_many_addresses_fail() {
    let table = ClientAddresses::new(LIMITS, Vec::new());
    for _ in 0..20 {
        table.bind_failed(of(four(1)), at(0));
    }
    for number in 0..300_000_u32 {
        table.bind_failed(of(Some(IpAddr::from(number.to_be_bytes()))), at(0));
    }
    let kept = table.shards.iter().map(|shard| shard.lock().unwrap().len()).sum::<usize>();
    assert!(kept <= SHARDS * SHARD_MAX, "{kept}");
    assert_eq!(table.suspects.load(Ordering::Relaxed), kept);
    // Those that failed most are still known.
    assert!(matches!(outcome(&table, of(four(1)), at(0)), Outcome::After(_)));
}
