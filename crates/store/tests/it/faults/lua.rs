//! A Lua script taken apart: what its header promises and what its code does.

use std::collections::{BTreeMap, BTreeSet};

/// The header of a script.
#[derive(Debug, Default)]
pub struct Header {
    pub sentence: String,
    /// Number, shape and type of every key.
    pub keys: BTreeMap<usize, (String, String)>,
    pub args: BTreeSet<usize>,
    /// The argument from which on there may be any number.
    pub args_and_on: Option<usize>,
    pub replies: BTreeSet<String>,
    pub slot: String,
    pub clock: String,
}

impl Header {
    pub fn of(text: &str) -> Self {
        let mut header = Header::default();
        let lines = text.lines().map_while(|line| line.strip_prefix("-- "));
        let mut replies = String::new();
        let mut in_replies = false;
        for (number, line) in lines.enumerate() {
            in_replies = (in_replies && line.starts_with("  |")) || line.starts_with("Replies: ");
            if number == 0 {
                header.sentence = line.to_owned();
            } else if let Some(rest) = line.strip_prefix("KEYS[") {
                let (index, rest) = numbered(rest);
                let mut words = rest.split_whitespace().map(str::to_owned);
                let key = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
                assert!(header.keys.insert(index, key).is_none(), "KEYS[{index}] twice");
            } else if let Some(rest) = line.strip_prefix("ARGV[") {
                let (index, rest) = numbered(rest);
                assert!(header.args.insert(index), "ARGV[{index}] twice");
                assert!(!rest.trim().is_empty(), "ARGV[{index}] says nothing");
                if rest.trim().starts_with("and on") {
                    header.args_and_on = Some(index);
                }
            } else if in_replies {
                replies.push_str(line.strip_prefix("Replies:").unwrap_or(line));
            } else if let Some(rest) = line.strip_prefix("Slot: ") {
                let (slot, rest) = rest.split_once(". Clock: ").expect("Slot and Clock on a line");
                header.slot = slot.to_owned();
                let word = rest.split(|c: char| !c.is_ascii_alphanumeric()).next();
                header.clock = word.unwrap_or_default().to_owned();
            }
        }
        let words = replies.split('|').filter_map(|reply| reply.split_whitespace().next());
        header.replies = words.map(str::to_owned).collect();
        header
    }
}

/// `3] rest` as number and rest.
fn numbered(text: &str) -> (usize, &str) {
    let (number, rest) = text.split_once(']').expect("a closed bracket");
    (number.parse().expect("a number in brackets"), rest)
}

/// The code of a script, without comments.
pub struct Code(String);

impl Code {
    pub fn of(text: &str) -> Self {
        let code = text.lines().filter(|line| !line.trim_start().starts_with("--"));
        Code(code.collect::<Vec<_>>().join("\n"))
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    /// The numbers in `what[number]`.
    pub fn indices(&self, what: &str) -> BTreeSet<usize> {
        let begin = format!("{what}[");
        let parts = self.0.split(&begin).skip(1);
        parts.filter_map(|part| part.split(']').next()?.parse().ok()).collect()
    }

    /// Where a loop over the rest of the arguments begins.
    pub fn args_and_on(&self) -> Option<usize> {
        let (before, _) = self.0.split_once(", #ARGV do")?;
        before.rsplit("= ").next()?.parse().ok()
    }

    /// Words that the script answers with: the first of a list or of a text.
    pub fn replies(&self) -> BTreeSet<String> {
        let answers = self.0.split("return ").skip(1);
        let texts = answers.filter_map(|rest| rest.trim_start_matches('{').strip_prefix('\''));
        texts.filter_map(|text| Some(text.split(['\'', ' ']).next()?.to_owned())).collect()
    }

    /// Every `redis.call`, as its command and its further arguments.
    pub fn calls(&self) -> Vec<(String, Vec<String>)> {
        self.0
            .split("redis.call(")
            .skip(1)
            .map(|rest| {
                let mut arguments = arguments(rest);
                (arguments.remove(0).trim_matches('\'').to_owned(), arguments)
            })
            .collect()
    }

    /// Names that stand for a key: `local a, b = KEYS[1], ARGV[1]` binds `a`.
    pub fn key_names(&self) -> BTreeSet<String> {
        let bindings =
            self.0.lines().filter_map(|line| line.strip_prefix("local ")?.split_once(" = "));
        let pairs = bindings.flat_map(|(names, values)| {
            names.split(", ").zip(values.split(", ")).collect::<Vec<_>>()
        });
        let keys = pairs.filter(|(_, value)| value.starts_with("KEYS[") && value.ends_with(']'));
        keys.map(|(name, _)| name.to_owned()).collect()
    }

    /// Names that are assigned to without having been declared local.
    pub fn globals(&self) -> Vec<String> {
        let mut known = BTreeSet::new();
        let mut globals = Vec::new();
        for line in self.0.lines().map(str::trim) {
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let words =
                |list: &str| list.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>();
            if let Some(function) = line.strip_prefix("local function ") {
                let (name, parameters) = function.split_once('(').expect("parameters");
                known.insert(name.to_owned());
                known.extend(words(parameters.trim_end_matches(')')));
            } else if let Some(rest) = line.strip_prefix("local ") {
                known.extend(words(rest.split('=').next().unwrap_or(rest)));
            } else if let Some(rest) = line.strip_prefix("for ") {
                known.extend(words(
                    rest.split(['=']).next().unwrap_or(rest).split(" in ").next().unwrap_or(rest),
                ));
            } else if line.starts_with("function ") {
                globals.push(line.to_owned());
            } else if let Some((names, _)) = line.split_once(" = ") {
                let names = words(names).into_iter().filter(|name| name.chars().all(is_word));
                globals.extend(names.filter(|name| !known.contains(name)));
            }
        }
        globals
    }
}

/// The arguments up to the closing parenthesis, split at commas outside of parentheses.
fn arguments(text: &str) -> Vec<String> {
    let (mut depth, mut quoted) = (0, false);
    let mut arguments = vec![String::new()];
    for c in text.chars() {
        match c {
            '\'' => quoted = !quoted,
            '(' | '{' if !quoted => depth += 1,
            ')' if !quoted && depth == 0 => break,
            ')' | '}' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                arguments.push(String::new());
                continue;
            }
            _ => {}
        }
        arguments.last_mut().expect("never empty").push(c);
    }
    arguments.iter().map(|argument| argument.trim().to_owned()).collect()
}
