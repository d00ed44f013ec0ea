//! Virtual list view (draft-ietf-ldapext-ldapv3-vlv-09): which part of a sorted list is wanted.
//!
//! The context of a list is a cookie ([`crate::request::cookie`]): the server keeps no state for a
//! client, what was altered or belongs to another list is refused, and nobody reads the number of
//! changes that is in it.

use ldap::control_value::vlv::{VlvRequest, VlvResponse};
use ldap::message::Control;
use ldap::result::ResultCode;

use super::value::{malformed, required};
use crate::request::controls::response::ResponseControl;
use crate::request::refusal::Refusal;

/// The request control's OID.
pub(crate) const OID: &str = "2.16.840.1.113730.3.4.9";
/// The response control's OID.
pub(crate) const RESPONSE: &str = "2.16.840.1.113730.3.4.10";

/// What the control is called.
pub(super) const NAME: &str = "the virtual list view control";

pub(super) fn read<'a>(control: &Control<'a>) -> Result<VlvRequest<'a>, Refusal> {
    VlvRequest::decode(required(control, NAME)?)
        .map_err(|_| malformed("the value of the virtual list view control is malformed"))
}

/// What the response control says.
pub(crate) fn response(
    target: u64,
    count: u64,
    code: ResultCode,
    context: &[u8],
) -> ResponseControl {
    let number = |number: u64| number.min(i32::MAX as u64) as u32;
    let response = VlvResponse {
        target_position: number(target),
        content_count: number(count),
        code: code.code(),
        context: (!context.is_empty()).then_some(context),
    };
    ResponseControl { oid: RESPONSE, value: Some(response.encode()) }
}

/// Where a list of `count` entries has the target `offset` of a client that takes it to have
/// `content_count` (§5); counted from 1. None: `offsetRangeError`.
pub(crate) fn position(offset: i32, content_count: i32, count: u64) -> Option<u64> {
    let offset = u64::try_from(offset).ok().filter(|&offset| offset > 0)?;
    let assumed = u64::try_from(content_count).ok()?;
    if assumed != 0 && offset > assumed {
        return None;
    }
    if count == 0 {
        return Some(0);
    }
    let position = if assumed == 0 || assumed == count {
        offset
    } else if offset == assumed {
        count
    } else if offset == 1 {
        1
    } else {
        // Both are below 2³¹ on the wire; a longer list is not told its whole length.
        let exact = u128::from(count) * u128::from(offset);
        let rounded = (exact + u128::from(assumed) / 2) / u128::from(assumed);
        u64::try_from(rounded).unwrap_or(count).clamp(1, count)
    };
    (position <= count).then_some(position)
}

/// The part of a list, counted from 0, that goes with the target at `position`.
pub(crate) fn window(request: &VlvRequest<'_>, position: u64, count: u64) -> std::ops::Range<u64> {
    let position = position.max(1);
    let first = position.saturating_sub(1 + u64::from(request.before)).min(count);
    let end = position.saturating_add(request.after.into()).min(count);
    first..end.max(first)
}

#[cfg(test)]
mod tests {
    use ldap::control_value::vlv::VlvTarget;

    use super::*;

    #[test]
    fn offsets_are_ratios() {
        for (offset, assumed, count, want) in [
            (1, 0, 10, Some(1)),
            (10, 0, 10, Some(10)),
            (11, 0, 10, None),
            (0, 0, 10, None),
            (-1, 0, 10, None),
            (1, -1, 10, None),
            (11, 10, 10, None),
            (1, 1, 10, Some(10)),
            (7, 7, 10, Some(10)),
            (1, 500, 10, Some(1)),
            (250, 500, 10, Some(5)),
            (2, 500, 10, Some(1)),
            (499, 500, 10, Some(10)),
            (3, 10, 20, Some(6)),
            (10, 10, 20, Some(20)),
            (1, 0, 0, Some(0)),
            (5, 9, 0, Some(0)),
            (0, 9, 0, None),
            (1 << 30, i32::MAX, 1 << 40, Some((1 << 39) + 256)),
        ] {
            assert_eq!(position(offset, assumed, count), want, "{offset} of {assumed} in {count}");
        }
    }

    #[test]
    fn windows_end_where_the_list_does() {
        let target = VlvTarget::Offset { offset: 1, content_count: 0 };
        for (before, after, position, count, want) in [
            (0, 19, 1, 100, 0..20),
            (19, 0, 100, 100, 80..100),
            (5, 5, 3, 100, 0..8),
            (5, 5, 98, 100, 92..100),
            (2, 2, 101, 100, 98..100),
            (0, 2, 101, 100, 100..100),
            (2, 2, 0, 0, 0..0),
            (2, 2, 1, 0, 0..0),
            (u32::MAX, u32::MAX, 2, 3, 0..3),
        ] {
            let request = VlvRequest { before, after, target, context: None };
            assert_eq!(
                window(&request, position, count),
                want,
                "{request:?} at {position} of {count}"
            );
        }
    }
}
