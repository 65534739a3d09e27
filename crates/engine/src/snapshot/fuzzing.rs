//! What an instance says of itself, as a target for `fuzz/`.

use super::merge::{Fleet, Maker, merge};
use super::part::Part;
use super::view::Snapshot;

/// A part is put together with itself, whatever it says.
pub(crate) fn part(data: &[u8]) {
    let Ok(part) = serde_json::from_slice::<Part>(data) else { return };
    let maker = || Maker { at_ms: 1_000_000, fence: 1, leader: "a".into(), interval_ms: 1_000 };
    let fleet = Fleet { pairs: &[], serves: &|_, _| true };
    let before = merge(maker(), &[part.clone(), part.clone()], &fleet, None);
    let snapshot = merge(maker(), &[part], &fleet, Some(&before));
    let text = serde_json::to_vec(&snapshot).expect("a snapshot has only string keys");
    serde_json::from_slice::<Snapshot>(&text).expect("every instance reads what the leader wrote");
}
