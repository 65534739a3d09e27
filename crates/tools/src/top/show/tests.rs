use super::super::news::{News, Nodes, Sessions};
use super::super::state::tests::{full, stats};
use super::*;

const NOW: u64 = 10_000_000;

fn text(lines: &[Line]) -> Vec<String> {
    lines.iter().map(Line::plain).collect()
}

#[test]
fn plain_text_has_all_essentials() {
    let text = plain(&full(NOW));
    for wanted in [
        "✕ 12 jobs for en → zh wait and no slot is free.\n",
        "1 instance · 6 nodes ready · 38 people connected · 12.4 jobs a second\n",
        "! 1 node failed too often.\n",
        "Jobs a second     12.4 5 open              ████████\n",
        "Succeeded       96.7 % in the last minute",
        "Slots in use        31 of 48",
        "Sessions            40 38 connected",
        "job       1.25 ms  420 ms  1.5 s     40\n",
        "ok                                 480  ██",
        "JOB_TIMEOUT                         16  ██\n",
        "3 s ago  JOB_TIMEOUT  en → zh    gpu-3",
        "en → zh  ▲ jobs queued       0      8      12",
        "ko → zh  ∅ no node ready",
        "gpu-1  ● ready      3/8  closed      412 ms  1,234       5  eu-1      en zh\n",
        "gpu-3  ▲ degraded   0/8  open",
        "  └ it failed too often and gets no jobs for 1 s\n",
        "! Instance eu-3 did not answer: its sessions are not shown.\n",
        "s-2      en → zh    ◐ disconnected, may resume  eu-2",
        "2 of 1,234 shown\n",
        "eu-1 (this one)  ● running      7        20          5      12  2,345",
        "eu-2             ○ missing",
        "  └ leader of: deadlines, snapshot\n",
    ] {
        assert!(text.contains(wanted), "no {wanted:?} in\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "plain is plain");
}

#[test]
fn the_matrix_is_there_where_it_fits_and_the_list_always() {
    let state = full(NOW);
    let palette = Palette { colours: true };
    let wide = view(&state, View::Pairs, 80, palette);
    assert_eq!(
        text(&wide)[..4],
        [
            "     de         en         zh         ",
            "de   ·          ● 6/8      ·          ",
            "en   ◐ 1/8      ·          ▲ 0/8 +12  ",
            "ko   ·          ·          ∅ 0/8      ",
        ]
    );
    let starved = wide[2].spans.iter().find(|span| span.text.starts_with('▲')).unwrap();
    assert_eq!(starved.style.colour, Some(Color::Red));
    let narrow = text(&view(&state, View::Pairs, 36, palette));
    assert!(narrow[0].starts_with("Pair"), "{}", narrow[0]);
    assert!(narrow[1].starts_with("en → zh  ▲ jobs queued"), "trouble first: {}", narrow[1]);
    assert!(narrow[1].ends_with(" 12"), "{}", narrow[1]);
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let state = full(NOW);
    for width in [30, 40, 60, 80, 100, 160] {
        for one in View::ALL {
            for line in view(&state, one, width, Palette { colours: true }) {
                assert!(cells(&line.plain()) <= width, "{one:?} at {width}: {:?}", text(&[line]));
            }
        }
        for line in frame::head(&state, width, true, Palette { colours: true }) {
            assert!(cells(&line.plain()) <= width, "the head at {width}: {:?}", text(&[line]));
        }
    }
}

#[test]
fn without_colours_signs_and_words_say_the_same() {
    let state = full(NOW);
    for one in View::ALL {
        let [plain, bright] =
            [false, true].map(|colours| view(&state, one, 80, Palette { colours }));
        assert_eq!(text(&plain), text(&bright));
        let coloured = |lines: &[Line]| {
            lines.iter().flat_map(|line| &line.spans).any(|span| span.style.colour.is_some())
        };
        assert!(!coloured(&plain) && coloured(&bright), "{one:?}");
    }
}

#[test]
fn lists_are_sorted_as_asked() {
    use super::super::state::Press;
    let mut state = full(NOW);
    let first = |state: &State| {
        let lines = text(&view(state, View::Nodes, 80, Palette { colours: false }));
        lines[1].split(' ').next().unwrap_or_default().to_owned()
    };
    state.press(Press::Go(2), 10, 10);
    assert_eq!(first(&state), "gpu-1");
    state.press(Press::Sort, 10, 10);
    assert_eq!(first(&state), "gpu-3", "the state that needs somebody");
    state.press(Press::Sort, 10, 10);
    assert_eq!(first(&state), "gpu-2", "the fullest");
    state.press(Press::Reverse, 10, 10);
    assert_eq!(first(&state), "gpu-3", "the emptiest");
}

#[test]
fn nothing_has_a_word_too() {
    let palette = Palette { colours: false };
    let mut state = State::new("http://h");
    assert_eq!(
        text(&view(&state, View::Overview, 80, palette)),
        ["Waiting for the first figures…"]
    );
    let mut none = stats(NOW, "b");
    none.findings.clear();
    none.health = lingua_engine::snapshot::view::Severity::Ok;
    let snapshot = none.snapshot.as_mut().unwrap();
    (snapshot.nodes.total, snapshot.pairs, snapshot.failures) = (0, Vec::new(), Vec::new());
    snapshot.work.ended.clear();
    state.hear(NOW, News::Stats(Box::new(none)));
    state.hear(NOW, News::Nodes(Ok(Nodes::default())));
    state.hear(NOW, News::Sessions(Ok(Sessions::default())));
    let text = plain(&state);
    for wanted in [
        "✓ All well.\n",
        "lingua node --count 3\n",
        "No job has ended yet.\n",
        "No job has failed lately.\n",
        "No node serves any pair yet.\n",
        "No node is connected. Start one: lingua node --count 3\n",
        "No session is open.\n",
    ] {
        assert!(text.contains(wanted), "no {wanted:?} in\n{text}");
    }
    state.hear(NOW, News::Nodes(Err("a\u{1b}[2Jb".into())));
    assert!(plain(&state).contains("This could not be read: a[2Jb\n"));
}
