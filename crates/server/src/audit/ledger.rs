//! The file, and where its chain stands.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::line::{Event, Line, NOTHING, ROTATED, SEGMENT, Who, hash};

/// Read from the end of a file to find its last line; a line is below 1 KiB.
const TAIL: u64 = 64 << 10;

/// The file that is written to.
pub(super) struct Ledger {
    path: PathBuf,
    file: File,
    instance: String,
    seq: u64,
    last: String,
    /// The end of the last line that is whole, in a file that has a length.
    whole: Option<u64>,
    /// Behind it stands a piece of a line.
    torn: bool,
}

impl Ledger {
    /// Opens it, or makes it. A chain that is there goes on.
    pub(super) fn open(path: &Path, instance: String, now_ms: u64) -> Result<Self, String> {
        let file = open(path)?;
        let last = NOTHING.to_owned();
        let mut ledger = Ledger {
            path: path.to_owned(),
            file,
            instance,
            seq: 0,
            last,
            whole: None,
            torn: false,
        };
        if ledger.is_file() {
            ledger.find_end(now_ms).map_err(|error| error.to_string())?;
        }
        Ok(ledger)
    }

    fn is_file(&self) -> bool {
        self.file.metadata().is_ok_and(|about| about.is_file())
    }

    /// Goes on after the last good line, behind what is broken after it.
    fn find_end(&mut self, now_ms: u64) -> std::io::Result<()> {
        let length = self.file.metadata()?.len();
        let from = length.saturating_sub(TAIL);
        let mut tail = self.read_from(from)?;
        let last = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if Line::read(&tail[last..]).is_ok() {
            // Only its end is missing.
            self.file.write_all(b"\n")?;
            tail.push(b'\n');
        }
        let mut end = tail.len();
        while end > 0 {
            let begin = tail[..end - 1].iter().rposition(|byte| *byte == b'\n');
            let begin = begin.map_or(0, |at| at + 1);
            if let Some(text) = tail[begin..end].strip_suffix(b"\n")
                && let Ok((line, hash)) = Line::read(text)
            {
                (self.seq, self.last) = (line.seq, hash);
                break;
            }
            end = begin;
        }
        self.whole = Some(from + end as u64);
        self.torn = end < tail.len();
        if self.torn {
            tracing::error!(
                file = %self.path.display(),
                bytes = tail.len() - end,
                "the audit log ends with a broken line; a new segment begins after it"
            );
            self.mend(now_ms)?;
        }
        Ok(())
    }

    fn read_from(&mut self, from: u64) -> std::io::Result<Vec<u8>> {
        let mut tail = Vec::new();
        self.file.seek(SeekFrom::Start(from))?;
        (&mut self.file).take(TAIL).read_to_end(&mut tail)?;
        Ok(tail)
    }

    /// Says of what is broken at the end that it is, in a line that begins a new segment.
    fn mend(&mut self, now_ms: u64) -> std::io::Result<()> {
        let Some(whole) = self.whole.filter(|_| self.torn) else { return Ok(()) };
        let broken = self.read_from(whole)?;
        let text = broken.strip_suffix(b"\n").unwrap_or(&broken);
        let event = Event {
            at_ms: now_ms,
            who: Who::process(),
            what: SEGMENT,
            about: Some(hash(text)),
            outcome: "the line before is broken".to_owned(),
            again: 0,
        };
        let (text, hash) = self.line(&event, 0).write();
        let ended = broken.ends_with(b"\n");
        let text = if ended { text } else { format!("\n{text}") };
        self.file.write_all(text.as_bytes())?;
        self.seq += 1;
        self.last = hash;
        self.whole = Some(whole + (broken.len() + text.len()) as u64);
        self.torn = false;
        Ok(())
    }

    fn line(&self, event: &Event, lost: u64) -> Line {
        Line {
            seq: self.seq + 1,
            at_ms: event.at_ms,
            instance: self.instance.clone(),
            who: event.who.clone(),
            what: event.what.to_owned(),
            about: event.about.clone(),
            outcome: event.outcome.clone(),
            again: event.again,
            lost,
            prev: self.last.clone(),
        }
    }

    /// Adds lines, all or none. The first says how many events are missing before it.
    pub(super) fn write(&mut self, events: &[Event], lost: u64) -> std::io::Result<()> {
        let Some(first) = events.first() else { return Ok(()) };
        self.mend(first.at_ms)?;
        let before = (self.seq, self.last.clone());
        let mut batch = String::new();
        for (index, event) in events.iter().enumerate() {
            let (text, hash) = self.line(event, if index == 0 { lost } else { 0 }).write();
            batch.push_str(&text);
            self.seq += 1;
            self.last = hash;
        }
        let written = self.file.write_all(batch.as_bytes());
        match &written {
            Ok(()) => self.whole = self.whole.map(|whole| whole + batch.len() as u64),
            Err(_) => {
                (self.seq, self.last) = before;
                self.cut_back();
            }
        }
        written
    }

    /// Takes away the piece of a line that did not fit. A file that may only grow keeps it, and the
    /// next line says so.
    fn cut_back(&mut self) {
        let Some(whole) = self.whole else { return };
        let longer = self.file.metadata().is_ok_and(|about| about.len() > whole);
        self.torn = longer && self.file.set_len(whole).is_err();
    }

    /// Onto the disk, so that it is there after a power failure.
    pub(super) fn sync(&self) {
        // Devices and pipes cannot, and a file that cannot is told of by the next write.
        let _ = self.file.sync_data();
    }

    /// Goes on in a new file if the old one was moved away. Its first line has the last hash of the
    /// old one.
    pub(super) fn reopen(&mut self, now_ms: u64) -> Result<bool, String> {
        let here = |file: &File| file.metadata().map(|about| (about.dev(), about.ino())).ok();
        let same = std::fs::metadata(&self.path).map(|about| (about.dev(), about.ino())).ok();
        if same.is_some() && same == here(&self.file) {
            return Ok(false);
        }
        let file = open(&self.path)?;
        self.sync();
        self.file = file;
        let end = self.file.metadata().map_err(|error| error.to_string())?;
        self.whole = end.is_file().then_some(end.len());
        self.torn = false;
        let rotated = Event {
            at_ms: now_ms,
            who: Who::process(),
            what: ROTATED,
            about: None,
            outcome: "ok".to_owned(),
            again: 0,
        };
        self.write(&[rotated], 0).map_err(|error| error.to_string())?;
        Ok(true)
    }
}

/// For nobody else to write to.
fn open(path: &Path) -> Result<File, String> {
    let mut options = OpenOptions::new();
    let file = options.read(true).append(true).create(true).mode(0o600).open(path);
    let file = file.map_err(|error| error.to_string())?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => {
            Err("another process writes to it; give each instance a file of its own".to_owned())
        }
        Err(std::fs::TryLockError::Error(error)) => Err(error.to_string()),
    }
}
