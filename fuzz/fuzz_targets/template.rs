//! Any template is refused or yields entries that do not depend on the order they are made in.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use roster::template::{ParseOptions, ShippedWords, Template};

fuzz_target!(|text: &str| {
    let Ok(template) = Template::parse("t", text, &ShippedWords, &ParseOptions::default()) else {
        return;
    };
    let template = Arc::new(template);
    let count = template.entries();
    let numbers = [0, 1, 2, 3, count / 2, count - 1];
    // Enough to reach every tag, and little enough for many runs.
    let generator = || template.generator(1).with_repeated_max_bytes(1 << 16);
    let make = |number: u64| {
        let mut out = Vec::new();
        let entry = generator().generate(number).map(|entry| entry.write_ldif(&mut out));
        entry.map(|()| out)
    };
    let alone = numbers.map(|number| (number < count).then(|| make(number)));
    let mut generator = generator();
    for (number, alone) in numbers.into_iter().zip(alone) {
        let mut out = Vec::new();
        let entry = generator.generate(number).map(|entry| entry.write_ldif(&mut out));
        match alone {
            None => assert!(entry.is_err()),
            Some(alone) => assert_eq!(entry.map(|()| out), alone),
        }
    }
});
