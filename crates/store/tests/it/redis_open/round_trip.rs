//! Everything that a store can do, once.

use super::*;

/// Does everything that a store can do, once.
pub(super) async fn round_trip(store: &Backend) -> Outcome {
    slots_round_trip(store).await?;
    jobs_round_trip(store).await?;
    owners_round_trip(store).await?;
    bus_round_trip(store).await?;
    let name = Name::new(chance())?;
    assert!(store.rates.first(&name, LONG).await?);
    let rate = Rate { interval: Duration::from_secs(1), burst: 1 };
    assert_eq!(store.rates.take(&name, rate).await?, Take::Allowed);
    assert!(store.revocations.add(&name, LONG).await?);
    assert_eq!(store.revocations.list().await?, [name]);
    // Longer than between two looks at the store's health, also on a busy machine.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(connection(&store.status.borrow()), Some(1), "{:?}", store.status.borrow());
    Ok(())
}

async fn slots_round_trip(store: &Backend) -> Outcome {
    let cursor = store.feed.changes(None, Duration::from_millis(1)).await?.cursor;
    let node = Node::join(store, 2).await?;
    assert_eq!(node.beat(store).await?, BeatReply::Kept { confirmed: true });
    let model = ModelId::new(chance())?;
    store.nodes.note_gap(&node.id, &model, LONG).await?;
    let token = token();
    let wish = lingua_store::slots::Wish {
        node: &node.id,
        token,
        version: node.version,
        models: &[model],
        lease: LONG,
    };
    let missing = lingua_store::slots::Refusal::MissingModel;
    let refused = store.slots.reserve(&wish).await?;
    assert_eq!(refused, lingua_store::slots::Reserve::Refused(missing));
    node.reserve(store, token).await?;
    let commit = store.slots.commit(&node.id, token, LONG).await?;
    assert!(matches!(commit, Commit::Committed(_)));
    assert!(store.slots.renew(&node.id, token, LONG).await?.is_some());
    node.confirm(store, &[token]).await?;
    assert_eq!(node.usage(store).await?, (0, 1));
    assert!(store.slots.release(&node.id, token).await?);
    let mut listed = 0;
    for shard in 0..NODE_SHARDS {
        listed += store.feed.shard(shard).await?.len();
    }
    assert_eq!(listed, 1);
    let changes = store.feed.changes(Some(&cursor), Duration::from_millis(1)).await?;
    assert_eq!(changes.nodes, std::slice::from_ref(&node.id));
    assert_eq!(store.nodes.offline(&node.id, node.epoch).await?, Fenced::Done);
    // Nodes that were never fresh for long are soon unseen for long.
    let brief = Node::join_brief(store).await?;
    eventually("the node to be forgotten", async || {
        Ok(store.nodes.forget(&brief, Duration::from_millis(1)).await?.then_some(()))
    })
    .await
}

async fn jobs_round_trip(store: &Backend) -> Outcome {
    let session = session();
    let id = job_of(&session);
    let new = NewJob {
        id,
        session: &session,
        epoch: None,
        first: None,
        deadline_in: LONG,
        keep_for: LONG,
    };
    store.deadlines.watch(&id, Duration::from_millis(1)).await?;
    assert!(matches!(store.jobs.create(&new).await?, Create::Created));
    assert!(matches!(store.jobs.create(&new).await?, Create::Exists(_)));
    let assignment = Assignment { node: node_id(), token: token() };
    assert_eq!(store.jobs.assign(&id, &assignment, 1).await?, Assign::Assigned);
    let ending = Ending { state: JobState::Done, code: String::new() };
    let by = EndedBy::Assignment(assignment.clone());
    assert_eq!(store.jobs.finish(&id, &by, &ending).await?, Finish::Finished);
    assert_eq!(store.jobs.get(&id).await?.expect("written").state, JobState::Done);
    eventually("the job to be due", async || {
        Ok(store.deadlines.due(16).await?.contains(&id).then_some(()))
    })
    .await?;
    store.deadlines.unwatch(&id).await?;
    let request = RequestId::new(chance())?;
    assert_eq!(store.requests.claim(session.tenant(), &request, &id, LONG).await?, id);
    let turn = TurnId::new(chance())?;
    store.turns.bind(&session, &turn, &assignment.node, LONG).await?;
    assert_eq!(store.turns.node(&session, &turn).await?, Some(assignment.node));
    Ok(())
}

async fn owners_round_trip(store: &Backend) -> Outcome {
    let (session, me) = (session(), instance());
    let epoch = store.owners.claim(&session, &me, LONG).await?.epoch;
    assert_eq!(store.owners.renew(&session, &me, epoch, LONG).await?, Fenced::Done);
    assert_eq!(store.owners.save(&session, epoch, b"state", LONG).await?, Fenced::Done);
    assert_eq!(store.owners.load(&session).await?.as_deref(), Some(&b"state"[..]));
    assert_eq!(store.owners.owner(&session).await?.expect("claimed").epoch, epoch);
    assert_eq!(store.owners.release(&session, epoch).await?, Fenced::Done);
    let lead = store.leaders.lead(Task::Janitor, &me, LONG).await?;
    let Lead::Leading { fence } = lead else { anyhow::bail!("{lead:?}") };
    Ok(store.leaders.resign(Task::Janitor, &me, fence).await?)
}

async fn bus_round_trip(store: &Backend) -> Outcome {
    let (me, other) = (instance(), instance());
    assert_eq!(store.presence.announce(&me, "here:1", LONG).await?, Announce::Announced);
    let twin = lingua_store::Instance { boot: me.boot.wrapping_add(1), ..me.clone() };
    let taken = store.presence.announce(&twin, "there:1", LONG).await?;
    assert!(matches!(taken, Announce::Taken { .. }));
    assert_eq!(store.presence.peers().await?.len(), 1);
    let envelope =
        Envelope { id: rand::random(), from: other.clone(), body: vec![1], live_for: LONG };
    assert_eq!(store.bus.send(&me, &envelope).await?, Posting::Posted);
    let came = store.bus.receive(&me, Duration::from_millis(1)).await?;
    assert_eq!(came.len(), 1);
    store.presence.withdraw(&me).await?;
    assert_eq!(store.bus.orphans().await?, std::slice::from_ref(&me));
    let left = store.bus.take_over(&me, &other, LONG).await?;
    assert!(matches!(left, TakeOver::Entries(left) if left.len() == 1));
    store.bus.ack(&me, &[came[0].entry.clone()]).await?;
    assert_eq!(store.bus.take_over(&me, &other, LONG).await?, TakeOver::Entries(vec![]));
    Ok(())
}
