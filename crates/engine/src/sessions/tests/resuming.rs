//! Clients that come back while the store or an instance is in trouble, in virtual time.

use lingua_core::JobId;
use lingua_protocol::peer::{PeerEnded, PeerMessage};
use tokio::time::sleep;

use super::super::commands::{SessionCommand, channel};
use super::*;
use crate::job::Ended;
use crate::testing::{Faults, World, within};

fn resumable() -> Opening {
    let supports = Supports { resume: true, audio_ack: true, ..Supports::default() };
    Opening { supports, ..opening() }
}

fn with(token: String) -> Opening {
    let resume = Some(Resume { token, last_index: None, last_indexes: Vec::new() });
    Opening { resume, ..resumable() }
}

/// A client that says nothing and goes when it is dropped.
type Client = mpsc::Sender<FromClient>;

async fn try_open(engine: &Engine, opening: Opening) -> Result<Client, Refusal> {
    let (say, said) = mpsc::channel(8);
    let connection = TestConnection { said, told: Arc::default(), trap: "" };
    let opened = engine.sessions.open(opening, Box::new(connection)).await;
    opened.map(|()| say).map_err(|not| not.refusal)
}

fn token_of(engine: &Engine) -> String {
    let all = engine.sessions.all();
    assert_eq!(all.len(), 1);
    engine.sessions.token(&all[0])
}

/// Nothing of the store reaches the instance, nor what others say through it.
fn cut_off(faults: &Faults) {
    faults
        .down(&["claim", "renew", "owner", "load", "save", "receive", "send", "announce", "peers"]);
}

/// C8: what another instance told meanwhile must not be told again.
#[tokio::test(start_paused = true)]
pub(crate) async fn an_instance_without_the_store_does_not_take_back_what_another_had_since() {
    let world = World::new();
    let (a, faults) = world.instance("a", Settings::stable()).await;
    let (b, _) = world.instance("b", Settings::stable()).await;
    let client = try_open(&a, resumable()).await.unwrap();
    let first = token_of(&a);
    cut_off(&faults);
    drop(client);
    sleep(Duration::from_millis(100)).await;
    let client = try_open(&b, with(first)).await.unwrap();
    let second = token_of(&b);
    drop(client);
    let refused = try_open(&a, with(second.clone())).await.unwrap_err();
    assert_eq!(refused.code, Code::SchedulerDependencyDown);
    // Its token is as good as before.
    let _client = try_open(&b, with(second)).await.unwrap();
    assert_eq!(b.sessions.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_instance_without_the_store_goes_on_with_what_is_its_own() {
    let world = World::new();
    let (a, faults) = world.instance("a", Settings::stable()).await;
    let client = try_open(&a, resumable()).await.unwrap();
    let token = token_of(&a);
    cut_off(&faults);
    drop(client);
    sleep(Duration::from_millis(100)).await;
    let _client = try_open(&a, with(token)).await.unwrap();
    within(Duration::from_secs(1), "it is there", || a.sessions.all()[0].is_connected()).await;
    assert_eq!(a.sessions.count(), 1);
}

/// A store that does not answer for a moment costs nobody a session.
#[tokio::test(start_paused = true)]
async fn a_client_that_comes_back_while_the_store_is_away_keeps_its_token() {
    let world = World::new();
    let (a, _) = world.instance("a", Settings::stable()).await;
    let (b, faults) = world.instance("b", Settings::stable()).await;
    let client = try_open(&a, resumable()).await.unwrap();
    let token = token_of(&a);
    drop(client);
    faults.down(&["load"]);
    let refused = try_open(&b, with(token.clone())).await.unwrap_err();
    assert_eq!(refused.code, Code::SchedulerDependencyDown);
    faults.heal();
    let _client = try_open(&b, with(token)).await.unwrap();
    assert!(b.metrics().render().contains("lingua_sessions_opened_total{outcome=\"resumed\"} 1"));
}

/// An instance that stood still serves the attempts that its client gave up meanwhile, and then the one that it waits for.
#[tokio::test(start_paused = true)]
async fn attempts_that_were_given_up_do_not_spend_the_token() {
    let world = World::new();
    let (a, _) = world.instance("a", Settings::stable()).await;
    let (b, _) = world.instance("b", Settings::stable()).await;
    let mut client = try_open(&a, resumable()).await.unwrap();
    let token = token_of(&a);
    for engine in [&b, &b, &b, &a, &a, &a, &b] {
        drop(client);
        sleep(Duration::from_millis(100)).await;
        client = try_open(engine, with(token.clone())).await.unwrap();
    }
    let resumed = |engine: &Engine, often: u64| {
        let line = format!("lingua_sessions_opened_total{{outcome=\"resumed\"}} {often}");
        assert!(engine.metrics().render().contains(&line));
    };
    resumed(&a, 3);
    resumed(&b, 4);
    // Once it shows that it has a newer token, the old one is worth nothing.
    drop(client);
    let newer = token_of(&b);
    drop(try_open(&b, with(newer)).await.unwrap());
    drop(try_open(&b, with(token)).await.unwrap());
    resumed(&b, 5);
}

/// The state was there before the claim, and is still when it cannot be read behind it.
#[tokio::test(start_paused = true)]
async fn a_state_that_cannot_be_read_for_a_moment_is_not_a_lost_one() {
    let world = World::new();
    let (a, _) = world.instance("a", Settings::stable()).await;
    let (b, faults) = world.instance("b", Settings::stable()).await;
    let client = try_open(&a, resumable()).await.unwrap();
    let token = token_of(&a);
    drop(client);
    sleep(Duration::from_millis(100)).await;
    faults.delay("claim", Duration::from_millis(50));
    let (faulty, broken) = (b.clone(), with(token.clone()));
    let opening = tokio::spawn(async move { try_open(&faulty, broken).await.err() });
    sleep(Duration::from_millis(25)).await;
    faults.down(&["load"]);
    let refused = opening.await.unwrap().expect("it cannot be read");
    assert_eq!(refused.code, Code::SchedulerDependencyDown);
    faults.heal();
    let _client = try_open(&b, with(token)).await.unwrap();
    assert!(b.metrics().render().contains("lingua_sessions_opened_total{outcome=\"resumed\"} 1"));
}

/// The claim was carried out and its answer did not come: the session stays, and comes back.
#[tokio::test(start_paused = true)]
async fn a_claim_whose_answer_is_lost_is_nobody_elses() {
    let world = World::new();
    let (a, faults) = world.instance("a", Settings::stable()).await;
    let client = try_open(&a, resumable()).await.unwrap();
    let token = token_of(&a);
    drop(client);
    sleep(Duration::from_millis(100)).await;
    faults.unknown(&["claim"]);
    let refused = try_open(&a, with(token.clone())).await.unwrap_err();
    assert_eq!(refused.code, Code::SchedulerDependencyDown);
    faults.heal();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(a.sessions.count(), 1, "its renewal found its own claim");
    let _client = try_open(&a, with(token)).await.unwrap();
    assert_eq!(a.sessions.count(), 1);
}

/// The store has the epoch of a claim whose answer was lost, and refuses the jobs of every older one.
#[tokio::test(start_paused = true)]
async fn a_session_gets_the_epoch_of_a_claim_whose_answer_was_lost() {
    let world = World::new();
    let (a, faults) = world.instance("a", Settings::stable()).await;
    let client = try_open(&a, resumable()).await.unwrap();
    let (token, key) = (token_of(&a), a.sessions.all()[0].key.clone());
    drop(client);
    sleep(Duration::from_millis(100)).await;
    faults.unknown(&["claim"]);
    drop(try_open(&a, with(token.clone())).await.unwrap_err());
    faults.heal();
    faults.down(&["claim"]);
    let _client = try_open(&a, with(token)).await.unwrap();
    faults.heal();
    sleep(Duration::from_secs(10)).await;
    let owner = world.store.owners.owner(&key).await.unwrap().unwrap();
    assert_eq!(a.sessions.all()[0].epoch(), owner.epoch);
    assert_eq!(a.sessions.count(), 1);
}

/// S2: of two sockets with one token the one that owns the session is the one in the list.
#[tokio::test(start_paused = true)]
pub(crate) async fn two_sockets_with_one_token_leave_one_session_and_its_owner() {
    let world = World::new();
    let (a, _) = world.instance("a", Settings::stable()).await;
    let (b, faults) = world.instance("b", Settings::stable()).await;
    let client = try_open(&a, resumable()).await.unwrap();
    let (token, key) = (token_of(&a), a.sessions.all()[0].key.clone());
    drop(client);
    faults.delay("claim", Duration::from_millis(100));
    let (first, second) = (try_open(&b, with(token.clone())), try_open(&b, with(token)));
    let (first, second) = tokio::join!(first, second);
    assert!(first.is_ok() || second.is_ok());
    sleep(Duration::from_secs(1)).await;
    let all = b.sessions.all();
    let owner = world.store.owners.owner(&key).await.unwrap().unwrap();
    assert_eq!(all.iter().filter(|one| one.key == key).count(), 1);
    let listed = all.iter().find(|one| one.key == key).unwrap();
    assert_eq!((listed.epoch(), owner.instance), (owner.epoch, b.instance().clone()));
}

/// S5: an epoch is above all that the client knows, also where the store forgot them and its clock is
/// behind.
#[tokio::test(start_paused = true)]
pub(crate) async fn a_session_that_comes_back_at_a_promoted_server_has_a_higher_epoch() {
    let behind = MemoryStore::open(Clock::showing(1_000_000));
    let world = World::new();
    let store = crate::testing::Store::over(&world.store);
    let a = world.engine("a", &store, Settings::stable());
    world.join(&a).await;
    let client = try_open(&a, resumable()).await.unwrap();
    let (token, before) = (token_of(&a), a.sessions.all()[0].epoch());
    drop(client);
    sleep(Duration::from_millis(100)).await;
    store.fail_over_to(&behind);
    // As if the owner's record had not reached the replica.
    let _client = try_open(&a, with(token)).await.unwrap();
    within(Duration::from_secs(1), "it is there", || a.sessions.all()[0].is_connected()).await;
    assert!(a.sessions.all()[0].epoch() > before);
}

/// S9: a session that is busy is not one that is gone.
#[tokio::test(start_paused = true)]
pub(crate) async fn an_ending_waits_for_a_session_that_is_busy() {
    let key = SessionKey::new(opening().tenant, SessionId::new("s-1").unwrap());
    let (sender, mut commands) = channel();
    let handle = Arc::new(SessionHandle::new(key, sender, true, 0, &opening()));
    for _ in 0..100 {
        handle.save_again();
    }
    let job: JobId = "0123456789abcdefghjkmnpqrs".parse().unwrap();
    let told = Arc::clone(&handle);
    let ended = Ended::Cancelled("over".into());
    let telling = tokio::spawn(async move { told.job_ended(job, ended).await });
    sleep(Duration::from_secs(1)).await;
    assert!(!telling.is_finished());
    while let Some(command) = commands.recv().await {
        if matches!(*command, SessionCommand::Ended(..)) {
            break;
        }
    }
    assert!(telling.await.unwrap().is_ok());
}

/// S7: an ending that did not reach its session is brought again, by whoever sent it and by whoever
/// finds it in the inbox of a dead instance.
#[tokio::test(start_paused = true)]
pub(crate) async fn an_ending_that_nobody_took_is_brought_again() {
    let world = World::new();
    let (a, _) = world.instance("a", Settings::stable()).await;
    let (tenant, session) = (opening().tenant, SessionId::new("s-1").unwrap());
    let key = SessionKey::new(tenant.clone(), session.clone());
    let mut registration = a.sessions.register(&key, &resumable()).unwrap();
    let mut commands = registration.take_commands();
    let job: JobId = "0123456789abcdefghjkmnpqrs".parse().unwrap();
    let word = || PeerMessage::SessionJob {
        tenant: tenant.clone(),
        session: session.clone(),
        job,
        ended: PeerEnded::Empty { reason: "silence".into() },
    };
    let dead = Instance { id: "dead".parse().unwrap(), boot: 1 };
    a.cluster().on_undeliverable(&dead, word());
    a.cluster().on_taken_over(&dead, word());
    for _ in 0..2 {
        let command = tokio::time::timeout(Duration::from_secs(5), commands.recv()).await;
        let command = command.expect("it comes").expect("the session is open");
        assert!(matches!(*command, SessionCommand::Ended(of, Ended::Empty { .. }) if of == job));
    }
}
