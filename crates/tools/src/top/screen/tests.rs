use super::super::news::News;
use super::super::state::View;
use super::super::state::tests::{full, stats};
use super::*;

const NOW: u64 = 10_000_000;

/// What a terminal of this size shows, line by line, and how much that is.
fn drawn(state: &State, width: usize, height: usize) -> (Vec<String>, Seen) {
    let (lines, seen) = draw(state, Palette { colours: true }, width, height);
    assert_eq!(lines.len(), height);
    let line = |line: &text::Line| line.cut(width).plain().trim_end().to_owned();
    (lines.iter().map(line).collect(), seen)
}

#[test]
fn a_usual_terminal_shows_the_overview() {
    let (lines, seen) = drawn(&full(NOW), 80, 24);
    assert_eq!(
        lines[..6],
        [
            "Lingua Scheduler  http://127.0.0.1:5010                           ● Live 1 s ago",
            "✕ 12 jobs for en → zh wait and no slot is free.",
            "  1 instance · 6 nodes ready · 38 people connected · 12.4 jobs a second",
            " 1 Overview  2 Pairs  3 Nodes  4 Sessions  5 Instances",
            "! 1 node failed too often.",
            "Jobs a second     12.4 5 open              ████████",
        ]
    );
    assert!(
        lines[23].starts_with(&format!("↓ {} more  q quit  ? keys", seen.last)),
        "{}",
        lines[23]
    );
    assert_eq!(seen.page, 19);
}

#[test]
fn a_narrow_one_stays_usable() {
    let mut state = full(NOW);
    let (lines, _) = drawn(&state, 40, 12);
    assert_eq!(
        lines[..4],
        [
            "Lingua Scheduler          ● Live 1 s ago",
            "✕ 12 jobs for en → zh wait and no slot",
            " 1 Overview  2  3  4  5",
            "! 1 node failed too often.",
        ]
    );
    state.view = View::Nodes;
    let (lines, _) = drawn(&state, 40, 16);
    assert!(lines.iter().any(|line| line == "gpu-3  ▲ degraded   0/8  open"), "{lines:#?}");
    // Nothing breaks where there is hardly any room.
    for (width, height) in [(1, 1), (3, 2), (10, 3), (20, 5)] {
        for view in View::ALL {
            state.view = view;
            drawn(&state, width, height);
        }
    }
}

#[test]
fn that_the_scheduler_is_away_is_said_plainly() {
    let mut state = State::new("http://127.0.0.1:5010");
    let refused = || News::Away { why: "Connection refused".into(), again_ms: 2_600 };
    state.hear(NOW, refused());
    let (lines, _) = drawn(&state, 80, 12);
    assert!(lines[0].ends_with("○ Not connected"), "{}", lines[0]);
    assert_eq!(
        lines[1],
        "The scheduler at http://127.0.0.1:5010 does not answer. Trying again in 3 s…"
    );
    assert_eq!(lines[2], "(Connection refused)");

    state.hear(NOW, News::Stats(Box::new(stats(NOW, "b1"))));
    state.hear(NOW + 4_000, refused());
    let (lines, _) = drawn(&state, 80, 24);
    let away = "The connection to the scheduler is lost. What you see is from 4 s ago. Trying";
    assert_eq!(lines[1], away);
    assert!(lines.iter().any(|line| line.starts_with("Jobs a second")), "the last figures stay");

    state.hear(NOW + 9_000, News::Stats(Box::new(stats(NOW + 9_000, "b2"))));
    let (lines, _) = drawn(&state, 80, 24);
    assert_eq!(lines[1], "Connected again: the scheduler has restarted.");
}

#[test]
fn scrolling_moves_the_view_and_help_is_in_front_of_it() {
    let mut state = full(NOW);
    let (before, seen) = drawn(&state, 80, 12);
    state.press(Press::Down, seen.page, seen.last);
    let (after, _) = drawn(&state, 80, 12);
    let top = before.iter().position(|line| line.starts_with(" 1 Overview")).unwrap() + 1;
    assert_eq!(before[top + 1], after[top]);
    state.press(Press::Help, seen.page, seen.last);
    let (help, _) = drawn(&state, 80, 24);
    assert!(help.iter().any(|line| line.starts_with("q, Ctrl-C   end")), "{help:#?}");
}

#[test]
fn keys_mean_what_the_help_says() {
    let pressed = |code| meaning(KeyEvent::new(code, KeyModifiers::NONE));
    assert_eq!(pressed(KeyCode::Char('q')), Some(Press::Quit));
    assert_eq!(pressed(KeyCode::Char('3')), Some(Press::Go(2)));
    assert_eq!(pressed(KeyCode::Tab), Some(Press::Next));
    assert_eq!(pressed(KeyCode::BackTab), Some(Press::Previous));
    assert_eq!(pressed(KeyCode::Char('x')), None);
    let control = |letter| meaning(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL));
    assert_eq!(control('c'), Some(Press::Quit));
    assert_eq!(control('q'), None);
}
