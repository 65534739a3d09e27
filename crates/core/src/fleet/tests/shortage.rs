//! What a fleet lacks, in words and as a code.

use super::*;

#[test]
fn a_shortage_names_the_services_that_nodes_list_as_not_ready() {
    let mut fleet = Fleet::default();
    let services_down = |kinds: &[&str], langs: &[&str]| {
        let services = kinds.iter().map(|kind| (ServiceKind::new(kind).unwrap(), false)).collect();
        let services = Declaration { services, ..writes(langs, 1) };
        let mut entry = entry(services);
        Arc::make_mut(&mut entry.profile).agent = 1;
        entry
    };
    let text = |fleet: &mut Fleet| fleet.shortage(&need("en", "zh")).map(|s| s.to_string());
    // Its languages are not known before its services run.
    fleet.put(id("cold"), services_down(&["semantic", "tone"], &[]));
    let cold =
        "No node supports semantic(en) + nmt(en->zh) (listed as not ready: semantic on 1 node).";
    assert_eq!(text(&mut fleet).unwrap(), cold);
    fleet.put(id("no-nmt"), services_down(&["nmt"], &["en", "zh"]));
    let both = "No node supports nmt(en->zh) (listed as not ready: nmt on 1 node).";
    assert_eq!(text(&mut fleet).unwrap(), both);
    fleet.put(id("no-nmt"), services_down(&[], &["en", "zh"]));
    assert_eq!(text(&mut fleet), None);
    fleet.remove(&id("no-nmt"));
    let mut theirs = services_down(&["semantic"], &[]);
    Arc::make_mut(&mut theirs.profile).private = true;
    fleet.put(id("private"), theirs);
    assert_eq!(text(&mut fleet).unwrap(), cold, "nobody learns of private nodes");
}

#[test]
fn what_passes_is_told_as_unavailable_and_what_does_not_as_not_capable() {
    use crate::outcome::Code;
    let mut fleet = fleet(2, 1);
    let code = |fleet: &mut Fleet| fleet.shortage(&need("en", "zh")).map(|s| s.code());
    assert_eq!(code(&mut fleet), None);
    let away = Standing { health: Health::Draining, ..Standing::READY };
    fleet.set_standing(&id("n0"), away.clone());
    fleet.set_standing(&id("n1"), away);
    assert_eq!(code(&mut fleet), Some(Code::NoCapableNode));
    fleet.set_standing(&id("n1"), Standing { fresh: false, ..Standing::READY });
    assert_eq!(code(&mut fleet), Some(Code::NodeUnavailable), "one is overdue");
    let pause = Standing { health: Health::Degraded, ..Standing::READY };
    fleet.set_standing(&id("n1"), pause);
    assert_eq!(code(&mut fleet), Some(Code::NodeUnavailable), "a pause ends");
    fleet.remove(&id("n1"));
    fleet.remove(&id("n0"));
    assert_eq!(code(&mut fleet), Some(Code::NoCapableNode));
}
