//! Rows of posting lists: what is put in comes out, in the smallest form, and damage is told.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

fn width() -> impl Strategy<Value = Width> {
    (13_u8..=16).prop_map(|bits| Width::of_bits(bits).unwrap())
}

fn places_of(width: Width) -> impl Strategy<Value = BTreeSet<u16>> {
    let last = width.last_place();
    let place = 0..=last;
    let run = (0..=last, 1_u32..9000).prop_map(move |(first, length)| {
        (u32::from(first)..(u32::from(first) + length).min(u32::from(last) + 1)).map(|p| p as u16)
    });
    prop_oneof![
        prop::collection::btree_set(place.clone(), 1..40),
        prop::collection::btree_set(place.clone(), 400..600),
        prop::collection::btree_set(place.clone(), 1000..5000),
        prop::collection::vec(run, 1..12).prop_map(|runs| runs.into_iter().flatten().collect()),
        Just((0..=last).collect()),
        place.prop_map(move |gone| (0..=last).filter(|place| *place != gone).collect()),
    ]
}

fn listed(chunk: Chunk<'_>) -> BTreeSet<u16> {
    let mut places = Vec::new();
    chunk.for_each(|place| places.push(place));
    assert!(places.is_sorted_by(|one, next| one < next));
    let mut by_runs = Vec::new();
    chunk.for_each_run(|run| by_runs.extend(run.first..=run.last));
    assert_eq!(places, by_runs);
    assert_eq!(chunk.count(), places.len());
    places.into_iter().collect()
}

/// The row of a chunk, made from nothing.
fn row_of(width: Width, places: &BTreeSet<u16>) -> Option<Vec<u8>> {
    let mut row = Vec::new();
    let changes = places.iter().map(|&place| (place, true));
    match Runs::default().change(width, None, changes, &mut row) {
        Changed::Places { added, removed, is_empty } => {
            assert_eq!((added, removed, is_empty), (places.len() as u64, 0, false));
            assert!(row.len() <= CHUNK_LENGTH_MAX_BYTES);
            Some(row)
        }
        Changed::TooLong => {
            assert!(width > Width::NARROWEST && row.is_empty() && places.len() >= 512);
            None
        }
        Changed::Nothing => panic!("{places:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn chunks_hold_what_was_put_in_and_changed(
        (width, before, changed) in width().prop_flat_map(|width| {
            let changes = prop::collection::btree_map(0..=width.last_place(), any::<bool>(), 0..90);
            (Just(width), places_of(width), changes)
        }),
        few in prop::collection::btree_set(0_u16..8192, 0..4),
    ) {
        let Some(row) = row_of(width, &before) else { return Ok(()) };
        let chunk = Chunk::read(&row).unwrap();
        prop_assert!(chunk.is_well_formed(width));
        prop_assert_eq!(listed(chunk), before.clone());
        let some = (0..=width.last_place()).step_by(61);
        for place in some.chain(before.iter().copied().take(600)) {
            prop_assert_eq!(chunk.contains(place), before.contains(&place));
        }
        let asked: BTreeSet<u64> = changed.keys().map(|&place| width.id_at(7, place)).collect();
        let asked: Vec<u64> = asked.into_iter().collect();
        // What one list marks, the next one must not find.
        let mut marks = Marks::default();
        let of_other = if few.is_empty() { &before } else { &few };
        let other = row_of(width, of_other).unwrap();
        for (row, places) in [(&row, &before), (&other, of_other)] {
            for is_in in [true, false] {
                let mut kept = Vec::new();
                let chunk = Chunk::read(row).unwrap();
                chunk.retain(width, &asked, is_in, &mut marks, &mut kept);
                let is_kept = |id: &&u64| places.contains(&width.place_of(**id)) == is_in;
                let want: Vec<u64> = asked.iter().filter(is_kept).copied().collect();
                prop_assert_eq!(kept, want);
            }
        }
        let all: BTreeMap<u16, bool> = if few.is_empty() {
            before.iter().map(|place| (*place, false)).collect()
        } else {
            changed
        };
        let mut after = before.clone();
        let (mut come, mut go) = (0, 0);
        for (&place, &is_taken) in &all {
            if is_taken {
                come += u64::from(after.insert(place));
            } else {
                go += u64::from(after.remove(&place));
            }
        }
        let mut row = vec![9];
        let changes = all.iter().map(|(&place, &is_taken)| (place, is_taken));
        match Runs::default().change(width, Some(chunk), changes, &mut row) {
            Changed::Nothing => prop_assert_eq!(come + go, 0),
            Changed::TooLong => prop_assert_eq!(row_of(width, &after), None),
            Changed::Places { added, removed, is_empty } => {
                prop_assert_eq!((added, removed), (come, go));
                prop_assert_eq!(is_empty, after.is_empty());
                if !is_empty {
                    // A place has one row, however it came about.
                    prop_assert_eq!(Some(row[1..].to_vec()), row_of(width, &after));
                }
            }
        }
    }

    #[test]
    fn lists_are_written_as_wide_as_they_fit(
        ids in prop_oneof![
            prop::collection::btree_set(1_u64..3_000_000, 1..3000),
            prop::collection::btree_set(1_u64..200_000, 1000..9000),
            (1_u64..1 << 40, 1_u64..300_000).prop_map(|(from, n)| (from..from + n).collect()),
        ],
    ) {
        let ids: Vec<u64> = ids.into_iter().collect();
        let mut read = Vec::new();
        let mut widths = BTreeSet::new();
        let width = write_chunks(&ids, |width, number, row| {
            widths.insert(width);
            assert!(row.len() <= CHUNK_LENGTH_MAX_BYTES);
            let chunk = Chunk::read(row).unwrap();
            assert!(chunk.is_well_formed(width));
            chunk.for_each(|place| read.push(width.id_at(number, place)));
            Ok::<_, ()>(())
        });
        prop_assert_eq!(&read, &ids);
        let width = width.unwrap();
        prop_assert_eq!(widths.into_iter().collect::<Vec<_>>(), vec![width]);
        if let Some(wider) = Width::of_bits(width.bits() as u8 + 1) {
            let mut chunks =
                ids.chunk_by(|one, next| wider.chunk_of(*one) == wider.chunk_of(*next));
            let is_too_long = chunks.any(|ids| {
                let places = ids.iter().map(|id| wider.place_of(*id)).collect();
                row_of(wider, &places).is_none()
            });
            prop_assert!(is_too_long);
        }
    }

    #[test]
    fn heads_hold_what_was_put_in(ids in prop::collection::btree_set(1_u64.., 1..=64)) {
        let ids: Vec<u64> = ids.into_iter().collect();
        let mut row = Vec::new();
        Head::write_inline(&ids, &mut row);
        let head = Head::read(&row).unwrap();
        prop_assert!(head.is_well_formed());
        prop_assert_eq!(head.count(), ids.len() as u64);
        let Head::Inline(read) = head else { panic!("{head:?}") };
        prop_assert_eq!(read.collect::<Vec<_>>(), ids);
    }

    #[test]
    fn heads_of_chunks_hold_count_and_width(count in 33_u64.., width in width()) {
        let mut row = Vec::new();
        Head::write_chunked(count, width, &mut row);
        let head = Head::read(&row).unwrap();
        prop_assert_eq!(head, Head::Chunked(count, width));
        prop_assert!(head.is_well_formed());
    }

    #[test]
    fn ids_come_apart_and_together(id: u64, width in width()) {
        prop_assert_eq!(width.id_at(width.chunk_of(id), width.place_of(id)), id);
        prop_assert!(width.place_of(id) <= width.last_place());
    }

    #[test]
    fn damage_never_panics(
        form in 0_u8..4,
        rest in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..64),
            prop::collection::vec(any::<u8>(), BITMAP_BYTES),
        ],
        width in width(),
        place: u16,
    ) {
        let row = [&[form][..], &rest].concat();
        let place = place & width.last_place();
        if let Some(head) = Head::read(&row) {
            let ids = if let Head::Inline(ids) = head { ids.count() as u64 } else { 0 };
            prop_assert!(!head.is_well_formed() || ids == 0 || ids == head.count());
        }
        if let Some(chunk) = Chunk::read(&row) {
            let mut gatherer = crate::index::ids::IdGatherer::with_capacity(u64::from(place));
            gatherer.push_chunk(width, 3, chunk);
            let found = gatherer.finish();
            if chunk.is_well_formed(width) {
                prop_assert_eq!(chunk.count() as u64, found.len());
                prop_assert_eq!(chunk.contains(place), listed(chunk).contains(&place));
            }
            let mut kept = Vec::new();
            chunk.retain(width, &[width.id_at(3, place)], true, &mut Marks::default(), &mut kept);
            prop_assert!(kept.len() <= 1);
        }
    }

    #[test]
    fn runs_are_set_as_bits(first in 0_u16..500, length in 0_u16..300) {
        let run = Run { first, last: first + length };
        let mut words = [0_u64; 13];
        set_run(&mut words, run);
        for place in 0..13 * 64 {
            let is_set = words[usize::from(place) / 64] & (1 << (place % 64)) != 0;
            prop_assert_eq!(is_set, run.first <= place && place <= run.last);
        }
    }
}

#[test]
fn a_full_chunk_takes_five_bytes() {
    for (bits, last) in [(13, [0xff, 0x1f]), (16, [0xff, 0xff])] {
        let width = Width::of_bits(bits).unwrap();
        let row = row_of(width, &(0..=width.last_place()).collect()).unwrap();
        assert_eq!(row, [CHUNK_RUNS, 0, 0, last[0], last[1]]);
    }
}

#[test]
fn damaged_rows_are_refused() {
    for row in [&[][..], &[0], &[1], &[1, 13], &[1, 13, 0], &[1, 12, 40], &[1, 17, 40], &[2, 1]] {
        assert_eq!(Head::read(row), None, "{row:?}");
    }
    assert_eq!(Head::read(&[1, 13, 40, 0]), None);
    for row in [&[0, 5, 0][..], &[0, 0x80], &[1, 13, 5]] {
        assert!(Head::read(row).is_none_or(|head| !head.is_well_formed()), "{row:?}");
    }
    for row in [&[][..], &[0], &[0, 1], &[1, 0], &[2, 1, 2], &[3]] {
        assert_eq!(Chunk::read(row), None, "{row:?}");
    }
    let mut bitmap = vec![0xff; CHUNK_LENGTH_MAX_BYTES];
    bitmap[0] = CHUNK_BITMAP;
    let (narrow, wide) = (Width::NARROWEST, Width::WIDEST);
    for (row, width) in [
        (&[0, 5, 0, 4, 0][..], wide),
        (&[0, 4, 0, 4, 0], wide),
        (&[0, 0, 0x20], narrow),
        (&[2, 4, 0, 3, 0], wide),
        (&[2, 4, 0, 9, 0, 9, 0, 12, 0], wide),
        (&[2, 4, 0, 0, 0x20], narrow),
        (&bitmap, Width::of_bits(14).unwrap()),
    ] {
        assert!(!Chunk::read(row).unwrap().is_well_formed(width), "{row:?}");
    }
}
