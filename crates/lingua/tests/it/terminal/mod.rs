//! A real terminal: a shell within a tmux of its own, whose screen can be read.
#![allow(dead_code, clippy::unwrap_used, reason = "a test may panic")]

use std::process::Command;
use std::time::Duration;

/// How long a test waits for the screen to be as it is to be: 20 s.
const LOOKS: u32 = 400;
const PAUSE: Duration = Duration::from_millis(50);

/// Ends with its shell and all that runs in it when it is dropped.
pub struct Terminal {
    home: tempfile::TempDir,
}

impl Terminal {
    /// A terminal of this size with a shell in it.
    pub fn open(width: u16, height: u16) -> Self {
        let terminal = Terminal { home: tempfile::tempdir().unwrap() };
        let (x, y) = (width.to_string(), height.to_string());
        terminal.tmux(&["new-session", "-d", "-x", &x, "-y", &y, "env PS1='$ ' sh"]);
        terminal.until("a shell", |seen| seen.starts_with('$'));
        terminal
    }

    fn tmux(&self, args: &[&str]) -> String {
        let output = Command::new("tmux")
            .args(["-u", "-f", "/dev/null", "-S"])
            .arg(self.home.path().join("tmux"))
            .args(args)
            .envs([("LC_ALL", "C.UTF-8"), ("TERM", "xterm-256color")])
            .env_remove("TMUX")
            .env_remove("NO_COLOR")
            .env_remove("LINGUA_URL")
            .output()
            .expect("scripts/test installs tmux");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "tmux {args:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Presses these keys, by tmux's names.
    pub fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Types a line and presses Enter.
    pub fn line(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
        self.keys(&["Enter"]);
    }

    pub fn resize(&self, width: u16, height: u16) {
        self.tmux(&["resize-window", "-x", &width.to_string(), "-y", &height.to_string()]);
    }

    /// What is seen.
    pub fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    fn asked(&self, what: &str) -> String {
        self.tmux(&["display-message", "-p", what]).trim().to_owned()
    }

    /// Whether somebody draws on a screen beside the usual one.
    pub fn is_taken_over(&self) -> bool {
        self.asked("#{alternate_on}") == "1"
    }

    pub fn has_a_cursor(&self) -> bool {
        self.asked("#{cursor_flag}") == "1"
    }

    /// The process that the shell runs.
    pub fn child(&self) -> u32 {
        let shell = self.asked("#{pane_pid}");
        let path = format!("/proc/{shell}/task/{shell}/children");
        std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
    }

    /// Waits until the screen is like this.
    pub fn until(&self, what: &str, fits: impl Fn(&str) -> bool) -> String {
        let mut seen = String::new();
        for _ in 0..LOOKS {
            seen = self.screen();
            if fits(&seen) {
                return seen;
            }
            std::thread::sleep(PAUSE);
        }
        panic!("never: {what}\n{seen}");
    }

    /// Waits until the usual screen is there again, with the shell's word.
    pub fn until_given_back(&self) {
        for _ in 0..LOOKS {
            if !self.is_taken_over() {
                return;
            }
            std::thread::sleep(PAUSE);
        }
        panic!("the screen is not given back\n{}", self.screen());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux")
            .arg("-S")
            .arg(self.home.path().join("tmux"))
            .arg("kill-server")
            .output();
    }
}
