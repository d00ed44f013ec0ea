//! Random messages, as the types allow them.

use std::borrow::Cow;

use ldap::filter::{AvaFilter, ExtensibleFilter, Filter, SubstringFilter};
use ldap::message::*;
use ldap::result::ResultCode;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::list;

/// What the octets of values are: anything, or text for peers that know no other values.
#[derive(Clone, Copy)]
pub(crate) enum Octets {
    Any,
    Text,
}

type Request_ = Message<'static, Request<'static>>;
type Response_ = Message<'static, Response<'static>>;

pub(crate) fn request(octets: Octets) -> impl Strategy<Value = Request_> {
    (1..=i32::MAX, request_op(octets), controls()).prop_map(|(id, op, controls)| Message {
        id: MessageId(id),
        op,
        controls,
    })
}

pub(crate) fn response() -> impl Strategy<Value = Response_> {
    (0..=i32::MAX, response_op(), controls()).prop_map(|(id, op, controls)| Message {
        id: MessageId(id),
        op,
        controls,
    })
}

fn request_op(octets: Octets) -> impl Strategy<Value = Request<'static>> {
    prop_oneof![
        bind(octets).prop_map(Request::Bind),
        Just(Request::Unbind),
        search(octets).prop_map(Request::Search),
        modify().prop_map(Request::Modify),
        add().prop_map(Request::Add),
        text().prop_map(|name| Request::Delete(DeleteRequest { name })),
        (text(), text(), any::<bool>(), option::of(text())).prop_map(
            |(name, new_rdn, delete_old_rdn, new_superior)| {
                Request::ModifyDn(ModifyDnRequest { name, new_rdn, delete_old_rdn, new_superior })
            }
        ),
        (text(), text(), bytes()).prop_map(|(name, description, value)| {
            Request::Compare(CompareRequest { name, description, value })
        }),
        (0..=i32::MAX).prop_map(|id| Request::Abandon(MessageId(id))),
        (oid(), option::of(bytes()))
            .prop_map(|(oid, value)| Request::Extended(ExtendedRequest { oid, value })),
    ]
}

fn response_op() -> impl Strategy<Value = Response<'static>> {
    prop_oneof![
        (result(), option::of(bytes())).prop_map(|(result, server_sasl_credentials)| {
            Response::Bind { result, server_sasl_credentials }
        }),
        (text(), vec(attribute(0), 0..6))
            .prop_map(|(dn, items)| Response::SearchEntry { dn, attributes: list(items) }),
        vec(text(), 1..4).prop_map(|uris| Response::SearchReference(list(uris))),
        result().prop_map(Response::SearchDone),
        result().prop_map(Response::Modify),
        result().prop_map(Response::Add),
        result().prop_map(Response::Delete),
        result().prop_map(Response::ModifyDn),
        result().prop_map(Response::Compare),
        (result(), option::of(oid()), option::of(bytes()))
            .prop_map(|(result, oid, value)| Response::Extended { result, oid, value }),
        (option::of(oid()), option::of(bytes()))
            .prop_map(|(oid, value)| Response::Intermediate { oid, value }),
    ]
}

fn bind(octets: Octets) -> impl Strategy<Value = BindRequest<'static>> {
    let authentication = prop_oneof![
        value(octets).prop_map(Authentication::Simple),
        (text(), option::of(bytes()))
            .prop_map(|(mechanism, credentials)| Authentication::Sasl { mechanism, credentials }),
        prop_oneof![1..=2_u8, 4..=30_u8].prop_map(Authentication::Other),
    ];
    (1..=127, text(), authentication).prop_map(|(version, name, authentication)| BindRequest {
        version,
        name,
        authentication,
    })
}

fn search(octets: Octets) -> impl Strategy<Value = SearchRequest<'static>> {
    let code = 0..4_u32;
    let limit = 0..=i32::MAX as u32;
    let choices = (code.clone(), code, any::<bool>());
    (text(), choices, limit.clone(), limit, filter(octets), vec(text(), 0..4)).prop_map(
        |(base, (scope, deref, types_only), size_limit_entries, time_limit_s, filter, wanted)| {
            SearchRequest {
                base,
                scope: Scope::from_code(scope).unwrap(),
                deref: DerefAliases::from_code(deref).unwrap(),
                size_limit_entries,
                time_limit_s,
                types_only,
                filter,
                attributes: list(wanted),
            }
        },
    )
}

pub(crate) fn filter(octets: Octets) -> impl Strategy<Value = Filter<'static>> {
    let ava = move || {
        (text(), value(octets))
            .prop_map(|(description, value)| AvaFilter { description, value: value.into() })
    };
    let piece =
        move || value(octets).prop_filter("a substring has octets", |piece| !piece.is_empty());
    let pieces = (option::of(piece()), vec(piece(), 0..4), option::of(piece()));
    let substrings = (text(), pieces)
        .prop_filter("one substring at least", |(_, (initial, any, final_))| {
            initial.is_some() || !any.is_empty() || final_.is_some()
        })
        .prop_map(|(description, (initial, any, final_))| SubstringFilter {
            description,
            initial: initial.map(Cow::Borrowed),
            any: any.into_iter().map(Cow::Borrowed).collect(),
            final_: final_.map(Cow::Borrowed),
        });
    let extensible = (option::of(text()), option::of(text()), value(octets), any::<bool>())
        .prop_filter("a rule or a type", |(rule, ty, ..)| rule.is_some() || ty.is_some())
        .prop_map(|(rule, description, value, dn_attributes)| ExtensibleFilter {
            rule,
            description,
            value: value.into(),
            dn_attributes,
        });
    let item = prop_oneof![
        ava().prop_map(Filter::Equality),
        substrings.prop_map(Filter::Substrings),
        ava().prop_map(Filter::GreaterOrEqual),
        ava().prop_map(Filter::LessOrEqual),
        text().prop_map(Filter::Present),
        ava().prop_map(Filter::Approx),
        extensible.prop_map(Filter::Extensible),
    ];
    item.prop_recursive(5, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Filter::And),
            vec(inner.clone(), 0..4).prop_map(Filter::Or),
            inner.prop_map(|filter| Filter::Not(Box::new(filter))),
        ]
    })
}

fn modify() -> impl Strategy<Value = ModifyRequest<'static>> {
    let modification = (0..4_u32, attribute(0)).prop_map(|(operation, attribute)| Modification {
        operation: ModifyOperation::from_code(operation).unwrap(),
        attribute,
    });
    (text(), vec(modification, 0..5))
        .prop_map(|(name, changes)| ModifyRequest { name, changes: list(changes) })
}

fn add() -> impl Strategy<Value = AddRequest<'static>> {
    (text(), vec(attribute(1), 0..6))
        .prop_map(|(name, items)| AddRequest { name, attributes: list(items) })
}

pub(crate) fn attribute(values_min: usize) -> impl Strategy<Value = PartialAttribute<'static>> {
    (text(), vec(bytes(), values_min..5))
        .prop_map(|(description, values)| PartialAttribute { description, values: list(values) })
}

pub(crate) fn result() -> impl Strategy<Value = LdapResult<'static>> {
    let code = proptest::sample::select(ResultCode::ALL);
    let code = prop_oneof![9 => code, 1 => (0..=i32::MAX as u32).prop_map(ResultCode::from_wire)];
    (code, text(), text(), vec(text(), 0..3)).prop_map(|(code, matched_dn, diagnostic, uris)| {
        LdapResult { code, matched_dn, diagnostic, referrals: list(uris) }
    })
}

pub(crate) fn controls() -> impl Strategy<Value = Controls<'static>> {
    let control = (oid(), any::<bool>(), option::of(bytes()))
        .prop_map(|(oid, critical, value)| Control { oid, critical, value });
    prop_oneof![3 => Just(vec![]), 1 => vec(control, 0..4)].prop_map(list)
}

fn oid() -> impl Strategy<Value = &'static str> {
    "[0-2](\\.[1-9][0-9]{0,6}){1,9}".prop_map(|oid| &*oid.leak())
}

/// Mostly short; sometimes around the lengths at which the length itself grows.
pub(crate) fn text() -> impl Strategy<Value = &'static str> {
    let edge = proptest::sample::select(&[127_usize, 128, 255, 256][..]);
    prop_oneof![
        6 => "[a-z]{0,8}".boxed(),
        3 => "\\PC{0,8}".boxed(),
        1 => edge.prop_map(|len| "x".repeat(len)).boxed(),
    ]
    .prop_map(|text| &*text.leak())
}

pub(crate) fn bytes() -> impl Strategy<Value = &'static [u8]> {
    let edge = proptest::sample::select(&[127_usize, 128, 255, 256, 65_535, 65_536][..]);
    prop_oneof![
        12 => vec(any::<u8>(), 0..20).boxed(),
        6 => text().prop_map(|text| text.as_bytes().to_vec()).boxed(),
        1 => edge.prop_map(|len| vec![0x80; len]).boxed(),
    ]
    .prop_map(|bytes| &*bytes.leak())
}

fn value(octets: Octets) -> BoxedStrategy<&'static [u8]> {
    match octets {
        Octets::Any => bytes().boxed(),
        Octets::Text => text().prop_map(str::as_bytes).boxed(),
    }
}
