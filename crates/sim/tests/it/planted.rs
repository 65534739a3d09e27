//! Old flaws are found again by simulation.

use lingua_core::planted::Flaw;
use lingua_sim::planted::hunt;

/// Flaws that are found soonest, each with a seed whose world found it once.
const QUICKEST: &[(Flaw, u64)] = &[
    (Flaw::IndexReused, 0),
    (Flaw::OrderNotKept, 1),
    (Flaw::StalePauseTimerCuts, 1),
    (Flaw::TakeoverBeginsAtZero, 3),
    (Flaw::AttemptNumberReused, 9),
    (Flaw::GivenUpNotStopped, 11),
    (Flaw::SeenToldAgain, 24),
];

/// Worlds in which one of them has to be found, should the world of its seed have changed.
const WORLDS: u64 = 60;

#[test]
fn the_flaws_that_are_found_soonest_are_found() {
    let mut missed = Vec::new();
    for (flaw, seed) in QUICKEST {
        match hunt(*flaw, std::iter::once(*seed).chain(0..WORLDS)) {
            Some(found) => {
                println!("{flaw:32} {:>6} worlds: {}", found.worlds, found.broken.promise)
            }
            None => missed.push(*flaw),
        }
    }
    assert_eq!(missed, []);
}

/// The table of all flaws by hand: `LINGUA_SIM_PLANTED=N` worlds for each.
#[test]
fn every_flaw_is_found_that_is_asked_for() {
    let asked = std::env::var("LINGUA_SIM_PLANTED").ok();
    let worlds: u64 = asked.map_or(0, |text| text.parse().expect("a number of worlds"));
    let mut missed = Vec::new();
    for flaw in Flaw::ALL.iter().filter(|_| worlds > 0) {
        match hunt(*flaw, 0..worlds) {
            Some(found) => println!(
                "{flaw:32} {:>6} worlds, {}: {}",
                found.worlds, found.broken.promise, found.broken.text
            ),
            None => missed.push(flaw.name()),
        }
    }
    assert!(missed.is_empty(), "not found in {worlds} worlds: {}", missed.join(" "));
}
