//! Nodes to which jobs are pushed, and many nodes at once.

use super::*;

#[tokio::test]
async fn a_pushed_job_goes_from_hand_in_to_result() {
    let (app, api) = start(calm()).await;
    let endpoint = Endpoint::start().await;
    let node =
        PollingNode::register_as(&api, with(&node("pushed"), json!({"endpoint": endpoint.url()})))
            .await;
    for i in 0..20 {
        let handed_in = hand_in(&api, &job(&format!("s{i}"))).await;
        let assign = endpoint.next().await;
        assert_eq!((&assign["type"], &assign["audio"]), (&json!("job_assign"), &json!("AAEC")));
        assert_eq!(node.ack(&assign).await.status, 200);
        assert_eq!(node.done(&assign, json!({"text_asr": i})).await.status, 200);
        assert_eq!(ended(&api, &handed_in).await["result"]["text_asr"], i);
    }
    let asked = node.ask(0).await;
    assert_eq!((asked.status, &asked.body["error"]), (409, &json!("CONFLICT")));

    let handed_in = hand_in(&api, &job("cancelled")).await;
    let assign = endpoint.next().await;
    let id = handed_in["job_id"].as_str().unwrap();
    assert_eq!(api.delete(&format!("/v1/job/{id}")).await.body["state"], "CANCELLED");
    let cancel = endpoint.next().await;
    assert_eq!((&cancel["type"], &cancel["job_id"]), (&json!("job_cancel"), &assign["job_id"]));
    app.finish().await;
}

#[tokio::test]
async fn an_endpoint_that_does_not_take_a_job_fails_the_attempt_at_once() {
    let mut settings = calm();
    settings.timing.ack_ms = 2_000;
    settings.timing.reserve_lease_ms = 3_000;
    settings.timing.deadline_ms = 12_000;
    settings.timing.check().unwrap();
    let endpoint = Endpoint::start().await;
    endpoint.answer(500);
    let nowhere = lingua_lab::ports::free_port().unwrap();
    let nowhere = format!("http://127.0.0.1:{nowhere}/jobs");
    for url in [endpoint.url(), nowhere] {
        let (app, api) = start(settings.clone()).await;
        PollingNode::register_as(&api, with(&node("deaf"), json!({"endpoint": url}))).await;
        let good = PollingNode::register(&api, "good").await;
        let began = Instant::now();
        let request = with(&job("s"), json!({"options": {"preferred_node_id": "deaf"}}));
        let handed_in = hand_in(&api, &request).await;
        assert_eq!(handed_in["node_id"], "deaf");
        let assign = good.job().await;
        assert!(began.elapsed() < Duration::from_millis(1_900), "{:?}", began.elapsed());
        assert_eq!(good.done(&assign, json!({})).await.status, 200);
        let ended = ended(&api, &handed_in).await;
        assert_eq!(ended["attempts"][0]["outcome"], "NODE_UNAVAILABLE", "{ended}");
        assert_eq!(view(&api, "deaf").await["failed"], 1);
        app.finish().await;
    }
}

#[tokio::test]
async fn a_node_that_acks_before_its_endpoint_answers_keeps_the_job() {
    let (app, api) = start(calm()).await;
    let endpoint = Endpoint::start().await;
    endpoint.delay(1_500);
    let node =
        PollingNode::register_as(&api, with(&node("slow"), json!({"endpoint": endpoint.url()})))
            .await;
    let handed_in = hand_in(&api, &job("s")).await;
    let assign = endpoint.next().await;
    assert_eq!(node.ack(&assign).await.status, 200);
    sleep(Duration::from_millis(1_300)).await;
    assert_eq!(node.done(&assign, json!({})).await.status, 200);
    let view = ended(&api, &handed_in).await;
    assert_eq!((&view["state"], &view["attempt_id"]), (&json!("DONE"), &json!(1)), "{view}");
    app.finish().await;
}

/// Takes jobs until none come, each answered in one of several ways.
async fn work(node: PollingNode) -> usize {
    let mut done = 0;
    loop {
        let reply = node.ask(1_500).await;
        if reply.status == 204 {
            return done;
        }
        let message = reply.body;
        if message["type"] != "job_assign" {
            continue;
        }
        done += 1;
        match done % 7 {
            0 => drop(node.fail(&message, "TTS_TIMEOUT").await),
            1 => drop(node.fail(&message, "BUSY").await),
            2 => drop(node.done(&message, json!({})).await),
            _ => {
                node.ack(&message).await;
                node.done(&message, json!({"text_asr": "x"})).await;
            }
        }
        // What a node says it runs now and then: nothing, at this moment.
        assert_eq!(node.heartbeat(json!({})).await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_jobs_over_many_nodes_all_end_and_leave_nothing() {
    let mut settings = calm();
    settings.timing.queue_max_ms = 2_000;
    settings.timing.deadline_ms = 10_000;
    settings.breaker.failures = 1_000;
    let (app, api) = start(settings).await;
    let mut nodes = Vec::new();
    for i in 0..4 {
        nodes.push(tokio::spawn(work(PollingNode::register(&api, &format!("n{i}")).await)));
    }
    let jobs = (0..120).map(|i| {
        let api = api.clone();
        tokio::spawn(async move {
            let wait = json!({"options": {"wait_ms": 9_000}});
            let reply = api.post("/v1/dispatch/f2f", &with(&job(&format!("s{i}")), wait)).await;
            match reply.status {
                200 => reply.body["job"]["state"].as_str().unwrap().to_owned(),
                _ => reply.body["error"].as_str().unwrap().to_owned(),
            }
        })
    });
    let mut endings = std::collections::BTreeMap::new();
    for job in jobs.collect::<Vec<_>>() {
        *endings.entry(job.await.unwrap()).or_insert(0) += 1;
    }
    let over = ["DONE", "FAILED", "ALL_NODES_BUSY"];
    assert!(endings.keys().all(|ending| over.contains(&ending.as_str())), "{endings:?}");
    assert!(endings["DONE"] >= 60, "{endings:?}");
    for node in nodes {
        assert!(node.await.unwrap() > 0);
    }
    app.finish().await;
}
