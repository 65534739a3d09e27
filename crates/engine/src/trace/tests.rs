use std::time::Duration;

use lingua_core::{SessionId, TenantId};

use super::*;

fn tracer(share: f64) -> (Arc<Tracer>, mpsc::Receiver<Span>, Arc<Metrics>) {
    let metrics = Arc::new(Metrics::default());
    let (tracer, spans) =
        Tracer::new(share, Arc::clone(&metrics), &Clock::manual(), Chance::system());
    (Arc::new(tracer), spans, metrics)
}

fn session(n: u32) -> SessionKey {
    let tenant = TenantId::new("default").unwrap();
    SessionKey::new(tenant, SessionId::new(format!("s-{n}")).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_step_is_within_what_it_is_a_step_of() {
    let (tracer, mut spans, _) = tracer(1.0);
    let mut job = tracer.begin("job", Kind::Server, None);
    let context = job.context();
    tokio::time::advance(Duration::from_millis(2)).await;
    let mut attempt = job.child("attempt", Kind::Client);
    attempt.note("attempt", 1);
    tokio::time::advance(Duration::from_millis(3)).await;
    attempt.ends("JOB_TIMEOUT");
    drop(attempt);
    job.ends("ok");
    job.child("place", Kind::Internal).discard();
    drop(job);
    let (attempt, job) = (spans.try_recv().unwrap(), spans.try_recv().unwrap());
    assert!(spans.try_recv().is_err(), "what is forgotten is not told");
    assert_eq!((job.context, job.parent, job.failed), (context, None, false));
    assert_eq!((attempt.parent, attempt.failed), (Some(context.span), true));
    assert_eq!(attempt.context.trace, context.trace);
    assert_ne!(attempt.context.span, context.span);
    assert_eq!(attempt.start_ns - job.start_ns, 2_000_000);
    assert_eq!((attempt.end_ns - attempt.start_ns, job.end_ns), (3_000_000, attempt.end_ns));
    let said = [("attempt", Value::Number(1)), ("reason", Value::Text("JOB_TIMEOUT".into()))];
    assert_eq!(attempt.attributes, said);
}

#[tokio::test]
async fn a_callers_trace_goes_on() {
    let (tracer, _spans, _) = tracer(0.0);
    let caller = Context::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
    let mut live = tracer.begin("job", Kind::Server, Some(caller));
    assert_eq!(live.context().trace, caller.trace);
    assert_eq!(live.span().parent, Some(caller.span));
    assert_ne!(live.context().span, caller.span);
}

#[tokio::test]
async fn the_share_is_kept_and_a_session_has_one_lot() {
    let secret = Secret::from_seed(b"seed");
    let chosen = |share: f64| {
        let (tracer, ..) = tracer(share);
        (0..10_000).filter(|n| tracer.chooses(&session(*n), &secret)).collect::<Vec<_>>()
    };
    assert_eq!((chosen(0.0).len(), chosen(1.0).len()), (0, 10_000));
    let tenth = chosen(0.1);
    // Ten standard deviations.
    assert!((700..1_300).contains(&tenth.len()), "{}", tenth.len());
    assert_eq!(chosen(0.1), tenth, "every instance decides the same");
    let fifth = chosen(0.2);
    assert!(tenth.iter().all(|n| fifth.contains(n)), "a larger share only adds");
}

#[tokio::test]
async fn what_nobody_reads_is_dropped_and_counted() {
    let (tracer, mut spans, metrics) = tracer(1.0);
    for _ in 0..MOST_WAITING + 3 {
        drop(tracer.begin("job", Kind::Server, None));
    }
    assert!(metrics.render().contains("lingua_spans_total{outcome=\"dropped\"} 3\n"));
    let read = std::iter::from_fn(|| spans.try_recv().ok()).count();
    assert_eq!(read, MOST_WAITING);
}
