//! The kinds of values that options have.

mod tenants;

use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use lingua_core::fleet::RankRule;
use lingua_core::link::SlowStart;
use lingua_core::{InstanceId, Lang, Region, TenantId};
use lingua_engine::settings::SessionAlias;
use toml::Value;

use crate::address::address;
use crate::otlp::Endpoint;
use crate::site::CatalogueUrl;
use crate::telemetry::LogFormat;

/// A value as it came: from the file with its kind, from elsewhere as text.
#[derive(Clone, Debug)]
pub(crate) enum Raw {
    Typed(Value),
    Text(String),
}

/// A kind of value.
pub(crate) trait Setting: Sized {
    /// Reads one; the text goes behind the option's name.
    fn read(raw: &Raw) -> Result<Self, String>;

    /// As it stands in a file.
    fn print(&self) -> String;
}

/// A value that has bounds.
pub(crate) trait Bounded {
    /// Refuses what is out of them.
    fn within(&self, bounds: &RangeInclusive<u64>) -> Result<(), String>;
}

macro_rules! whole {
    ($($kind:ty),+) => {$(
        impl Setting for $kind {
            fn read(raw: &Raw) -> Result<Self, String> {
                let whole = match raw {
                    Raw::Typed(Value::Integer(whole)) => <$kind>::try_from(*whole).ok(),
                    Raw::Typed(_) => None,
                    Raw::Text(text) => text.trim().replace('_', "").parse().ok(),
                };
                whole.ok_or_else(|| format!("is a whole number from 0 to {}", <$kind>::MAX))
            }

            fn print(&self) -> String {
                grouped(*self as u64)
            }
        }

        impl Bounded for $kind {
            fn within(&self, bounds: &RangeInclusive<u64>) -> Result<(), String> {
                match bounds.contains(&(*self as u64)) {
                    true => Ok(()),
                    false => Err(format!(
                        "is {}, and has to be from {} to {}",
                        grouped(*self as u64), grouped(*bounds.start()), grouped(*bounds.end())
                    )),
                }
            }
        }
    )+};
}

whole!(u8, u16, u32, u64, usize);

/// Digits in threes from five on, as TOML allows.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    if digits.len() < 5 {
        return digits;
    }
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('_');
        }
        out.push(digit);
    }
    out
}

impl Setting for bool {
    fn read(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::Typed(Value::Boolean(value)) => Ok(*value),
            Raw::Text(text) if ["true", "1", "yes"].contains(&text.as_str()) => Ok(true),
            Raw::Text(text) if ["false", "0", "no", ""].contains(&text.as_str()) => Ok(false),
            _ => Err("is true or false".to_owned()),
        }
    }

    fn print(&self) -> String {
        self.to_string()
    }
}

impl Setting for f64 {
    fn read(raw: &Raw) -> Result<Self, String> {
        let number = match raw {
            Raw::Typed(Value::Float(number)) => Some(*number),
            Raw::Typed(Value::Integer(number)) => Some(*number as f64),
            Raw::Typed(_) => None,
            Raw::Text(text) => text.trim().parse().ok(),
        };
        number.filter(|number| number.is_finite()).ok_or_else(|| "is a number".to_owned())
    }

    fn print(&self) -> String {
        format!("{self:?}")
    }
}

impl Bounded for f64 {
    fn within(&self, bounds: &RangeInclusive<u64>) -> Result<(), String> {
        let (least, most) = (*bounds.start() as f64, *bounds.end() as f64);
        match (least..=most).contains(self) {
            true => Ok(()),
            false => Err(format!("is {self}, and has to be from {least} to {most}")),
        }
    }
}

fn text(raw: &Raw) -> Result<&str, String> {
    match raw {
        Raw::Typed(Value::String(text)) | Raw::Text(text) => Ok(text),
        Raw::Typed(_) => Err("is a text, in quotes".to_owned()),
    }
}

fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

impl Setting for String {
    fn read(raw: &Raw) -> Result<Self, String> {
        text(raw).map(str::to_owned)
    }

    fn print(&self) -> String {
        quoted(self)
    }
}

/// Text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Concealed(String);

impl Concealed {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Concealed(text.into())
    }

    /// The text itself, for whom it is meant.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// The text with what is between `//` and `@` hidden.
    fn shown(&self) -> String {
        match self.0.split_once("://").zip(self.0.rsplit_once('@')) {
            Some(((scheme, _), (_, rest))) => format!("{scheme}://…@{rest}"),
            None => self.0.clone(),
        }
    }
}

impl fmt::Debug for Concealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Concealed({})", self.shown())
    }
}

impl Setting for Concealed {
    fn read(raw: &Raw) -> Result<Self, String> {
        text(raw).map(Concealed::new)
    }

    fn print(&self) -> String {
        quoted(&self.shown())
    }
}

/// An empty text stands for nothing, so that the environment can take something back.
macro_rules! text_or_nothing {
    ($($kind:ty, $is:literal);+ $(;)?) => {$(
        impl Setting for Option<$kind> {
            fn read(raw: &Raw) -> Result<Self, String> {
                match text(raw)? {
                    "" => Ok(None),
                    text => text.parse().map(Some).map_err(|error| format!("{}: {error}", $is)),
                }
            }

            fn print(&self) -> String {
                quoted(&self.as_ref().map(|value| shown(value)).unwrap_or_default())
            }
        }
    )+};
}

text_or_nothing! {
    CatalogueUrl, "is a URL such as https://models.example.org/catalogue.json";
    Endpoint, "is a URL such as http://127.0.0.1:4318";
    InstanceId, "is an id";
    PathBuf, "is a path";
    Region, "is an id";
    String, "is a text";
}

/// Paths have no `Display` of their own.
trait ShowValue {
    fn shown(&self) -> String;
}

impl ShowValue for PathBuf {
    fn shown(&self) -> String {
        self.display().to_string()
    }
}

impl ShowValue for InstanceId {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl ShowValue for Region {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl ShowValue for Endpoint {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl ShowValue for CatalogueUrl {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl ShowValue for String {
    fn shown(&self) -> String {
        self.clone()
    }
}

fn shown(value: &impl ShowValue) -> String {
    value.shown()
}

impl Setting for Option<SocketAddr> {
    fn read(raw: &Raw) -> Result<Self, String> {
        match text(raw)? {
            "" => Ok(None),
            text => address(text).map(Some),
        }
    }

    fn print(&self) -> String {
        quoted(&self.map(|address| address.to_string()).unwrap_or_default())
    }
}

impl Setting for SocketAddr {
    fn read(raw: &Raw) -> Result<Self, String> {
        address(text(raw)?)
    }

    fn print(&self) -> String {
        quoted(&self.to_string())
    }
}

/// A list; in the environment with commas.
fn list(raw: &Raw) -> Result<Vec<String>, String> {
    let wrong = || "is a list of texts".to_owned();
    match raw {
        Raw::Typed(Value::Array(items)) => {
            items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
        }
        Raw::Typed(_) => Err(wrong()),
        Raw::Text(text) => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Ok(items.map(str::to_owned).collect())
        }
    }
}

fn listed(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.map(|item| quoted(&item)).collect::<Vec<_>>().join(", "))
}

impl Setting for Vec<String> {
    fn read(raw: &Raw) -> Result<Self, String> {
        list(raw)
    }

    fn print(&self) -> String {
        listed(self.iter().cloned())
    }
}

impl Setting for Vec<PathBuf> {
    fn read(raw: &Raw) -> Result<Self, String> {
        Ok(list(raw)?.into_iter().map(PathBuf::from).collect())
    }

    fn print(&self) -> String {
        listed(self.iter().map(ShowValue::shown))
    }
}

/// 0 stands for none.
impl Setting for Option<u64> {
    fn read(raw: &Raw) -> Result<Self, String> {
        let number = u64::read(raw)?;
        Ok((number > 0).then_some(number))
    }

    fn print(&self) -> String {
        self.unwrap_or(0).print()
    }
}

impl Bounded for Option<u64> {
    fn within(&self, bounds: &RangeInclusive<u64>) -> Result<(), String> {
        self.unwrap_or(0).within(bounds)
    }
}

/// A list of words with a meaning of their own; each is read by itself.
macro_rules! list_of {
    ($($kind:ty, $is:literal);+ $(;)?) => {$(
        impl Setting for Vec<$kind> {
            fn read(raw: &Raw) -> Result<Self, String> {
                let one = |text: &String| {
                    text.parse().map_err(|_| format!("has {text:?}, which is not {}", $is))
                };
                list(raw)?.iter().map(one).collect()
            }

            fn print(&self) -> String {
                listed(self.iter().map(ToString::to_string))
            }
        }
    )+};
}

list_of! {
    Lang, "a language such as \"en\"";
    TenantId, "the id of a tenant";
}

/// A word of a few.
macro_rules! words {
    ($kind:ty: $($word:literal = $value:expr),+ $(,)?) => {
        impl Setting for $kind {
            fn read(raw: &Raw) -> Result<Self, String> {
                let known = [$(($word, $value)),+];
                let text = text(raw)?;
                let found = known.iter().find(|(word, _)| *word == text);
                let words = || [$($word),+].join(" or ");
                found.map(|(_, value)| *value).ok_or_else(|| format!("is {}", words()))
            }

            fn print(&self) -> String {
                let known = [$(($word, $value)),+];
                let found = known.into_iter().find(|(_, value)| value == self);
                quoted(found.map_or("", |(word, _)| word))
            }
        }
    };
}

words!(SessionAlias: "turn" = SessionAlias::Turn, "session" = SessionAlias::Session);
words!(
    SlowStart: "strangers" = SlowStart::Strangers, "all" = SlowStart::All, "off" = SlowStart::Off
);
words!(
    RankRule: "load" = RankRule::Load, "region" = RankRule::Region, "cheapest" = RankRule::Cheapest
);
words!(LogFormat: "human" = LogFormat::Human, "json" = LogFormat::Json);
words!(super::Profile: "stable" = super::Profile::Stable, "fast" = super::Profile::Fast);

#[cfg(test)]
mod tests {
    use super::*;

    fn of<T: Setting>(text: &str) -> Result<T, String> {
        T::read(&Raw::Text(text.to_owned()))
    }

    #[test]
    fn numbers_are_read_with_and_without_groups() {
        assert_eq!(of::<u64>("75_000"), Ok(75_000));
        assert_eq!(of::<u64>(" 75000 "), Ok(75_000));
        assert_eq!(of::<u8>("256"), Err("is a whole number from 0 to 255".to_owned()));
        assert!(of::<u32>("-1").is_err());
        assert!(u32::read(&Raw::Typed(Value::Integer(-1))).is_err());
        assert!(u32::read(&Raw::Typed(Value::String("1".to_owned()))).is_err());
        assert_eq!(75_000u64.print(), "75_000");
        assert_eq!(1_000u64.print(), "1000");
        assert_eq!(16_777_216u64.print(), "16_777_216");
        assert!(of::<f64>("NaN").is_err());
    }

    #[test]
    fn an_empty_text_takes_something_back() {
        assert_eq!(of::<Option<SocketAddr>>(""), Ok(None));
        assert_eq!(
            of::<Option<SocketAddr>>("[::1]:1").map(|address| address.print()),
            Ok("\"[::1]:1\"".to_owned())
        );
        assert!(of::<Option<SocketAddr>>("nowhere").is_err());
        assert_eq!(of::<Vec<String>>("a, b ,,"), Ok(vec!["a".to_owned(), "b".to_owned()]));
    }

    #[test]
    fn what_is_concealed_is_never_shown() {
        for url in
            ["redis://user:canary@host:6379/0", "redis://:canary@host/0", "redis://a:b@canary@h"]
        {
            let concealed = Concealed::new(url);
            assert!(!format!("{concealed:?} {}", concealed.print()).contains("canary"), "{url}");
            assert_eq!(concealed.reveal(), url);
        }
        assert_eq!(Concealed::new("memory").print(), "\"memory\"");
    }
}
