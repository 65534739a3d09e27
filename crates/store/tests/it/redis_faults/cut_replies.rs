//! Replies that are cut off, and connections that are killed: a step is unknown, and its repetition tells.

use super::*;

/// Repeats a call whose reply is cut off after so many bytes, and gives its second answer.
async fn cut<T: std::fmt::Debug, F>(
    proxy: &FaultProxy,
    after_bytes: usize,
    mut call: impl FnMut() -> F,
) -> anyhow::Result<T>
where
    F: Future<Output = lingua_store::Result<T>>,
{
    proxy.cut_in_mid_reply(after_bytes);
    let first = call().await;
    assert!(matches!(first, Err(Error::Unknown(_))), "after {after_bytes} bytes: {first:?}");
    answered(call).await
}

/// Flaw 10.
#[tokio::test]
async fn a_step_whose_reply_is_cut_off_is_unknown_and_its_repetition_tells() -> Outcome {
    let server = RedisServer::start().await?;
    let proxy = FaultProxy::start(server.addr()).await?;
    let store = open_quiet(&proxy).await?;
    let sure = open(&server.url()).await?;
    warm_up(&sure).await?;
    for bytes in [0, 1, 4, 6] {
        let node = Node::join(&sure, 2).await?;
        let token = token();
        let again = cut(&proxy, bytes, || node.ask(&store, token, LONG)).await?;
        assert!(matches!(again, Reserve::Already { .. }), "{again:?}");
        assert_eq!(node.usage(&sure).await?, (1, 0), "one slot");

        let commit = || store.slots.commit(&node.id, token, LONG);
        let again = cut(&proxy, bytes, commit).await?;
        assert!(matches!(again, Commit::Already(_)), "{again:?}");
        assert_eq!(node.usage(&sure).await?, (0, 1), "one slot");

        let renew = || store.slots.renew(&node.id, token, LONG);
        assert!(cut(&proxy, bytes, renew).await?.is_some());

        let release = || store.slots.release(&node.id, token);
        assert!(!cut(&proxy, bytes, release).await?, "it was free by the first");
        assert_eq!(node.usage(&sure).await?, (0, 0));
        assert_eq!(node.ask(&store, token, LONG).await?, Reserve::Spent);
    }
    Ok(())
}

/// Flaw 10.
#[tokio::test]
async fn jobs_owners_and_envelopes_survive_cut_off_replies_as_if_sent_once() -> Outcome {
    let server = RedisServer::start().await?;
    let proxy = FaultProxy::start(server.addr()).await?;
    let store = open_quiet(&proxy).await?;
    let sure = open(&server.url()).await?;
    warm_up(&sure).await?;
    for bytes in [0, 1, 4, 6] {
        let (me, session) = (instance(), session());
        let epoch = sure.owners.claim(&session, &me, LONG).await?.epoch;
        let renew = || store.owners.renew(&session, &me, epoch, LONG);
        assert_eq!(cut(&proxy, bytes, renew).await?, Fenced::Done);
        let owner = sure.owners.owner(&session).await?.expect("renewed");
        assert_eq!((owner.instance, owner.epoch), (me.clone(), epoch));

        let id = job_of(&session);
        let new = NewJob {
            id,
            session: &session,
            epoch: Some(epoch),
            first: None,
            deadline_in: LONG,
            keep_for: LONG,
        };
        let again = cut(&proxy, bytes, || store.jobs.create(&new)).await?;
        assert!(matches!(again, Create::Exists(_)), "{again:?}");
        let assignment = Assignment { node: node_id(), token: token() };
        let assign = || store.jobs.assign(&id, &assignment, 1);
        assert_eq!(cut(&proxy, bytes, assign).await?, Assign::Assigned);
        let by = EndedBy::Assignment(assignment);
        let ending = Ending { state: JobState::Done, code: String::new() };
        let finish = || store.jobs.finish(&id, &by, &ending);
        assert_eq!(cut(&proxy, bytes, finish).await?, Finish::Repeated);

        assert_eq!(sure.presence.announce(&me, "here:1", LONG).await?, Announce::Announced);
        let envelope = envelope();
        let send = || store.bus.send(&me, &envelope);
        assert_eq!(cut(&proxy, bytes, send).await?, Posting::Posted);
        let came = sure.bus.receive(&me, Duration::from_millis(1)).await?;
        assert_eq!(came.iter().map(|one| one.id).collect::<Vec<_>>(), [envelope.id]);
    }
    Ok(())
}

/// Flaw 10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_killed_under_load_neither_lose_nor_double_a_slot() -> Outcome {
    let server = RedisServer::start().await?;
    let stores = [open(&server.url()).await?, open(&server.url()).await?];
    let node = Node::join(&stores[0], 2).await?;
    let load = Load::start(&stores, &node, 4);
    for _ in 0..20 {
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]).await?.into_result()?;
        load.more(3).await?;
    }
    assert!(load.errors() > 0, "some calls were hit");
    assert_eq!(load.observer.peak(), 2, "every slot was used and none twice");
    load.stop().await?;
    assert_eq!(node.usage(&stores[0]).await?, (0, 0), "nothing is left over");
    Ok(())
}
