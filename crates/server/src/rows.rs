//! Tables that are written in parts, each beside what it is about.

/// Several tables as one; `N` is how many rows they have together.
#[allow(clippy::indexing_slicing, reason = "the compiler does it, and would stop")]
pub(crate) const fn join<Row: Copy, const N: usize>(tables: &[&[Row]]) -> [Row; N] {
    let mut joined = [tables[0][0]; N];
    let (mut table, mut row, mut to) = (0, 0, 0);
    while table < tables.len() {
        if row < tables[table].len() {
            joined[to] = tables[table][row];
            (row, to) = (row + 1, to + 1);
        } else {
            (table, row) = (table + 1, 0);
        }
    }
    assert!(to == N);
    joined
}
