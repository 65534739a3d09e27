//! TOML into values, each with its line. A name that is no option is told with the nearest that is.

use std::path::Path;

use toml::Value;
use toml::de::{DeTable, DeValue};

use super::setting::Raw;
use super::{Origin, nearest, options};

/// The values of a file. What is wrong with it is added to the problems.
pub(super) fn values(
    text: &str,
    path: &Path,
    problems: &mut Vec<String>,
) -> Vec<(&'static str, Raw, Origin)> {
    let mut file = File { text, path, problems, values: Vec::new() };
    match DeTable::parse(text) {
        Ok(document) => file.table("", document.get_ref()),
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            file.problem(at, error.message());
        }
    }
    file.values
}

struct File<'a> {
    text: &'a str,
    path: &'a Path,
    problems: &'a mut Vec<String>,
    values: Vec<(&'static str, Raw, Origin)>,
}

impl File<'_> {
    fn table(&mut self, section: &str, table: &DeTable<'_>) {
        for (key, value) in table.iter() {
            let at = key.span().start;
            let name = match section {
                "" => key.get_ref().to_string(),
                section => format!("{section}.{}", key.get_ref()),
            };
            match value.get_ref() {
                DeValue::Table(inner) if options::sections().any(|known| known == name) => {
                    self.table(&name, inner);
                }
                DeValue::Table(_) => {
                    let known = nearest(&name, options::sections());
                    let meant =
                        known.map(|known| format!("; did you mean [{known}]?")).unwrap_or_default();
                    self.problem(at, &format!("[{name}] is not a section{meant}"));
                }
                value => self.option(at, &name, value),
            }
        }
    }

    fn option(&mut self, at: usize, name: &str, value: &DeValue<'_>) {
        let Some(path) = options::names().find(|path| *path == name) else {
            // Also one of the right name in the wrong section is found.
            let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
            let same = options::names().find(|path| last(path) == last(name));
            let near = same.or_else(|| nearest(name, options::names()));
            let meant = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            return self.problem(at, &format!("{name} is not an option{meant}"));
        };
        match plain(value) {
            Some(value) => {
                self.values.push((path, Raw::Typed(value), Origin::File(self.line(at))));
            }
            None => self.problem(at, &format!("{path} cannot be read")),
        }
    }

    fn problem(&mut self, at: usize, what: &str) {
        let problem = format!("{}, line {}: {what}", self.path.display(), self.line(at));
        self.problems.push(problem);
    }

    fn line(&self, at: usize) -> usize {
        let before = self.text.as_bytes().iter().take(at);
        1 + before.filter(|byte| **byte == b'\n').count()
    }
}

/// The value without its place.
fn plain(value: &DeValue<'_>) -> Option<Value> {
    Some(match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(whole) => {
            Value::Integer(i64::from_str_radix(whole.as_str(), whole.radix()).ok()?)
        }
        DeValue::Float(number) => Value::Float(number.as_str().parse().ok()?),
        DeValue::Boolean(value) => Value::Boolean(*value),
        DeValue::Datetime(at) => Value::Datetime(*at),
        DeValue::Array(items) => {
            Value::Array(items.iter().map(|item| plain(item.get_ref())).collect::<Option<_>>()?)
        }
        DeValue::Table(_) => return None,
    })
}
