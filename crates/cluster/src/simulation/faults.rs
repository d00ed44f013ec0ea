//! What goes wrong, by chance.

use std::time::Duration;

use history::log::{CommitLog as _, MemberChange, Role};
use tokio::time::sleep;

use super::world::World;

/// Lets one thing go wrong, or get well again.
pub(super) async fn one(world: &mut World) {
    let nodes = world.kind.nodes;
    let any = 1 + world.dice.below(nodes);
    let leader = leader(world).unwrap_or(any);
    match world.dice.below(16) {
        0 | 1 => restart(world, &[leader], Duration::from_millis(50)).await,
        2 => restart(world, &[leader], Duration::from_secs(3)).await,
        3 => restart(world, &[any], Duration::from_secs(2)).await,
        4 => restart(world, &(1..=nodes).collect::<Vec<_>>(), Duration::from_millis(500)).await,
        5 => isolate(world, leader, true, true),
        6 => isolate(world, leader, true, false),
        7 => isolate(world, any, false, true),
        8 => {
            // Two that do not see each other; the others see both.
            let other = 1 + world.dice.below(nodes);
            world.network.cut(leader, other);
            world.network.cut(other, leader);
        }
        9 => halves(world),
        10 => {
            let delay = world.dice.duration(Duration::from_millis(5), Duration::from_millis(200));
            let lost = world.dice.below(30);
            world.network.worsen(delay, lost);
        }
        11 => {
            let who = if world.dice.percent(50) { leader } else { any };
            world.members[&who].disk.stall(true);
            let pause = world.dice.duration(Duration::from_millis(100), Duration::from_secs(4));
            sleep(pause).await;
            world.members[&who].disk.stall(false);
        }
        12 => world.members[&any].disk.fail_next_sync(),
        13 => {
            if let Some(log) = world.members[&leader].log() {
                let change = MemberChange::Transfer { id: any };
                log.members().change(change, Box::new(|_| ()));
            }
        }
        14 => flush(world),
        _ => {
            world.network.heal();
            world.revive().await;
        }
    }
}

fn leader(world: &World) -> Option<u64> {
    let leads = |id: &u64| {
        let log = world.members[id].log();
        log.is_some_and(|log| matches!(log.role(), Role::Deciding(_)))
    };
    world.members.keys().copied().find(leads)
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

fn halves(world: &World) {
    let border = 1 + world.dice.below(world.kind.nodes);
    for from in world.members.keys() {
        for to in world.members.keys().filter(|to| (**to <= border) != (*from <= border)) {
            world.network.cut(*from, *to);
        }
    }
}

/// Makes what some nodes have applied durable without the log.
fn flush(world: &World) {
    for member in world.members.values() {
        if world.dice.percent(60)
            && let Some(log) = member.log()
        {
            log.forget(member.ledger().flush());
        }
    }
}
