use super::*;

fn options(store: Store, seed: u64) -> Options {
    Options {
        program: "lingua".into(),
        dir: "".into(),
        store,
        lasts: Duration::from_secs(600),
        faults: 150,
        seed,
        only: Vec::new(),
        schedulers: 3,
        nodes: 30,
        slots: 2,
        speakers: 200,
    }
}

#[test]
fn the_same_seed_draws_the_same_faults_and_another_draws_others() {
    let one = Plan::draw(&options(Store::Cluster, 7));
    assert_eq!(one, Plan::draw(&options(Store::Cluster, 7)));
    assert_ne!(one, Plan::draw(&options(Store::Cluster, 8)));
}

#[test]
fn nearly_all_faults_find_a_place_and_every_kind_happens() {
    for store in [Store::Standalone, Store::Sentinel, Store::Cluster] {
        let mut all = Vec::new();
        for seed in 0..5 {
            let plan = Plan::draw(&options(store, seed));
            assert!(plan.faults.len() >= 140, "{store}: {}", plan.faults.len());
            all.extend(plan.faults);
        }
        for kind in Kind::ALL {
            let happens = all.iter().any(|planned| planned.fault.kind() == kind);
            assert_eq!(happens, kind.happens_on(store), "{} on {store}", kind.word());
        }
    }
}

#[test]
fn some_scheduler_is_always_there_and_the_store_is_hurt_once_at_a_time() {
    for seed in 0..20 {
        let plan = Plan::draw(&options(Store::Sentinel, seed));
        for one in &plan.faults {
            let lasts = |other: &&Planned| {
                other.at_ms <= one.at_ms && one.at_ms <= other.at_ms + other.lasts_ms
            };
            let lasting: Vec<_> = plan.faults.iter().filter(lasts).map(|p| p.fault).collect();
            let away = lasting.iter().filter(|fault| fault.takes_a_scheduler()).count();
            assert!(away <= 2, "{away} schedulers are away at {one}");
            assert!(lasting.iter().filter(|fault| fault.hurts_the_store()).count() <= 1, "{one}");
        }
        assert!(plan.faults.iter().all(|p| p.at_ms + p.lasts_ms <= 601_000));
    }
}

#[test]
fn only_what_is_asked_for_is_drawn_and_words_are_read_back() {
    let mut only = options(Store::Standalone, 1);
    only.only = vec![Kind::KillScheduler];
    only.faults = 20;
    let plan = Plan::draw(&only);
    assert!(plan.faults.len() >= 18);
    assert!(plan.faults.iter().all(|planned| planned.fault.kind() == Kind::KillScheduler));
    for kind in Kind::ALL {
        assert_eq!(kind.word().parse(), Ok(kind));
    }
    assert!("rain".parse::<Kind>().unwrap_err().contains("kill-scheduler"));
    let fault = plan.faults[0].clone();
    let text = serde_json::to_string(&fault).unwrap();
    assert_eq!(serde_json::from_str::<Planned>(&text).unwrap(), fault);
}
