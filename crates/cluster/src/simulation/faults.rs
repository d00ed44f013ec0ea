//! What goes wrong, by chance.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use history::log::{CommitLog as _, MemberChange, MemberState, MembersChanged, MembersError, Role};
use openraft::rt::AsyncRuntime as _;
use tokio::time::sleep;

use super::world::World;
use crate::types::Runtime;

/// How many kinds there are.
const KINDS: u64 = 27;

/// Lets one thing go wrong, or get well again.
pub(super) async fn one(world: &mut World) {
    let any = any(world);
    let leader = leader(world).unwrap_or(any);
    if world.kind.changes && world.dice.percent(60) {
        return change(world, leader);
    }
    let kind = world.dice.below(KINDS);
    world.seen.note(&format!("fault {kind}, leader {leader}, any {any}"));
    match kind {
        0..6 => restarts(world, kind, leader, any).await,
        6..15 => network(world, kind, leader, any),
        15..19 => disk(world, kind, if world.dice.percent(50) { leader } else { any }),
        19 => {
            if let Some(log) = world.members[&leader].log() {
                let change = MemberChange::Transfer { id: any };
                log.members().change(change, Box::new(drop));
            }
        }
        20 => step_clock(world, any),
        21 | 22 => stall_and_restart(world, leader, any).await,
        23 => lose_unheard(world, leader, any).await,
        _ => {
            world.network.heal();
            world.revive().await;
        }
    }
}

/// Any node.
fn any(world: &World) -> u64 {
    let at = world.dice.below(world.members.len() as u64) as usize;
    *world.members.keys().nth(at).unwrap()
}

/// The one after it, and after the last the first.
fn next(world: &World, id: u64) -> u64 {
    let mut behind = world.members.range(id + 1..).chain(world.members.iter());
    *behind.next().unwrap().0
}

/// Asks for a change of the members; what comes of it shows later.
fn change(world: &World, leader: u64) {
    let Some((members, _)) = world.listed() else { return };
    let of = |state: MemberState| -> Vec<u64> {
        members.iter().filter(|member| member.state == state).map(|member| member.id).collect()
    };
    let (voters, learners) = (of(MemberState::Voter), of(MemberState::Learner));
    let one = |of: &[u64]| of.get(world.dice.below(of.len() as u64) as usize).copied();
    let two = |of: &[u64]| -> BTreeSet<u64> { of.iter().take(2).copied().collect() };
    let (voter, learner) = (one(&voters), one(&learners));
    let change = match (world.dice.below(8), voter, learner) {
        (0..3, Some(old), Some(new)) => MemberChange::Replace { old, new },
        (3, ..) => MemberChange::Promote { ids: two(&learners) },
        (4, ..) => MemberChange::Demote { ids: two(&voters) },
        (5, _, Some(id)) => MemberChange::Remove { ids: [id].into() },
        (6, Some(id), _) => MemberChange::Transfer { id },
        _ if learners.len() < 3 => {
            let address = format!("joined{}", world.dice.below(u64::MAX));
            MemberChange::Join { address, url: String::new(), key: String::new(), replaces: None }
        }
        _ => MemberChange::Promote { ids: two(&learners) },
    };
    world.seen.note(&format!("{change:?} of {leader}"));
    let Some(log) = world.members[&leader].log() else { return };
    let (seen, changes) = (Arc::clone(&world.seen), Arc::clone(&world.changes));
    let done = move |outcome: Result<MembersChanged, MembersError>| {
        seen.note(&format!("{outcome:?}"));
        if matches!(outcome, Ok(MembersChanged::Done | MembersChanged::Joined(_))) {
            changes.fetch_add(1, Ordering::Relaxed);
        }
    };
    log.members().change(change, Box::new(done));
}

fn leader(world: &World) -> Option<u64> {
    let leads = |id: &u64| {
        let log = world.members[id].log();
        log.is_some_and(|log| matches!(log.role(), Role::Deciding(_)))
    };
    world.members.keys().copied().find(leads)
}

async fn restarts(world: &mut World, kind: u64, leader: u64, any: u64) {
    let all: Vec<_> = world.members.keys().copied().collect();
    match kind {
        0 | 1 => restart(world, &[leader], Duration::from_millis(50)).await,
        2 => restart(world, &[leader], Duration::from_secs(3)).await,
        3 => restart(world, &[any], Duration::from_secs(2)).await,
        4 => restart(world, &[leader, any], Duration::from_millis(200)).await,
        _ => restart(world, &all, Duration::from_millis(500)).await,
    }
}

/// Crashes nodes and starts them after a while of `most` at the most.
async fn restart(world: &mut World, ids: &[u64], most: Duration) {
    ids.iter().for_each(|id| world.crash(*id));
    let pause = world.dice.duration(Duration::ZERO, most);
    sleep(pause).await;
    for id in ids {
        world.start(*id).await;
    }
}

fn network(world: &World, kind: u64, leader: u64, any: u64) {
    match kind {
        6 => isolate(world, leader, true, true),
        7 => isolate(world, leader, true, false),
        8 => isolate(world, any, false, true),
        9 => cut_both(world, leader, any),
        10 => halves(world, None),
        // Two halves, and one that sees both.
        11 => halves(world, Some(any)),
        12 => {
            // The leader reaches one other alone, and that one all of them.
            isolate(world, leader, true, true);
            let other = next(world, leader);
            world.network.mend(leader, other);
            world.network.mend(other, leader);
        }
        13 => flap(world, leader, any),
        _ => {
            let delay = world.dice.duration(Duration::from_millis(5), Duration::from_millis(200));
            let lost = world.dice.below(30);
            world.network.worsen(delay, lost);
        }
    }
}

/// Cuts a node off: what it sends, what it is sent, or both.
fn isolate(world: &World, id: u64, outgoing: bool, incoming: bool) {
    for other in world.members.keys().filter(|other| **other != id) {
        if outgoing {
            world.network.cut(id, *other);
        }
        if incoming {
            world.network.cut(*other, id);
        }
    }
}

fn cut_both(world: &World, one: u64, other: u64) {
    world.network.cut(one, other);
    world.network.cut(other, one);
}

/// Cuts all between two halves, but what `bridge` sends and is sent.
fn halves(world: &World, bridge: Option<u64>) {
    let border = any(world);
    let parted = |id: &u64| Some(*id) != bridge;
    for from in world.members.keys().copied().filter(parted) {
        let across = |to: &u64| (*to <= border) != (from <= border);
        for to in world.members.keys().copied().filter(across).filter(parted) {
            world.network.cut(from, to);
        }
    }
}

/// A connection that comes and goes for two seconds.
fn flap(world: &World, one: u64, other: u64) {
    let network = world.network.clone();
    let pause = world.dice.duration(Duration::from_millis(20), Duration::from_millis(400));
    Runtime::spawn(async move {
        for _ in 0..Duration::from_secs(1).as_millis() / pause.as_millis() {
            network.cut(one, other);
            network.cut(other, one);
            sleep(pause).await;
            network.mend(one, other);
            network.mend(other, one);
            sleep(pause).await;
        }
    });
}

fn disk(world: &World, kind: u64, id: u64) {
    let disk = world.members[&id].disk.clone();
    let stall = world.dice.duration(Duration::from_millis(100), Duration::from_secs(15));
    let full = world.dice.duration(Duration::from_millis(50), Duration::from_secs(8));
    match kind {
        15 | 16 => {
            disk.stall(true);
            Runtime::spawn(async move {
                sleep(stall).await;
                disk.stall(false);
            });
        }
        17 => disk.fail_next_sync(),
        _ => {
            disk.fill(true);
            Runtime::spawn(async move {
                sleep(full).await;
                disk.fill(false);
            });
        }
    }
}

/// A disk stands still while the others go on; then the power of its node fails, and that of the
/// leader.
async fn stall_and_restart(world: &mut World, leader: u64, any: u64) {
    world.members[&any].disk.stall(true);
    let pause = world.dice.duration(Duration::from_millis(50), Duration::from_secs(1));
    sleep(pause).await;
    restart(world, &[leader, any], Duration::from_millis(100)).await;
}

/// A follower applies what its own disk has not yet, and what the others have not heard to be
/// committed. Then its power fails, and that of the leader; another one leads first.
async fn lose_unheard(world: &mut World, leader: u64, any: u64) {
    let follower = if any == leader { next(world, leader) } else { any };
    world.members[&follower].disk.stall(true);
    let pause = world.dice.duration(Duration::ZERO, Duration::from_millis(20));
    sleep(pause).await;
    for other in world.members.keys().filter(|other| ![leader, follower].contains(*other)) {
        world.network.cut(leader, *other);
    }
    // A heartbeat tells the follower.
    let pause = world.dice.duration(Duration::from_millis(50), Duration::from_millis(250));
    sleep(pause).await;
    world.crash(leader);
    restart(world, &[follower], Duration::from_millis(50)).await;
    let pause = world.dice.duration(Duration::from_secs(1), Duration::from_secs(3));
    sleep(pause).await;
    world.network.heal();
    world.start(leader).await;
}

/// The time of day of a node is another by up to an hour.
fn step_clock(world: &World, id: u64) {
    let span = Duration::from_secs(2 * 3600);
    let ahead = world.dice.duration(Duration::ZERO, span);
    let member = Arc::clone(&world.members[&id]);
    *member.ahead.lock().unwrap() = ahead;
}
