use std::sync::Arc;

use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt;

use super::*;

/// Lines that got through: level and message.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(Level, String)>>>);

impl Seen {
    fn count(&self, message: &str) -> usize {
        self.0.lock().iter().filter(|(_, said)| said == message).count()
    }
}

impl<S: Subscriber> Layer<S> for Seen {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.0.lock().push((*event.metadata().level(), message_of(event)));
    }
}

/// What a test logs is limited by this one alone.
fn watched<T>(test: impl FnOnce(&Clock, &Repeats, &Seen) -> T) -> T {
    let clock = Clock::manual();
    let repeats = Arc::new(Repeats::new(clock.clone()));
    let seen = Seen::default();
    let filter: Arc<dyn Filter<tracing_subscriber::Registry> + Send + Sync> =
        Arc::clone(&repeats) as _;
    let subscriber = tracing_subscriber::registry().with(seen.clone().with_filter(filter));
    tracing::subscriber::with_default(subscriber, || test(&clock, &repeats, &seen))
}

#[test]
fn what_comes_too_often_is_held_back_and_told_once_the_window_is_over() {
    watched(|clock, repeats, seen| {
        for node in 0..1_244 {
            tracing::warn!(node, "a node is gone");
        }
        assert_eq!(seen.count("a node is gone"), 10);
        repeats.tell_due();
        assert_eq!(seen.0.lock().len(), 10, "the window is not over");
        clock.advance(WINDOW);
        repeats.tell_due();
        let last = seen.0.lock().last().cloned();
        assert_eq!(last, Some((Level::WARN, "… and 1234 more of these in 10 s".to_owned())));
        clock.advance(WINDOW);
        repeats.tell_due();
        assert_eq!(seen.0.lock().len(), 11, "told once");
    });
}

#[test]
fn after_a_window_a_line_is_said_again() {
    watched(|clock, repeats, seen| {
        let say = || tracing::info!("again");
        (0..12).for_each(|_| say());
        clock.advance(WINDOW);
        (0..12).for_each(|_| say());
        assert_eq!(seen.count("again"), 20);
        // What the first window held back is owed although the second has begun.
        repeats.tell_due();
        assert_eq!(seen.count("… and 2 more of these in 10 s"), 1);
        clock.advance(WINDOW);
        repeats.tell_due();
        assert_eq!(seen.count("… and 2 more of these in 10 s"), 2);
    });
}

#[test]
fn one_place_holds_back_no_other_and_errors_are_held_back_too() {
    watched(|_, repeats, seen| {
        for _ in 0..100 {
            tracing::error!("one");
        }
        tracing::error!("two");
        assert_eq!((seen.count("one"), seen.count("two")), (10, 1));
        let due = repeats.due(true);
        let held = Suppressed {
            level: Level::ERROR,
            target: module_path!(),
            message: "one".into(),
            count: 90,
        };
        assert_eq!(due, [held]);
        assert!(repeats.due(true).is_empty(), "told once");
    });
}

#[test]
fn whoever_asks_for_details_gets_them_all() {
    watched(|_, repeats, seen| {
        for _ in 0..100 {
            tracing::debug!("a step");
            tracing::trace!("a smaller step");
        }
        assert_eq!((seen.count("a step"), seen.count("a smaller step")), (100, 100));
        assert!(repeats.due(true).is_empty() && repeats.call_sites.lock().is_empty());
    });
}

#[test]
fn a_flood_leaves_one_entry_behind() {
    watched(|clock, repeats, _| {
        for n in 0..10_000 {
            tracing::info!(n, "flood");
            clock.advance(Duration::from_millis(7));
        }
        assert_eq!(repeats.call_sites.lock().len(), 1);
    });
}
