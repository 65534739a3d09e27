//! Reads a shell script as far as telling the commands in it from its other words.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::str::Chars;

use super::is_one_of;

/// By the shell itself.
const BUILTINS: &str = ". : [ [[ alias break builtin cd compgen continue declare echo eval exit export false getopts hash jobs \
    kill let local mapfile popd printf pushd pwd read readarray readonly return set shift shopt source test trap true type \
    ulimit umask unset wait";

/// Reads a script word by word. It knows as much of the shell as these scripts use.
pub struct Shell<'a> {
    chars: Peekable<Chars<'a>>,
    commands: BTreeSet<String>,
    functions: BTreeSet<String>,
    /// Where a here-document ends that begins with the next line.
    document: Option<String>,
    /// The last backslash ended its line.
    goes_on: bool,
}

/// What words mean at some place.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// The next word is a command.
    Command,
    /// It is the name of a command: behind `command -v`.
    Name,
    Arguments,
    /// Within `[[` and `]]`, or the words of an array.
    Words,
    /// Between `case` and `in`.
    Subject,
    /// Of a `case`.
    Pattern,
}

impl<'a> Shell<'a> {
    /// The programs that a script starts.
    pub fn started_by(script: &'a str) -> Vec<String> {
        let (commands, functions) = Default::default();
        let chars = script.chars().peekable();
        let mut shell = Shell { chars, commands, functions, document: None, goes_on: false };
        shell.read(None, Place::Command);
        let Shell { commands, functions, .. } = shell;
        commands.difference(&functions).filter(|word| !is_one_of(BUILTINS, word)).cloned().collect()
    }

    fn skip_until(&mut self, end: char) {
        while self.chars.next().is_some_and(|c| c != end) {}
    }

    /// Reads what is not written out: a character as it is, quotes, a variable.
    fn reads_made(&mut self, c: char) -> bool {
        match c {
            '\\' => self.goes_on = self.chars.next() == Some('\n'),
            '\'' => self.skip_until('\''),
            '"' => self.quoted(),
            '$' => self.variable(),
            _ => return false,
        }
        true
    }

    /// Up to the end of a parenthesis, or of the script.
    fn read(&mut self, end: Option<char>, begin: Place) {
        let (mut place, mut cases, mut word) = (begin, 0, String::new());
        // A word that is not written out: of a variable, or in quotes.
        let (mut is_made, mut option) = (false, false);
        loop {
            let c = self.chars.next();
            let ends_word = c.is_none_or(|c| " \t\n;|&()<>".contains(c));
            if ends_word && (is_made || !word.is_empty()) {
                let is_function = c == Some('(') && self.chars.peek() == Some(&')');
                if is_function {
                    self.functions.insert(word.clone());
                } else if !(c == Some('(') && word.ends_with('=')) {
                    place = self.meaning(&word, is_made, place, &mut cases, &mut option);
                }
            }
            let Some(c) = c else { return };
            if self.reads_made(c) {
                is_made |= c != '\\' || !self.goes_on;
                continue;
            }
            match c {
                '#' if word.is_empty() && !is_made => {
                    while self.chars.next_if(|&c| c != '\n').is_some() {}
                    continue;
                }
                '(' if self.chars.peek() == Some(&'(') => self.sum(),
                '(' if self.chars.peek() == Some(&')') => {
                    self.chars.next();
                }
                '(' if word.ends_with('=') => {
                    self.read(Some(')'), Place::Words);
                    word.clear();
                    is_made = true; // the assignment is a word of its own
                    place = Place::Command;
                    word.push('=');
                    continue;
                }
                '(' if place == Place::Words => self.read(Some(')'), Place::Words),
                '(' if place == Place::Pattern => {}
                '(' => self.read(Some(')'), Place::Command),
                ')' if place == Place::Pattern => place = Place::Command,
                ')' if end == Some(')') => return,
                '<' | '>' => self.redirection(c),
                '\n' | ';' | '|' | '&' => {
                    if c == '\n' {
                        self.skip_document();
                    }
                    let is_next_case = c == ';' && self.chars.next_if_eq(&';').is_some();
                    match place {
                        Place::Words | Place::Pattern | Place::Subject => {}
                        _ if is_next_case && cases > 0 => place = Place::Pattern,
                        _ => place = Place::Command,
                    }
                    option = false;
                }
                c if !ends_word => {
                    word.push(c);
                    continue;
                }
                _ => {}
            }
            word.clear();
            is_made = false;
        }
    }

    /// What the words behind this one are.
    fn meaning(
        &mut self,
        word: &str,
        is_made: bool,
        place: Place,
        cases: &mut i32,
        option: &mut bool,
    ) -> Place {
        match (place, word) {
            (Place::Words, "]]") => Place::Arguments,
            (Place::Subject, "in") => Place::Pattern,
            (Place::Pattern, "esac") => {
                *cases -= 1;
                Place::Arguments
            }
            (Place::Name, word) if word.starts_with('-') => Place::Name,
            (Place::Name, word) => {
                if !is_made {
                    self.commands.insert(word.to_owned());
                }
                Place::Arguments
            }
            (Place::Command, "case") => {
                *cases += 1;
                Place::Subject
            }
            (Place::Command, "[[") => Place::Words,
            (Place::Command, "for" | "select") => Place::Arguments,
            (Place::Command, "command" | "type") => Place::Name,
            (
                Place::Command,
                "if" | "then" | "elif" | "else" | "fi" | "do" | "done" | "while" | "until" | "!"
                | "{" | "}" | "time",
            ) => Place::Command,
            (Place::Command, "exec" | "env" | "sudo") => {
                *option = true;
                Place::Command
            }
            (Place::Command, word) if *option && word.starts_with('-') => Place::Command,
            (Place::Command, word) if word.contains('=') => Place::Command,
            (Place::Command, word) => {
                let is_name =
                    |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-._".contains(c);
                let begins = word.starts_with(|c: char| c.is_ascii_lowercase());
                if !is_made && begins && word.chars().all(is_name) {
                    self.commands.insert(word.to_owned());
                }
                Place::Arguments
            }
            (place, _) => place,
        }
    }

    fn quoted(&mut self) {
        while let Some(c) = self.chars.next() {
            match c {
                '"' => return,
                '\\' => drop(self.chars.next()),
                '$' => self.variable(),
                _ => {}
            }
        }
    }

    /// Behind a `$`.
    fn variable(&mut self) {
        match self.chars.peek() {
            Some('(') => {
                self.chars.next();
                match self.chars.peek() {
                    Some('(') => self.sum(),
                    _ => self.read(Some(')'), Place::Command),
                }
            }
            Some('{') => {
                self.chars.next();
                while let Some(c) = self.chars.next() {
                    match c {
                        '}' => return,
                        '\\' => drop(self.chars.next()),
                        '$' => self.variable(),
                        '"' => self.quoted(),
                        _ => {}
                    }
                }
            }
            // `$#` begins no remark.
            Some('#') => drop(self.chars.next()),
            _ => {}
        }
    }

    /// Behind the first of two parentheses: numbers, and no commands.
    fn sum(&mut self) {
        let mut depth = 1;
        while depth > 0
            && let Some(c) = self.chars.next()
        {
            depth += i32::from(c == '(') - i32::from(c == ')');
        }
    }

    fn redirection(&mut self, first: char) {
        if self.chars.next_if_eq(&'(').is_some() {
            return self.read(Some(')'), Place::Command);
        }
        let mut signs = String::from(first);
        while let Some(sign) = self.chars.next_if(|c| "<>&|".contains(*c)) {
            signs.push(sign);
        }
        if signs == "<<" && self.chars.peek().is_some_and(|c| *c != ' ') {
            let mut name = String::new();
            while let Some(c) = self.chars.next_if(|c| !c.is_whitespace()) {
                name.push(c);
            }
            self.document = Some(name.trim_matches(['\'', '"', '-']).to_owned());
            return;
        }
        // The file is no command.
        while self.chars.next_if_eq(&' ').is_some() {}
        while let Some(&c) = self.chars.peek()
            && !" \t\n;|&()<>".contains(c)
        {
            self.chars.next();
            match c {
                '"' => self.quoted(),
                '$' => self.variable(),
                _ => {}
            }
        }
    }

    fn skip_document(&mut self) {
        let Some(end) = self.document.take() else { return };
        loop {
            let mut line = String::new();
            while let Some(c) = self.chars.next()
                && c != '\n'
            {
                line.push(c);
            }
            if line.trim() == end || self.chars.peek().is_none() {
                return;
            }
        }
    }
}
