//! Whole sessions: whatever three clients ask for, in any order and with anything failing, each
//! request is answered once by a well-formed message, and nobody is shown what is not theirs.
#![no_main]

#[path = "../../crates/directory/tests/support/fuzzed/mod.rs"]
mod fuzzed;

use std::cell::RefCell;

use fuzzed::World;
use libfuzzer_sys::fuzz_target;

thread_local! {
    // To open a directory takes much longer than to ask it something.
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

fuzz_target!(|octets: &[u8]| {
    WORLD.with_borrow_mut(|kept| {
        if kept.as_ref().is_some_and(World::is_old) {
            *kept = None;
        }
        kept.get_or_insert_with(World::new).run(octets);
    });
});
