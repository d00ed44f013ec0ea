//! What a schema is and what it refuses to become.

use super::*;

#[test]
fn the_files_of_the_tree_load() {
    let schema = Schema::load(&builtin_files()).unwrap_or_else(|error| panic!("{error}"));
    assert!(schema.attribute_types().count() > 200);
    assert!(schema.object_classes().count() > 70);
}
