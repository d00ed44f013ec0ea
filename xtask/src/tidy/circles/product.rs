//! Which items are of the product, and which stand there for tests alone.

use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Item, Lit, Meta, MetaNameValue, Token};

/// Whether `#[test]` or a `#[cfg]` keeps what has these attributes out of the product.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        let is_off =
            || attribute.parse_args::<Meta>().is_ok_and(|meta| holds(&meta) == Some(false));
        path.is_ident("test") || (path.is_ident("cfg") && is_off())
    })
}

/// Whether a predicate of `cfg` holds in the product; None where that depends.
fn holds(predicate: &Meta) -> Option<bool> {
    let list = match predicate {
        Meta::List(list) => list,
        Meta::Path(path) if path.is_ident("test") => return Some(false),
        Meta::NameValue(pair) if is_test_support(pair) => return Some(false),
        Meta::Path(_) | Meta::NameValue(_) => return None,
    };
    let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
    let parts: Vec<Option<bool>> = parts.iter().map(holds).collect();
    let all_are = |value| parts.iter().all(|part| *part == Some(value));
    let one_is = |value| parts.contains(&Some(value));
    if list.path.is_ident("not") {
        return parts.first().copied().flatten().map(|value| !value);
    }
    // What decides alone, and what is so when each part is.
    let decides = list.path.is_ident("any");
    match (one_is(decides), all_are(!decides)) {
        (true, _) => Some(decides),
        (false, true) => Some(!decides),
        (false, false) => None,
    }
}

/// Whether it is the feature that only tests of other crates ask for.
fn is_test_support(pair: &MetaNameValue) -> bool {
    let is_text = |text: &Lit| matches!(text, Lit::Str(text) if text.value() == "test-support");
    matches!(&pair.value, Expr::Lit(value) if pair.path.is_ident("feature") && is_text(&value.lit))
}

pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(attribute: &str, want: bool) {
        let item: Item = syn::parse_str(&format!("{attribute} fn a() {{}}")).unwrap();
        assert_eq!(is_test(attributes(&item)), want, "{attribute}");
    }

    #[test]
    fn what_only_a_test_builds_is_no_product() {
        check("#[test]", true);
        check("#[cfg(test)]", true);
        check("#[cfg(all(unix, test))]", true);
        check("#[cfg(any(test))]", true);
        check("#[cfg(any(test, feature = \"a\"))]", false);
        check("#[cfg(any(test, feature = \"test-support\"))]", true);
        check("#[cfg(not(test))]", false);
        check("#[cfg(not(not(test)))]", true);
        check("#[cfg(unix)]", false);
        check("#[inline]", false);
    }
}
