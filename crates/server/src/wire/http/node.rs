//! A node about itself, over HTTP.

use std::net::{IpAddr, SocketAddr};

use axum::http::Uri;
use axum::http::uri::Scheme;
use lingua_core::limits::MAX_SLOTS;
use lingua_core::link::Percents;
use lingua_core::node::Health;
use lingua_core::outcome::Code;
use lingua_core::{JobId, NodeId};
use lingua_engine::job::Refusal;
use lingua_engine::nodes::{Heartbeat, NodeDetail, Supports};
use lingua_protocol::fields::passing;
use lingua_protocol::node::capability::{Abilities, MAX_ENTRIES, NmtField, TypeReady, few};
use lingua_protocol::node::inventory::{InstalledModel, InstalledService, Sent};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{Object, text, within, wrong};

/// Jobs that a node may say it runs: more than any node has slots, so that what was given up
/// meanwhile can be among them.
const MAX_RUNNING: usize = 4 * MAX_SLOTS as usize;

/// Bytes of a node's `hardware`, which is only shown.
const MAX_HARDWARE_BYTES: usize = 16 * 1024;

/// Characters of what is only shown.
const MAX_SHOWN_CHARS: usize = 128;

/// Characters of an endpoint.
const MAX_ENDPOINT_CHARS: usize = 2_048;

/// What a node reports about itself. `node_id` is always needed; registering also needs `semantic_langs`.
/// In a heartbeat, a field that is present replaces what was said before as a whole.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({
    "node_id": "node-123", "health": "ready", "semantic_langs": ["en", "zh"],
    "nmt_pairs": [["en", "zh"], ["zh", "en"]], "tts_langs": ["en", "zh"], "max_concurrent_jobs": 2
}))]
pub(crate) struct NodeReport {
    /// The node's stable id: 1 to 64 of `A-Z a-z 0-9 . _ -`.
    #[schema(value_type = String, example = "node-123")]
    pub(crate) node_id: NodeId,
    /// `ready` (the default when registering), `registering`, `degraded`, `draining` or `offline`.
    health: Option<String>,
    /// Languages it can repair; at least one.
    #[serde(default, deserialize_with = "few")]
    semantic_langs: Option<Vec<String>>,
    /// Directions it translates, as pairs of source and target, or `"any"`. Absent: from what it
    /// repairs into what it speaks, or into what it repairs if it speaks nothing.
    #[schema(value_type = Option<serde_json::Value>, example = json!([["en", "zh"]]))]
    nmt_pairs: Option<Box<RawValue>>,
    /// Languages it speaks. Absent: none.
    #[serde(default, deserialize_with = "few")]
    tts_langs: Option<Vec<String>>,
    /// Languages it recognises. Absent: those that it repairs.
    #[serde(default, deserialize_with = "few")]
    asr_langs: Option<Vec<String>>,
    /// Jobs that it works on at the same time, 1 to 256. Absent: the scheduler's default.
    max_concurrent_jobs: Option<i64>,
    /// False: only jobs that name this node.
    accept_public_jobs: Option<bool>,
    /// Where it runs, by the operator's name for it: 1 to 64 of `A-Z a-z 0-9 . _ -`. With `jobs.rank =
    /// "region"` an instance prefers nodes of its own region.
    #[schema(example = "eu-west")]
    region: Option<String>,
    /// What a job on it costs, in any unit that all nodes share. Absent: nothing. With `jobs.rank =
    /// "cheapest"` the cheapest goes first.
    #[schema(minimum = 0, maximum = 1000)]
    cost: Option<f64>,
    /// Readiness by type of service.
    #[schema(value_type = Option<Vec<ServiceReady>>)]
    #[serde(default, deserialize_with = "few")]
    capability_by_type: Option<Vec<Object<ServiceReady>>>,
    /// Installed services, as `installed_services` over the socket.
    #[schema(value_type = Option<Vec<InstalledService<'static>>>, max_items = 128)]
    services: Option<Box<RawValue>>,
    /// Installed models, as `installed_models` over the socket.
    #[schema(value_type = Option<Vec<InstalledModel<'static>>>, max_items = 256)]
    models: Option<Box<RawValue>>,
    /// What it can do beside: an object of names, each with `true` or a version; or a list of `name@version`.
    #[schema(value_type = Option<Object>)]
    features: Option<Box<RawValue>>,
    /// Where the scheduler POSTs what is for the node: an `http://` URL on a loopback address.
    /// Absent: the node asks for it with `GET /v1/node/{id}/jobs`. Looked at when registering only.
    endpoint: Option<String>,
    /// How much of the machine is in use.
    #[schema(value_type = Option<CurrentLoad>)]
    current_load: Option<Object<CurrentLoad>>,
    /// What it runs now. A node that says so in every heartbeat is not asked to wait after the
    /// store lost data.
    #[schema(value_type = Option<Vec<RunningJob>>)]
    #[serde(default, deserialize_with = "few")]
    running: Option<Vec<Object<RunningJob>>>,
    /// `text`: it takes a text in place of speech. Other words are passed over: every node here acks by a
    /// call and obeys `job_cancel`. Looked at when registering only.
    #[serde(default, deserialize_with = "few")]
    supports: Option<Vec<String>>,
    /// The version of its software; only shown.
    version: Option<String>,
    /// Where it runs; only shown.
    platform: Option<String>,
    /// What it runs on: `cpu_cores`, `memory_gb`, and `gpus` with `name` and `memory_gb`; what else is there is
    /// only shown.
    #[schema(value_type = Option<Object>)]
    hardware: Option<Box<RawValue>>,
}

/// What a type of service says of itself.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ServiceReady {
    /// `asr`, `nmt`, `tts`, `semantic`, `tone`, … in any case.
    #[serde(rename = "type")]
    #[schema(example = "nmt")]
    kind: String,
    /// Absent: true.
    ready: Option<bool>,
}

/// Shares of the machine in use, each from 0 to 1.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
pub(crate) struct CurrentLoad {
    /// Of the GPU.
    #[schema(example = 0.52, minimum = 0, maximum = 1)]
    gpu: Option<f64>,
    /// Of the memory of the GPU.
    #[schema(minimum = 0, maximum = 1)]
    gpu_mem: Option<f64>,
    /// Of the processors.
    #[schema(minimum = 0, maximum = 1)]
    cpu: Option<f64>,
    /// Of the memory.
    #[schema(minimum = 0, maximum = 1)]
    mem: Option<f64>,
}

/// A job that a node runs.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct RunningJob {
    /// As in `job_assign`.
    #[schema(value_type = String)]
    job_id: JobId,
    /// As in `job_assign`.
    #[schema(minimum = 1)]
    attempt_id: u32,
}

/// The answer to a registration.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Registered {
    /// Always true; errors have another form.
    pub(crate) ok: bool,
    /// The interval of heartbeats; a node is considered gone after three without one.
    #[schema(example = 5000)]
    pub(crate) heartbeat_interval_ms: u64,
    /// Rises with every registration of the node; the newest counts.
    #[schema(example = 1)]
    pub(crate) epoch: u64,
    /// `ready`, or `registering` while its warm-up is awaited.
    #[schema(example = "ready")]
    pub(crate) status: &'static str,
}

/// What every node of this door understands: it acks by a call of its own, and it is told what to stop.
pub(crate) const SUPPORTS: Supports = Supports {
    ack: true,
    cancel: true,
    binary_audio: false,
    text: false,
    tokens: false,
    other: false,
    result_ack: false,
    calls: true,
};

impl NodeReport {
    /// What it understands.
    pub(crate) fn supports(&self) -> Supports {
        let text = self.supports.iter().flatten().any(|word| word.eq_ignore_ascii_case("text"));
        Supports { text, ..SUPPORTS }
    }

    /// Its health by its own word.
    pub(crate) fn health(&self) -> Result<Option<Health>, Refusal> {
        let Some(word) = &self.health else { return Ok(None) };
        Health::parse(&word.to_ascii_lowercase()).map(Some).ok_or_else(|| {
            wrong("health", format_args!("{word:?} is not ready, degraded, draining or offline"))
        })
    }

    /// Takes over every ability that is told; says whether there was any.
    pub(crate) fn abilities(&mut self, known: &mut Abilities) -> Result<bool, Refusal> {
        let nmt = self.nmt_pairs.take().map(|pairs| directions(&pairs)).transpose()?;
        let types = self.capability_by_type.take().map(|list| {
            let types = list
                .into_iter()
                .map(|Object(ServiceReady { kind, ready })| TypeReady { kind, ready });
            types.collect::<Vec<_>>()
        });
        // A node that lost its last language keeps its record and is known to be unable.
        let lost =
            self.semantic_langs.as_ref().is_some_and(Vec::is_empty) && known.semantic.is_some();
        let mut told = self.semantic_langs.is_some();
        if told {
            known.semantic_core_ready = lost.then_some(false);
        }
        replace(&mut known.semantic, self.semantic_langs.take().filter(|_| !lost));
        told |= replace(&mut known.asr, self.asr_langs.take());
        told |= replace(&mut known.tts, self.tts_langs.take());
        told |= replace(&mut known.nmt, nmt);
        told |= replace(&mut known.max_concurrent_jobs, self.max_concurrent_jobs);
        told |= replace(&mut known.accept_public_jobs, self.accept_public_jobs);
        told |= replace(&mut known.region, self.region.take());
        told |= replace(&mut known.cost, self.cost);
        told |= self.inventory(known)?;
        if let Some(types) = types {
            known.types = types;
            told = true;
        }
        Ok(told)
    }

    /// Takes over what it says it has installed; says whether there was anything.
    fn inventory(&self, known: &mut Abilities) -> Result<bool, Refusal> {
        let sent = Sent {
            models: self.models.as_deref(),
            services: self.services.as_deref(),
            features: self.features.as_deref(),
            hardware: self.hardware.as_deref(),
        };
        if let Some(field) = sent.unreadable() {
            return Err(wrong(&field, "cannot be read"));
        }
        sent.put_over(&mut known.inventory);
        Ok([sent.models, sent.services, sent.features, sent.hardware].iter().any(Option::is_some))
    }

    /// The services that run, if it says what is installed; after [`NodeReport::abilities`].
    pub(crate) fn running_services(&self, known: &Abilities) -> Option<Vec<String>> {
        self.services.as_ref().map(|_| known.inventory.running_services())
    }

    /// The jobs that it reports running.
    pub(crate) fn running(&mut self) -> Result<Option<Vec<(JobId, u32)>>, Refusal> {
        let Some(running) = self.running.take() else { return Ok(None) };
        if running.len() > MAX_RUNNING {
            return Err(wrong("running", format_args!("has more than {MAX_RUNNING} jobs")));
        }
        let jobs = running.into_iter().enumerate().map(|(i, Object(job))| {
            within(
                &format!("running[{i}].attempt_id"),
                job.attempt_id.into(),
                1..=u32::MAX.into(),
            )?;
            Ok((job.job_id, job.attempt_id))
        });
        jobs.collect::<Result<_, _>>().map(Some)
    }

    /// What is only shown.
    pub(crate) fn detail(&mut self) -> Result<NodeDetail, Refusal> {
        Ok(NodeDetail {
            version: text("version", self.version.take(), MAX_SHOWN_CHARS)?,
            platform: text("platform", self.platform.take(), MAX_SHOWN_CHARS)?,
            hardware: passing("hardware", self.hardware.take(), MAX_HARDWARE_BYTES)?,
            percents: self.percents()?,
            last_error: None,
        })
    }

    /// The sign of life, without the abilities.
    pub(crate) fn heartbeat(&mut self) -> Result<Heartbeat, Refusal> {
        Ok(Heartbeat {
            declaration: None,
            health: self.health()?,
            running: self.running()?,
            running_jobs: None,
            services: None,
            percents: self.percents()?,
        })
    }

    fn percents(&self) -> Result<Percents, Refusal> {
        let Some(Object(load)) = &self.current_load else { return Ok(Percents::default()) };
        let percent = |field: &str, share: Option<f64>| match share {
            Some(share) if !(0.0..=1.0).contains(&share) => {
                Err(wrong(&format!("current_load.{field}"), "is a share from 0 to 1"))
            }
            share => Ok(share.map(|share| share * 100.0)),
        };
        Ok(Percents {
            cpu: percent("cpu", load.cpu)?,
            gpu: percent("gpu", load.gpu)?,
            gpu_mem: percent("gpu_mem", load.gpu_mem)?,
            mem: percent("mem", load.mem)?,
        })
    }

    /// Where to send what is for a node that calls from this address. Only loopback, and only for a node on
    /// this machine: a node must not be able to make the scheduler call what only the scheduler can
    /// reach. Never the scheduler's own listeners, to which such a call would be one of this machine.
    pub(crate) fn endpoint(
        &self,
        from: IpAddr,
        listeners: &[SocketAddr],
    ) -> Result<Option<Uri>, Refusal> {
        let Some(text) = &self.endpoint else { return Ok(None) };
        let refused =
            |why: &str| Err(Refusal::new(Code::InvalidCapability, format!("endpoint: {why}")));
        if text.len() > MAX_ENDPOINT_CHARS {
            return refused("is too long");
        }
        let Ok(uri) = text.parse::<Uri>() else { return refused("is not a URL") };
        let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) else {
            return refused("is not a whole URL such as http://127.0.0.1:8000/jobs");
        };
        if *scheme != Scheme::HTTP {
            return refused("only http:// is served");
        }
        if authority.as_str().contains('@') {
            return refused("must not hold a user or password");
        }
        if authority.host() != authority.as_str() && authority.port_u16().is_none() {
            return refused("has a wrong port");
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let loopback = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        if !loopback && !host.eq_ignore_ascii_case("localhost") {
            return refused(
                "only loopback hosts (127.0.0.1, [::1], localhost) are called, so that no node can \
                 make the scheduler call into its own network; leave it out and ask for jobs with \
                 GET /v1/node/{id}/jobs instead",
            );
        }
        if !from.is_loopback() {
            return refused(
                "only nodes on the scheduler's own machine may name one; leave it out and ask for jobs \
                 with GET /v1/node/{id}/jobs instead",
            );
        }
        let port = authority.port_u16().unwrap_or(80);
        let own = |listener: &SocketAddr| {
            let here = listener.ip().is_loopback() || listener.ip().is_unspecified();
            here && listener.port() == port
        };
        if listeners.iter().any(own) {
            return refused("is the scheduler itself");
        }
        Ok(Some(uri))
    }
}

fn replace<T>(known: &mut Option<T>, told: Option<T>) -> bool {
    let any = told.is_some();
    if any {
        *known = told;
    }
    any
}

fn directions(pairs: &RawValue) -> Result<NmtField, Refusal> {
    serde_json::from_str(pairs.get()).map_err(|_| {
        let shape = "is \"any\" or a list of pairs such as [[\"en\",\"zh\"]]";
        wrong("nmt_pairs", format_args!("{shape}, with at most {MAX_ENTRIES} entries"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::http::parse;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn report(json: &str) -> NodeReport {
        parse(json.as_bytes()).unwrap()
    }

    #[test]
    fn only_loopback_endpoints_are_called() {
        let endpoint = |url: &str| {
            let report = report(&format!(r#"{{"node_id":"n","endpoint":{url:?}}}"#));
            report.endpoint(HERE, &[]).map_err(|refusal| refusal.code)
        };
        for good in [
            "http://127.0.0.1:8000/jobs",
            "http://127.0.0.1",
            "http://127.9.9.9:1/",
            "http://[::1]:80/x?y=1",
            "http://localhost:9/",
            "HTTP://LOCALHOST:9/",
        ] {
            assert!(endpoint(good).unwrap().is_some(), "{good}");
        }
        for bad in [
            "",
            "/jobs",
            "127.0.0.1:80",
            "https://127.0.0.1/",
            "ftp://127.0.0.1/",
            "http://10.0.0.1/",
            "http://169.254.169.254/latest",
            "http://0.0.0.0/",
            "http://example.com/",
            "http://localhost.example.com/",
            "http://127.0.0.1.example.com/",
            "http://127.0.0.1@example.com/",
            "http://a:b@127.0.0.1/",
            "http://[::ffff:10.0.0.1]/",
            "http://2130706433/",
            "http://127.0.0.1:99999/",
            &format!("http://127.0.0.1/{}", "x".repeat(3_000)),
        ] {
            assert_eq!(endpoint(bad), Err(Code::InvalidCapability), "{bad}");
        }
    }

    #[test]
    fn a_node_of_another_machine_may_not_name_an_endpoint_on_this_one() {
        let report = report(r#"{"node_id":"n","endpoint":"http://127.0.0.1:8000/jobs"}"#);
        assert!(report.endpoint("::1".parse().unwrap(), &[]).is_ok());
        for from in ["10.0.0.7", "192.0.2.1", "2001:db8::1"] {
            let refusal = report.endpoint(from.parse().unwrap(), &[]).unwrap_err();
            assert_eq!(refusal.code, Code::InvalidCapability, "{from}");
        }
        let without = parse::<NodeReport>(br#"{"node_id":"n"}"#).unwrap();
        assert!(without.endpoint("10.0.0.7".parse().unwrap(), &[]).unwrap().is_none());
    }

    #[test]
    fn the_scheduler_is_nobodys_endpoint() {
        let listeners = ["127.0.0.1:5010", "0.0.0.0:5011", "10.0.0.1:5012"];
        let listeners = listeners.map(|listener| listener.parse().unwrap());
        let endpoint = |url: &str| {
            let report = report(&format!(r#"{{"node_id":"n","endpoint":{url:?}}}"#));
            report.endpoint(HERE, &listeners).map_err(|refusal| refusal.code)
        };
        for own in [
            "http://127.0.0.1:5010/api/v1/nodes/n/drain",
            "http://localhost:5010/",
            "http://[::1]:5010/",
            "http://127.9.9.9:5011/",
        ] {
            assert_eq!(endpoint(own), Err(Code::InvalidCapability), "{own}");
        }
        for other in ["http://127.0.0.1:8000/", "http://127.0.0.1:5012/", "http://localhost/"] {
            assert!(endpoint(other).is_ok(), "{other}");
        }
        let on_80 = report(r#"{"node_id":"n","endpoint":"http://localhost/"}"#);
        assert!(on_80.endpoint(HERE, &["127.0.0.1:80".parse().unwrap()]).is_err());
    }

    #[test]
    fn what_is_told_replaces_and_what_is_not_told_stays() {
        let mut known = Abilities::default();
        let first =
            r#"{"node_id":"n","semantic_langs":["en"],"tts_langs":["en"],"nmt_pairs":"any"}"#;
        assert!(report(first).abilities(&mut known).unwrap());
        assert!(!report(r#"{"node_id":"n","health":"ready"}"#).abilities(&mut known).unwrap());
        assert!(report(r#"{"node_id":"n","tts_langs":[]}"#).abilities(&mut known).unwrap());
        assert_eq!(known.semantic.as_deref(), Some(&["en".to_owned()][..]));
        assert_eq!(known.tts.as_deref(), Some(&[][..]));
        assert!(matches!(known.nmt, Some(NmtField::Word(_))));
    }

    #[test]
    fn load_is_told_in_shares_and_kept_in_per_cent() {
        let mut told = report(r#"{"node_id":"n","current_load":{"gpu":0.5,"cpu":1}}"#);
        let beat = told.heartbeat().unwrap();
        assert_eq!((beat.percents.gpu, beat.percents.cpu), (Some(50.0), Some(100.0)));
        assert_eq!(beat.percents.mem, None);
        let mut told = report(r#"{"node_id":"n","current_load":{"mem":52}}"#);
        assert!(told.heartbeat().is_err_and(|r| r.detail.starts_with("current_load.mem")));
    }
}
