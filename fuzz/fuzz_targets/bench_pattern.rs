//! Any text in the place of a DN, a filter, a value or a generator of `roster bench` is refused, or
//! values can be drawn from it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    roster::bench::draw_pattern(text);
});
