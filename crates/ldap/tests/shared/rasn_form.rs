//! Our messages in the types of `rasn-ldap`.
//!
//! `None` where its types cannot say what ours can: Bind choices other than simple and SASL, the
//! subordinate scope, increment, result codes that RFC 4511 does not have.

use ldap::filter::{AvaFilter, Filter, SubstringFilter};
use ldap::message::*;
use ldap::result::ResultCode;
use rasn::prelude::{OctetString, SequenceOf, SetOf};
use rasn_ldap as theirs;
use rasn_ldap::ProtocolOp;

pub(crate) fn request(message: &Message<'_, Request<'_>>) -> Option<theirs::LdapMessage> {
    let op = match &message.op {
        Request::Bind(bind) => ProtocolOp::BindRequest(bind_request(bind)?),
        Request::Unbind => ProtocolOp::UnbindRequest(theirs::UnbindRequest),
        Request::Search(search) => ProtocolOp::SearchRequest(search_request(search)?),
        Request::Modify(modify) => ProtocolOp::ModifyRequest(modify_request(modify)?),
        Request::Add(add) => ProtocolOp::AddRequest(theirs::AddRequest {
            entry: add.name.into(),
            attributes: add
                .attributes
                .iter()
                .map(|a| theirs::Attribute::new(a.description.into(), values(a.values)))
                .collect(),
        }),
        Request::Delete(delete) => ProtocolOp::DelRequest(theirs::DelRequest(delete.name.into())),
        Request::ModifyDn(rename) => ProtocolOp::ModDnRequest(theirs::ModifyDnRequest {
            entry: rename.name.into(),
            new_rdn: rename.new_rdn.into(),
            delete_old_rdn: rename.delete_old_rdn,
            new_superior: rename.new_superior.map(Into::into),
        }),
        Request::Compare(compare) => ProtocolOp::CompareRequest(theirs::CompareRequest {
            entry: compare.name.into(),
            ava: theirs::AttributeValueAssertion::new(
                compare.description.into(),
                octets(compare.value),
            ),
        }),
        Request::Abandon(id) => {
            ProtocolOp::AbandonRequest(theirs::AbandonRequest(u32::try_from(id.0).unwrap()))
        }
        Request::Extended(extended) => ProtocolOp::ExtendedReq(theirs::ExtendedRequest {
            request_name: octets(extended.oid.as_bytes()),
            request_value: extended.value.map(octets),
        }),
    };
    Some(envelope(message.id, op, message.controls))
}

pub(crate) fn response(message: &Message<'_, Response<'_>>) -> Option<theirs::LdapMessage> {
    let op = match &message.op {
        Response::Bind { result, server_sasl_credentials } => {
            let result = ldap_result(result)?;
            ProtocolOp::BindResponse(theirs::BindResponse::new(
                result.result_code,
                result.matched_dn,
                result.diagnostic_message,
                result.referral,
                server_sasl_credentials.map(octets),
            ))
        }
        Response::SearchEntry { dn, attributes } => {
            ProtocolOp::SearchResEntry(theirs::SearchResultEntry::new(
                (*dn).into(),
                attributes.iter().map(partial_attribute).collect(),
            ))
        }
        Response::SearchReference(uris) => {
            ProtocolOp::SearchResRef(theirs::SearchResultReference(strings(*uris)))
        }
        Response::SearchDone(result) => {
            ProtocolOp::SearchResDone(theirs::SearchResultDone(ldap_result(result)?))
        }
        Response::Modify(result) => {
            ProtocolOp::ModifyResponse(theirs::ModifyResponse(ldap_result(result)?))
        }
        Response::Add(result) => ProtocolOp::AddResponse(theirs::AddResponse(ldap_result(result)?)),
        Response::Delete(result) => {
            ProtocolOp::DelResponse(theirs::DelResponse(ldap_result(result)?))
        }
        Response::ModifyDn(result) => {
            ProtocolOp::ModDnResponse(theirs::ModifyDnResponse(ldap_result(result)?))
        }
        Response::Compare(result) => {
            ProtocolOp::CompareResponse(theirs::CompareResponse(ldap_result(result)?))
        }
        Response::Extended { result, oid, value } => {
            let result = ldap_result(result)?;
            ProtocolOp::ExtendedResp(theirs::ExtendedResponse {
                result_code: result.result_code,
                matched_dn: result.matched_dn,
                diagnostic_message: result.diagnostic_message,
                referral: result.referral,
                response_name: oid.map(|oid| octets(oid.as_bytes())),
                response_value: value.map(octets),
            })
        }
        Response::Intermediate { oid, value } => {
            ProtocolOp::IntermediateResponse(theirs::IntermediateResponse {
                response_name: oid.map(|oid| octets(oid.as_bytes())),
                response_value: value.map(octets),
            })
        }
    };
    Some(envelope(message.id, op, message.controls))
}

fn envelope(id: MessageId, op: ProtocolOp, controls: Controls<'_>) -> theirs::LdapMessage {
    let mut message = theirs::LdapMessage::new(u32::try_from(id.0).unwrap(), op);
    if !controls.is_empty() {
        let theirs = controls.iter().map(|control| {
            theirs::Control::new(
                octets(control.oid.as_bytes()),
                control.critical,
                control.value.map(octets),
            )
        });
        message.controls = Some(theirs.collect());
    }
    message
}

fn bind_request(bind: &BindRequest<'_>) -> Option<theirs::BindRequest> {
    let authentication = match bind.authentication {
        Authentication::Simple(password) => theirs::AuthenticationChoice::Simple(octets(password)),
        Authentication::Sasl { mechanism, credentials } => theirs::AuthenticationChoice::Sasl(
            theirs::SaslCredentials::new(mechanism.into(), credentials.map(octets)),
        ),
        Authentication::Other(_) => return None,
    };
    let version = u8::try_from(bind.version).unwrap();
    Some(theirs::BindRequest::new(version, bind.name.into(), authentication))
}

fn search_request(search: &SearchRequest<'_>) -> Option<theirs::SearchRequest> {
    let scope = match search.scope {
        Scope::Base => theirs::SearchRequestScope::BaseObject,
        Scope::One => theirs::SearchRequestScope::SingleLevel,
        Scope::Subtree => theirs::SearchRequestScope::WholeSubtree,
        Scope::Subordinate => return None,
    };
    let deref = match search.deref {
        DerefAliases::Never => theirs::SearchRequestDerefAliases::NeverDerefAliases,
        DerefAliases::InSearching => theirs::SearchRequestDerefAliases::DerefInSearching,
        DerefAliases::FindingBase => theirs::SearchRequestDerefAliases::DerefFindingBaseObj,
        DerefAliases::Always => theirs::SearchRequestDerefAliases::DerefAlways,
    };
    Some(theirs::SearchRequest::new(
        search.base.into(),
        scope,
        deref,
        search.size_limit_entries,
        search.time_limit_s,
        search.types_only,
        filter(&search.filter),
        strings(search.attributes),
    ))
}

fn filter(ours: &Filter<'_>) -> theirs::Filter {
    let set = |filters: &[Filter<'_>]| -> SetOf<theirs::Filter> {
        SetOf::from_vec(filters.iter().map(filter).collect())
    };
    match ours {
        Filter::And(filters) => theirs::Filter::And(set(filters)),
        Filter::Or(filters) => theirs::Filter::Or(set(filters)),
        Filter::Not(inner) => theirs::Filter::Not(Box::new(filter(inner))),
        Filter::Equality(ours) => theirs::Filter::EqualityMatch(ava(ours)),
        Filter::Substrings(ours) => theirs::Filter::Substrings(substrings(ours)),
        Filter::GreaterOrEqual(ours) => theirs::Filter::GreaterOrEqual(ava(ours)),
        Filter::LessOrEqual(ours) => theirs::Filter::LessOrEqual(ava(ours)),
        Filter::Present(description) => theirs::Filter::Present((*description).into()),
        Filter::Approx(ours) => theirs::Filter::ApproxMatch(ava(ours)),
        Filter::Extensible(ours) => {
            theirs::Filter::ExtensibleMatch(theirs::MatchingRuleAssertion::new(
                ours.rule.map(Into::into),
                ours.description.map(Into::into),
                octets(&ours.value),
                ours.dn_attributes,
            ))
        }
    }
}

fn ava(ours: &AvaFilter<'_>) -> theirs::AttributeValueAssertion {
    theirs::AttributeValueAssertion::new(ours.description.into(), octets(&ours.value))
}

fn substrings(ours: &SubstringFilter<'_>) -> theirs::SubstringFilter {
    let initial = ours.initial.iter().map(|p| theirs::SubstringChoice::Initial(octets(p)));
    let any = ours.any.iter().map(|p| theirs::SubstringChoice::Any(octets(p)));
    let last = ours.final_.iter().map(|p| theirs::SubstringChoice::Final(octets(p)));
    let pieces = initial.chain(any).chain(last).collect();
    theirs::SubstringFilter::new(ours.description.into(), pieces)
}

fn modify_request(modify: &ModifyRequest<'_>) -> Option<theirs::ModifyRequest> {
    let change = |ours: Modification<'_>| {
        let operation = match ours.operation {
            ModifyOperation::Add => theirs::ChangeOperation::Add,
            ModifyOperation::Delete => theirs::ChangeOperation::Delete,
            ModifyOperation::Replace => theirs::ChangeOperation::Replace,
            ModifyOperation::Increment => return None,
        };
        let modification = partial_attribute(ours.attribute);
        Some(theirs::ModifyRequestChanges { operation, modification })
    };
    let changes = modify.changes.iter().map(change).collect::<Option<_>>()?;
    Some(theirs::ModifyRequest { object: modify.name.into(), changes })
}

fn ldap_result(ours: &LdapResult<'_>) -> Option<theirs::LdapResult> {
    let code = result_code(ours.code)?;
    let mut result = theirs::LdapResult::new(code, ours.matched_dn.into(), ours.diagnostic.into());
    if !ours.referrals.is_empty() {
        result.referral = Some(strings(ours.referrals));
    }
    Some(result)
}

/// Through its number, by their own decoder: a table written out here would prove nothing.
fn result_code(code: ResultCode) -> Option<theirs::ResultCode> {
    let octets: Vec<u8> = match u8::try_from(code.code()) {
        Ok(code) if code < 0x80 => vec![0x0A, 1, code],
        Ok(_) | Err(_) => return None,
    };
    rasn::ber::decode(&octets).ok()
}

fn partial_attribute(ours: PartialAttribute<'_>) -> theirs::PartialAttribute {
    theirs::PartialAttribute::new(ours.description.into(), values(ours.values))
}

fn values(values: Values<'_>) -> SetOf<OctetString> {
    SetOf::from_vec(values.iter().map(octets).collect())
}

fn strings(strings: Strings<'_>) -> SequenceOf<theirs::LdapString> {
    strings.iter().map(Into::into).collect()
}

fn octets(octets: &[u8]) -> OctetString {
    OctetString::from(octets.to_vec())
}
