//! What is on the screen, and what keys mean. [`terminal`] is the terminal itself.

use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use lingua_store::Clock;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use super::line::Line;
use super::show::{self, Palette};
use super::state::{Press, State};
use super::text;
use crate::cli::Failure;

mod terminal;

use terminal::Terminal;

/// News and keys that wait to be shown.
const WAITING: usize = 64;

/// How often the age of what is shown is told again.
const TICK: Duration = Duration::from_secs(1);

/// How often the thread that reads keys looks whether it is still wanted.
const LISTEN: Duration = Duration::from_millis(50);

/// Epoch milliseconds.
pub(crate) fn now_ms() -> u64 {
    Clock::system().now().as_millis()
}

/// Shows and follows until a key or a signal ends it.
pub(crate) async fn run(line: Line, palette: Palette) -> Result<(), Failure> {
    let listen = |kind| signal(kind).context("signals cannot be listened to");
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut hang_up = listen(SignalKind::hangup())?;
    let mut state = State::new(line.url());
    let (looking, looked_at) = watch::channel(state.view);
    let (tell, mut news) = mpsc::channel(WAITING);
    let mut following = tokio::spawn(line.follow(tell, looked_at));
    let mut terminal = Terminal::take().context("this terminal cannot be drawn on")?;
    let mut keys = Keys::listen();
    let mut tick = tokio::time::interval(TICK);
    loop {
        let mut seen = Seen::default();
        let drawn = terminal.draw(|width, height| {
            let (lines, how_much) = draw(&state, palette, width, height);
            seen = how_much;
            lines
        });
        drawn.context("the terminal is gone")?;
        tokio::select! {
            Some(one) = news.recv() => state.hear(now_ms(), one),
            event = keys.events.recv() => match event {
                Some(Event::Key(key)) => {
                    let pressed = meaning(key);
                    if pressed.is_some_and(|pressed| !state.press(pressed, seen.page, seen.last)) {
                        break;
                    }
                    looking.send_if_modified(|known| std::mem::replace(known, state.view) != state.view);
                }
                // The size is asked for with every drawing.
                Some(_) => {}
                // The terminal is gone.
                None => break,
            },
            _ = tick.tick() => state.now_ms = now_ms(),
            // It has no end of its own: it panicked, and the terminal was given back to say so.
            _ = &mut following => return Err(Failure::failed("the connection to the scheduler ended unexpectedly")),
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hang_up.recv() => break,
        }
    }
    following.abort();
    Ok(())
}

/// How much of a view is seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    page: usize,
    /// The last line that can be the first one seen.
    last: usize,
}

/// As many lines as are high, and how much of the view they show.
fn draw(state: &State, palette: Palette, width: usize, height: usize) -> (Vec<text::Line>, Seen) {
    let head = show::frame::head(state, width, height >= 16, palette);
    let body = match state.help {
        true => show::frame::help(width, palette),
        false => show::view(state, state.view, width, palette),
    };
    // One line is left for the foot, and at least one for the view.
    let room = height.saturating_sub(1);
    let page = room.saturating_sub(head.len()).max(1).min(room);
    let last = body.len().saturating_sub(page);
    let scroll = if state.help { 0 } else { state.look().scroll.min(last) };
    let foot = show::frame::foot(state, last - scroll, width, palette);
    let mut lines: Vec<_> = head.into_iter().take(room - page).collect();
    lines.extend(body.into_iter().skip(scroll).take(page));
    lines.resize(room, text::Line::default());
    lines.extend((height > 0).then_some(foot));
    (lines, Seen { page, last })
}

/// Keys as they are pressed, from a thread of their own: reading them blocks. It ends before the
/// terminal is given back: what is typed then is the shell's.
struct Keys {
    events: mpsc::Receiver<Event>,
    thread: Option<JoinHandle<()>>,
}

impl Keys {
    fn listen() -> Self {
        let (tell, events) = mpsc::channel(WAITING);
        let thread = std::thread::spawn(move || {
            while !tell.is_closed() {
                let event = match event::poll(LISTEN) {
                    Ok(true) => event::read(),
                    Ok(false) => continue,
                    Err(error) => Err(error),
                };
                if event.is_err() || event.is_ok_and(|event| tell.blocking_send(event).is_err()) {
                    return;
                }
            }
        });
        Keys { events, thread: Some(thread) }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.events.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn meaning(key: KeyEvent) -> Option<Press> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return (key.code == KeyCode::Char('c')).then_some(Press::Quit);
    }
    Some(match key.code {
        KeyCode::Char('q') => Press::Quit,
        KeyCode::Tab | KeyCode::Right | KeyCode::Char('l') => Press::Next,
        KeyCode::BackTab | KeyCode::Left | KeyCode::Char('h') => Press::Previous,
        KeyCode::Char(digit @ '1'..='9') => Press::Go(digit as usize - '1' as usize),
        KeyCode::Down | KeyCode::Char('j') => Press::Down,
        KeyCode::Up | KeyCode::Char('k') => Press::Up,
        KeyCode::PageDown | KeyCode::Char(' ') => Press::PageDown,
        KeyCode::PageUp | KeyCode::Char('b') => Press::PageUp,
        KeyCode::Home | KeyCode::Char('g') => Press::Top,
        KeyCode::End | KeyCode::Char('G') => Press::Bottom,
        KeyCode::Char('s') => Press::Sort,
        KeyCode::Char('r') => Press::Reverse,
        KeyCode::Char('?') => Press::Help,
        KeyCode::Esc => Press::Escape,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
