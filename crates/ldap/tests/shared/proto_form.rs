//! Our messages in the types of `ldap3_proto`.
//!
//! `None` where its types cannot say what ours can: filter values and passwords that are not text,
//! absent SASL credentials, the number of an unknown Bind choice, unknown result codes.

use ldap::filter::{AvaFilter, Filter};
use ldap::message::*;
use ldap::result::ResultCode;
use ldap3_proto::control::LdapControl;
use ldap3_proto::proto as theirs;
use ldap3_proto::proto::LdapOp;

pub(crate) fn request(message: &Message<'_, Request<'_>>) -> Option<theirs::LdapMsg> {
    let op = match &message.op {
        Request::Bind(bind) => LdapOp::BindRequest(theirs::LdapBindRequest {
            version: i64::from(bind.version),
            dn: bind.name.into(),
            cred: credentials(bind.authentication)?,
        }),
        Request::Unbind => LdapOp::UnbindRequest,
        Request::Search(search) => LdapOp::SearchRequest(search_request(search)?),
        Request::Modify(modify) => LdapOp::ModifyRequest(modify_request(modify)),
        Request::Add(add) => LdapOp::AddRequest(theirs::LdapAddRequest {
            dn: add.name.into(),
            attributes: add.attributes.iter().map(attribute).collect(),
        }),
        Request::Delete(delete) => LdapOp::DelRequest(delete.name.into()),
        Request::ModifyDn(rename) => LdapOp::ModifyDNRequest(theirs::LdapModifyDNRequest {
            dn: rename.name.into(),
            newrdn: rename.new_rdn.into(),
            deleteoldrdn: rename.delete_old_rdn,
            new_superior: rename.new_superior.map(Into::into),
        }),
        Request::Compare(compare) => LdapOp::CompareRequest(theirs::LdapCompareRequest {
            dn: compare.name.into(),
            atype: compare.description.into(),
            val: compare.value.into(),
        }),
        Request::Abandon(id) => LdapOp::AbandonRequest(id.0),
        Request::Extended(extended) => LdapOp::ExtendedRequest(theirs::LdapExtendedRequest {
            name: extended.oid.into(),
            value: extended.value.map(Into::into),
        }),
    };
    Some(envelope(message.id, op, message.controls))
}

pub(crate) fn response(message: &Message<'_, Response<'_>>) -> Option<theirs::LdapMsg> {
    let op = match &message.op {
        Response::Bind { result, server_sasl_credentials } => {
            LdapOp::BindResponse(theirs::LdapBindResponse {
                res: ldap_result(result)?,
                saslcreds: server_sasl_credentials.map(Into::into),
            })
        }
        Response::SearchEntry { dn, attributes } => {
            LdapOp::SearchResultEntry(theirs::LdapSearchResultEntry {
                dn: (*dn).into(),
                attributes: attributes.iter().map(attribute).collect(),
            })
        }
        Response::SearchReference(uris) => {
            let uris = uris.iter().map(Into::into).collect();
            LdapOp::SearchResultReference(theirs::LdapSearchResultReference { uris })
        }
        Response::SearchDone(result) => LdapOp::SearchResultDone(ldap_result(result)?),
        Response::Modify(result) => LdapOp::ModifyResponse(ldap_result(result)?),
        Response::Add(result) => LdapOp::AddResponse(ldap_result(result)?),
        Response::Delete(result) => LdapOp::DelResponse(ldap_result(result)?),
        Response::ModifyDn(result) => LdapOp::ModifyDNResponse(ldap_result(result)?),
        Response::Compare(result) => LdapOp::CompareResult(ldap_result(result)?),
        Response::Extended { result, oid, value } => {
            LdapOp::ExtendedResponse(theirs::LdapExtendedResponse {
                res: ldap_result(result)?,
                name: oid.map(Into::into),
                value: value.map(Into::into),
            })
        }
        Response::Intermediate { oid, value } => {
            LdapOp::IntermediateResponse(theirs::LdapIntermediateResponse::Raw {
                name: oid.map(Into::into),
                value: value.map(Into::into),
            })
        }
    };
    Some(envelope(message.id, op, message.controls))
}

/// What they read of this: they write referrals and skip them when reading (version 0.9.0).
pub(crate) fn without_referrals(mut message: theirs::LdapMsg) -> theirs::LdapMsg {
    match &mut message.op {
        LdapOp::BindResponse(theirs::LdapBindResponse { res, .. })
        | LdapOp::ExtendedResponse(theirs::LdapExtendedResponse { res, .. })
        | LdapOp::SearchResultDone(res)
        | LdapOp::ModifyResponse(res)
        | LdapOp::AddResponse(res)
        | LdapOp::DelResponse(res)
        | LdapOp::ModifyDNResponse(res)
        | LdapOp::CompareResult(res) => res.referral.clear(),
        _ => {}
    }
    message
}

fn envelope(id: MessageId, op: LdapOp, controls: Controls<'_>) -> theirs::LdapMsg {
    let ctrl = controls.iter().map(|control| LdapControl::Unknown {
        oid: control.oid.into(),
        criticality: control.critical,
        value: control.value.map(Into::into),
    });
    theirs::LdapMsg { msgid: id.0, op, ctrl: ctrl.collect() }
}

fn credentials(authentication: Authentication<'_>) -> Option<theirs::LdapBindCred> {
    match authentication {
        Authentication::Simple(password) => Some(theirs::LdapBindCred::Simple(text(password)?)),
        Authentication::Sasl { mechanism, credentials } => {
            Some(theirs::LdapBindCred::SASL(theirs::SaslCredentials {
                mechanism: mechanism.into(),
                credentials: credentials?.into(),
            }))
        }
        Authentication::Other(_) => None,
    }
}

fn search_request(search: &SearchRequest<'_>) -> Option<theirs::LdapSearchRequest> {
    Some(theirs::LdapSearchRequest {
        base: search.base.into(),
        scope: theirs::LdapSearchScope::try_from(i64::from(search.scope.code())).unwrap(),
        aliases: theirs::LdapDerefAliases::try_from(i64::from(search.deref.code())).unwrap(),
        sizelimit: i32::try_from(search.size_limit_entries).unwrap(),
        timelimit: i32::try_from(search.time_limit_s).unwrap(),
        typesonly: search.types_only,
        filter: filter(&search.filter)?,
        attrs: search.attributes.iter().map(Into::into).collect(),
    })
}

fn filter(ours: &Filter<'_>) -> Option<theirs::LdapFilter> {
    let set = |filters: &[Filter<'_>]| filters.iter().map(filter).collect::<Option<Vec<_>>>();
    Some(match ours {
        Filter::And(filters) => theirs::LdapFilter::And(set(filters)?),
        Filter::Or(filters) => theirs::LdapFilter::Or(set(filters)?),
        Filter::Not(inner) => theirs::LdapFilter::Not(Box::new(filter(inner)?)),
        Filter::Equality(ours) => {
            let (description, value) = ava(ours)?;
            theirs::LdapFilter::Equality(description, value)
        }
        Filter::Substrings(ours) => theirs::LdapFilter::Substring(
            ours.description.into(),
            theirs::LdapSubstringFilter {
                initial: ours.initial.as_deref().map(text).map_or(Some(None), |t| t.map(Some))?,
                any: ours.any.iter().map(|piece| text(piece)).collect::<Option<_>>()?,
                final_: ours.final_.as_deref().map(text).map_or(Some(None), |t| t.map(Some))?,
            },
        ),
        Filter::GreaterOrEqual(ours) => {
            let (description, value) = ava(ours)?;
            theirs::LdapFilter::GreaterOrEqual(description, value)
        }
        Filter::LessOrEqual(ours) => {
            let (description, value) = ava(ours)?;
            theirs::LdapFilter::LessOrEqual(description, value)
        }
        Filter::Present(description) => theirs::LdapFilter::Present((*description).into()),
        Filter::Approx(ours) => {
            let (description, value) = ava(ours)?;
            theirs::LdapFilter::Approx(description, value)
        }
        Filter::Extensible(ours) => {
            theirs::LdapFilter::Extensible(theirs::LdapMatchingRuleAssertion {
                matching_rule: ours.rule.map(Into::into),
                type_: ours.description.map(Into::into),
                match_value: text(&ours.value)?,
                dn_attributes: ours.dn_attributes,
            })
        }
    })
}

fn ava(ours: &AvaFilter<'_>) -> Option<(String, String)> {
    Some((ours.description.into(), text(&ours.value)?))
}

fn modify_request(modify: &ModifyRequest<'_>) -> theirs::LdapModifyRequest {
    let change = |ours: Modification<'_>| theirs::LdapModify {
        operation: theirs::LdapModifyType::try_from(i64::from(ours.operation.code())).unwrap(),
        modification: attribute(ours.attribute),
    };
    theirs::LdapModifyRequest {
        dn: modify.name.into(),
        changes: modify.changes.iter().map(change).collect(),
    }
}

fn ldap_result(ours: &LdapResult<'_>) -> Option<theirs::LdapResult> {
    Some(theirs::LdapResult {
        code: result_code(ours.code)?,
        matcheddn: ours.matched_dn.into(),
        message: ours.diagnostic.into(),
        referral: ours.referrals.iter().map(Into::into).collect(),
    })
}

fn result_code(code: ResultCode) -> Option<theirs::LdapResultCode> {
    theirs::LdapResultCode::try_from(i64::from(code.code())).ok()
}

fn attribute(ours: PartialAttribute<'_>) -> theirs::LdapPartialAttribute {
    theirs::LdapPartialAttribute {
        atype: ours.description.into(),
        vals: ours.values.iter().map(Into::into).collect(),
    }
}

fn text(octets: &[u8]) -> Option<String> {
    String::from_utf8(octets.to_vec()).ok()
}
