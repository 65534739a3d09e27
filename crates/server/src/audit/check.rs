//! `lingua audit check`: whether every line is as it was written, and none is missing.

use crate::out::say;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::line::{Line, NOTHING, SEGMENT, hash};
use crate::cli::{Audit, AuditCheck, Failure};

/// Bytes of a line; ours have some 400.
const MAX_LINE: usize = 64 << 10;

pub(crate) fn run(what: &Audit) -> Result<(), Failure> {
    let Audit::Check(options) = what;
    let found = check(options).map_err(Failure::failed)?;
    for note in &found.notes {
        say!("{note}");
    }
    say!(
        "{} lines, all unchanged; the last is {} with the hash\n{}",
        found.lines,
        found.seq,
        found.last
    );
    Ok(())
}

/// What was found.
pub(super) struct Found {
    pub(super) lines: u64,
    pub(super) seq: u64,
    pub(super) last: String,
    pub(super) notes: Vec<String>,
    has: bool,
    broken: Option<Broken>,
}

/// Lines that are none, until the one that says so.
struct Broken {
    place: String,
    why: &'static str,
    text: Vec<u8>,
}

impl Broken {
    fn sentence(&self) -> String {
        format!("{} {}", self.place, self.why)
    }
}

/// Goes through the files; an error names the first line that is wrong.
pub(super) fn check(options: &AuditCheck) -> Result<Found, String> {
    let files = in_order(&options.files)?;
    let before = options.after.clone().unwrap_or_else(|| NOTHING.to_owned());
    let mut found = Found {
        lines: 0,
        seq: 0,
        last: before,
        notes: Vec::new(),
        has: options.has.is_none(),
        broken: None,
    };
    for file in files {
        each_line(&file, |number, text, ended| {
            found.take(&format!("{}:{number}", file.display()), text, ended, options)
        })?;
    }
    if let Some(broken) = found.broken {
        return Err(broken.sentence());
    }
    if found.lines == 0 {
        return Err("there is no line".to_owned());
    }
    if !found.has {
        return Err("lines are missing at the end: no line has the hash of --has".to_owned());
    }
    Ok(found)
}

impl Found {
    fn take(
        &mut self,
        place: &str,
        text: &[u8],
        ended: bool,
        options: &AuditCheck,
    ) -> Result<(), String> {
        let read = if ended { Line::read(text) } else { Err("is cut off") };
        let (line, hashed) = match read {
            Ok(read) => read,
            Err(why) => {
                let broken = self.broken.get_or_insert_with(|| Broken {
                    place: place.to_owned(),
                    why,
                    text: Vec::new(),
                });
                if !broken.text.is_empty() {
                    broken.text.push(b'\n');
                }
                broken.text.extend_from_slice(text);
                if broken.text.len() > MAX_LINE {
                    return Err(broken.sentence());
                }
                return Ok(());
            }
        };
        let segment = line.what == SEGMENT;
        if let Some(broken) = self.broken.take() {
            // It was broken when the scheduler found it, and was left as it was.
            if !segment || line.about.as_deref() != Some(&hash(&broken.text)) {
                return Err(broken.sentence());
            }
            self.notes.push(format!("{}; line {} says so", broken.sentence(), line.seq));
        } else if segment {
            return Err(format!("{place} refers to a broken line that is missing"));
        }
        let first = self.lines == 0;
        if line.prev != self.last {
            return Err(match (first, line.seq) {
                (true, _) => format!(
                    "{place} is line {} and what comes before it is missing; if that was rotated away, \
                     say --after {}",
                    line.seq, line.prev
                ),
                (false, 1) => {
                    format!("{place} begins a new chain; the one before ends at line {}", self.seq)
                }
                (false, seq) => format!(
                    "{place} is line {seq} and does not follow line {}: lines are missing, added or moved",
                    self.seq
                ),
            });
        }
        if !first && line.seq != self.seq + 1 {
            return Err(format!("{place} is line {} after line {}", line.seq, self.seq));
        }
        if line.lost > 0 {
            self.notes
                .push(format!("{place}: {} events before it could not be written", line.lost));
        }
        self.has |= options.has.as_deref() == Some(&hashed);
        (self.lines, self.seq, self.last) = (self.lines + 1, line.seq, hashed);
        Ok(())
    }
}

/// The oldest file first, however they were named: by the number of their first good line.
fn in_order(files: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let mut numbered = Vec::new();
    for file in files {
        let mut first = u64::MAX;
        each_line(file, |_, text, _| {
            if let (u64::MAX, Ok((line, _))) = (first, Line::read(text)) {
                first = line.seq;
            }
            Ok(())
        })?;
        numbered.push((first, file.clone()));
    }
    numbered.sort_by_key(|(first, _)| *first);
    Ok(numbered.into_iter().map(|(_, file)| file).collect())
}

/// Hands over every line with its number, without its end, and whether it had one.
fn each_line(
    file: &Path,
    mut take: impl FnMut(u64, &[u8], bool) -> Result<(), String>,
) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", file.display());
    let mut reader = BufReader::new(File::open(file).map_err(told)?);
    for number in 1.. {
        let mut text = Vec::new();
        let bounded = &mut std::io::Read::take(&mut reader, MAX_LINE as u64);
        if bounded.read_until(b'\n', &mut text).map_err(told)? == 0 {
            break;
        }
        let ended = text.pop_if(|last| *last == b'\n').is_some();
        take(number, &text, ended)?;
    }
    Ok(())
}
