//! What is revoked, over what a store may lose.
//!
//! The list is the store's. Every instance remembers what stood there: if the store loses it, all of it
//! or the last moment before a failover, what was revoked stays so, and the store is told again. Only
//! if it is lost together with all instances is it gone.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use lingua_engine::Engine;
use lingua_store::rates::Name;
use lingua_store::revocations::MAX_REVOCATIONS;

use super::Role;
use super::authenticator::Authenticator;

/// Beyond the longest life of a token: clocks differ.
const BEYOND_S: u64 = 3_600;

/// Stands on every list. One without it is new, or lost what it had.
const HERE: &str = "list:here";
const HERE_FOR: Duration = Duration::from_secs(300 * 24 * 3_600);

/// What stood on the list.
#[derive(Default)]
pub(super) struct Remembered {
    known: HashMap<Name, Seen>,
    has_begun: bool,
}

struct Seen {
    /// For the first time, in epoch seconds.
    at: u64,
    /// It was put there while this instance looked: until when it has to be there is known.
    put: bool,
}

impl Remembered {
    /// Takes over what is listed. Says what the store has to be told again, and for how long.
    fn follow(&mut self, listed: &[Name], now_s: u64, keep_s: u64) -> Vec<(Name, Duration)> {
        let put = self.has_begun;
        self.has_begun = true;
        let is_whole = listed.iter().any(is_here);
        let there: HashSet<&Name> = listed.iter().filter(|mark| !is_here(mark)).collect();
        for mark in &there {
            // A store that loses its list again and again does not fill this one.
            if self.known.len() < 2 * MAX_REVOCATIONS {
                self.known.entry((*mark).clone()).or_insert(Seen { at: now_s, put });
            }
        }
        // No token lives longer than that, and what was there before has ended by itself.
        self.known.retain(|mark, seen| {
            let counts = there.contains(mark) || seen.put || !is_whole;
            counts && now_s < seen.at + keep_s
        });
        let lost = self.known.iter().filter(|(mark, _)| !there.contains(mark));
        let lost = lost.map(|(mark, seen)| (mark.clone(), seen.at + keep_s - now_s));
        lost.map(|(mark, for_s)| (mark, Duration::from_secs(for_s))).collect()
    }
}

fn is_here(mark: &Name) -> bool {
    mark.as_str() == HERE
}

/// The marks that mean a token.
pub(crate) fn of_tokens(marks: &[Name]) -> impl Iterator<Item = &Name> {
    marks.iter().filter(|mark| !is_here(mark))
}

impl Authenticator {
    /// How long something revoked has to be known.
    pub(crate) fn revoked_for(&self) -> Duration {
        let longest = Role::ALL.map(|role| self.life_s(role));
        Duration::from_secs(longest.into_iter().max().unwrap_or_default() + BEYOND_S)
    }

    /// The mark that revokes all tokens of a subject that are good at this moment. One whose `nbf` lies
    /// ahead by no more than clocks may differ is among them.
    pub(crate) fn mark_of_subject(&self, role: Role, subject: &str, now_s: u64) -> String {
        let until = now_s.saturating_add(self.rules().leeway_s);
        format!("sub:{}:{subject}:{until}", role.as_str())
    }

    /// Takes over the store's list, without forgetting what the store may have lost; what it has to be
    /// told again.
    pub(crate) fn follow(&self, listed: &[Name], now_s: u64) -> Vec<(Name, Duration)> {
        let mut remembered = self.remembered.lock();
        let mut lost = remembered.follow(listed, now_s, self.revoked_for().as_secs());
        let all: Vec<Name> =
            listed.iter().cloned().chain(lost.iter().map(|l| l.0.clone())).collect();
        drop(remembered);
        self.revoke(&all, now_s);
        if !lost.is_empty() {
            tracing::warn!(count = lost.len(), "the store lost revoked tokens; it is told again");
        }
        if !listed.iter().any(is_here) {
            lost.extend(Name::new(HERE).ok().map(|here| (here, HERE_FOR)));
        }
        lost
    }
}

/// Reads what is revoked from the store, again and again.
pub(crate) async fn follow_revocations(
    authenticator: Arc<Authenticator>,
    engine: Engine,
    every: Duration,
) {
    loop {
        tokio::time::sleep(every).await;
        let now_s = engine.now_ms() / 1_000;
        if authenticator.is_open() {
            // There are no tokens, but there may be certificates.
            authenticator.dismiss_expired(now_s);
            continue;
        }
        let revocations = &engine.store().revocations;
        match revocations.list().await {
            Ok(listed) => {
                for (mark, keep_for) in authenticator.follow(&listed, now_s) {
                    // What fails is missed again the next time.
                    if revocations.add(&mark, keep_for).await.is_err() {
                        break;
                    }
                }
            }
            // What was known stays known; tokens still expire.
            Err(error) => {
                tracing::debug!(%error, "revoked tokens could not be read");
                authenticator.dismiss_expired(now_s);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: u64 = 1_000;

    fn names(names: &[&str]) -> Vec<Name> {
        names.iter().map(|name| Name::new(*name).unwrap()).collect()
    }

    fn told_again(remembered: &mut Remembered, listed: &[&str], now_s: u64) -> Vec<(String, u64)> {
        let lost = remembered.follow(&names(listed), now_s, KEEP);
        let mut lost: Vec<_> = lost
            .into_iter()
            .map(|(mark, left)| (mark.as_str().to_owned(), left.as_secs()))
            .collect();
        lost.sort();
        lost
    }

    #[test]
    fn a_list_that_is_lost_is_told_again_until_its_tokens_are_over() {
        let mut remembered = Remembered::default();
        assert_eq!(told_again(&mut remembered, &[HERE, "jti:old"], 100), []);
        assert_eq!(told_again(&mut remembered, &[HERE, "jti:old", "jti:new"], 200), []);
        let both = [("jti:new".to_owned(), 950), ("jti:old".to_owned(), 850)];
        assert_eq!(told_again(&mut remembered, &[], 250), both);
        assert_eq!(told_again(&mut remembered, &[HERE, "jti:old", "jti:new"], 300), []);
        let one = [("jti:new".to_owned(), 1)];
        assert_eq!(told_again(&mut remembered, &[], 1_199), one);
        assert_eq!(told_again(&mut remembered, &[], 1_200), []);
        assert!(remembered.known.is_empty());
    }

    #[test]
    fn what_ended_by_itself_does_not_come_back_but_what_a_failover_lost_does() {
        let mut remembered = Remembered::default();
        told_again(&mut remembered, &[HERE, "jti:old"], 100);
        told_again(&mut remembered, &[HERE, "jti:old", "jti:new"], 200);
        // The old one's time was known to the store alone.
        let new = [("jti:new".to_owned(), 990)];
        assert_eq!(told_again(&mut remembered, &[HERE], 210), new);
        assert_eq!(told_again(&mut remembered, &[], 211).len(), 1);
    }
}
