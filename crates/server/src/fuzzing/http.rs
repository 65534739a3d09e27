use bytes::Bytes;
use lingua_core::TenantId;
use lingua_engine::Settings;
use lingua_engine::chance::Chance;
use lingua_engine::job::Refusal;
use lingua_protocol::node::capability::Abilities;

use super::is_short;
use super::node::passed_on;
use crate::wire::http::dispatch::DispatchRequest;
use crate::wire::http::job_message::{AckRequest, DoneRequest, FailRequest, JobCall};
use crate::wire::http::node::NodeReport;
use crate::wire::http::parse;

fn answered<T>(answer: Result<T, Refusal>) -> Option<T> {
    answer.inspect_err(is_short).ok()
}

pub(super) fn dispatch(data: &[u8]) {
    let order = DispatchRequest::parse(data).and_then(|body| body.check(&Settings::stable()));
    let Some(order) = answered(order) else { return };
    let tenant = TenantId::new("t").expect("within an id's letters");
    let spec = order.job(tenant, Bytes::new(), Chance::system(), &Settings::stable());
    serde_json::to_vec(&*spec.work).expect("work is always JSON");
}

pub(super) fn node(data: &[u8]) {
    let Some(mut report) = answered(parse::<NodeReport>(data)) else { return };
    let mut abilities = Abilities::default();
    answered(report.health());
    answered(report.endpoint([127, 0, 0, 1].into(), &[]));
    answered(report.abilities(&mut abilities));
    answered(abilities.declaration(1));
    answered(report.running());
    answered(report.heartbeat());
    answered(report.detail());
}

pub(super) fn message(data: &[u8]) {
    let call = |call: Result<JobCall, Refusal>| {
        if let Some(call) = answered(call) {
            passed_on(&call.message);
        }
    };
    call(parse::<AckRequest>(data).and_then(AckRequest::call));
    call(parse::<DoneRequest>(data).and_then(DoneRequest::call));
    call(parse::<FailRequest>(data).and_then(FailRequest::call));
}
