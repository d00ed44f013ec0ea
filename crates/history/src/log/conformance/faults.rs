//! Cases by chance: batches without waiting, failures at any moment, power cuts, restarts.

use std::sync::mpsc;

use environment::{Chance, SeededChance};
use store::Lsn;

use super::super::{CommitError, Durability};
use super::script::Script;
use super::{MakeBench, PATIENCE};

/// Lets the engine run into failures that follow from `seed`; after each restart every
/// acknowledged record must be there, none twice, none that was refused, and without holes.
pub fn check_faults(make: MakeBench<'_>, seed: u64) {
    let mut bench = make();
    let mut dice = Dice(SeededChance(seed));
    let mut script = Script::start(&mut *bench);
    for _ in 0..ROUNDS {
        let fault = dice.upto(4);
        let can_break = fault == 0 && bench.break_medium(dice.upto(40));
        let can_fill = fault == 1 && bench.fill_medium(true);
        let kept = run(&mut script, &mut dice);
        if can_fill {
            bench.fill_medium(false);
        }
        let is_cut = dice.upto(2) == 0;
        if is_cut {
            let seed = dice.upto(u64::MAX);
            script.cut(&mut *bench, seed);
        } else {
            script.stop();
        }
        if can_break {
            bench.mend_medium();
        }
        script.restart(&mut *bench);
        // A sync that fails may lose what was only written.
        script.adopt_ledger(if is_cut || can_break { kept.synced } else { kept.written });
    }
    script.commit(1);
    script.check_ledger();
}

/// What must survive.
struct Kept {
    /// A power cut.
    synced: Lsn,
    /// The end of the process.
    written: Lsn,
}

/// Commits until enough is done or the log fails.
fn run(script: &mut Script, dice: &mut Dice) -> Kept {
    let start = script.last();
    let mut kept = Kept { synced: start, written: start };
    for _ in 0..dice.upto(30) {
        let before = script.last();
        let durability = if dice.upto(4) == 0 { Durability::Written } else { Durability::Synced };
        let size = dice.upto(6) as usize + 1;
        let batch =
            if dice.upto(8) == 0 { script.large_batch() } else { script.batch(size, durability) };
        let durability = batch.durability;
        let (told, heard) = mpsc::channel();
        let done = move |outcome| told.send(outcome).expect("the script listens");
        script.log().commit(script.reign, batch, Box::new(done));
        match heard.recv_timeout(PATIENCE).expect("every batch is done") {
            Ok(last) => {
                assert_eq!(last, script.last());
                assert_eq!(script.ledger.last(), last, "what is answered is visible");
                kept.written = last;
                if durability == Durability::Synced {
                    kept.synced = last;
                }
            }
            Err(CommitError::NoSpace | CommitError::Busy) => script.forget_after(before),
            // It may show after the restart, and it may not.
            Err(CommitError::Unknown { .. }) => break,
            Err(error) => panic!("no reason to refuse a good batch so: {error}"),
        }
    }
    kept
}

/// Numbers that follow from a seed.
struct Dice(SeededChance);

impl Dice {
    /// A number below `limit`.
    fn upto(&mut self, limit: u64) -> u64 {
        let mut octets = [0; 8];
        self.0.fill(&mut octets);
        u64::from_le_bytes(octets) % limit
    }
}

const ROUNDS: u64 = 12;
