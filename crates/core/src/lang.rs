//! Languages: BCP-47 tags, normalised, short enough to be copied.

use std::fmt;
use std::str::FromStr;

use oxilangtag::LanguageTag;
use serde::{Deserialize, Serialize};

use crate::limits::{MAX_LANG_BYTES, MAX_LANGS_PER_LIST};

/// Why a string is not a language.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LangError {
    /// Not a BCP-47 tag with a two- or three-letter language.
    #[error("{0:?} is not a BCP-47 language tag such as \"en\" or \"zh-Hant\"")]
    NotATag(String),
    /// Longer than any tag in use.
    #[error("a language tag has at most {MAX_LANG_BYTES} characters")]
    TooLong,
    /// More than [`MAX_LANGS_PER_LIST`] languages in one list.
    #[error("a list holds at most {MAX_LANGS_PER_LIST} languages, this one has {0}")]
    TooMany(usize),
}

/// A language tag in its usual spelling: `en`, `zh-Hant`, `pt-BR`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Lang {
    len: u8,
    bytes: [u8; MAX_LANG_BYTES],
}

impl Lang {
    /// Checks and normalises `text`; `ZH_cn` is taken as `zh-CN`.
    pub fn new(text: &str) -> Result<Self, LangError> {
        if text.len() > MAX_LANG_BYTES {
            return Err(LangError::TooLong);
        }
        let wrong = || LangError::NotATag(text.to_owned());
        let tag = LanguageTag::parse_and_normalize(&text.replace('_', "-")).map_err(|_| wrong())?;
        // Private-use and grandfathered tags name no language that a node could serve.
        if !matches!(tag.primary_language().len(), 2 | 3) || tag.as_str().len() > MAX_LANG_BYTES {
            return Err(wrong());
        }
        Ok(Self::from_checked(tag.as_str()))
    }

    fn from_checked(text: &str) -> Self {
        let mut bytes = [0; MAX_LANG_BYTES];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Lang { len: u8::try_from(text.len()).expect("at most 15"), bytes }
    }

    /// The tag in its usual spelling.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.len)]).expect("tags are ASCII")
    }

    /// Whether one who lists this language serves `wanted`: the same tag, or a more general one
    /// (`zh` serves `zh-CN`; `zh-CN` does not serve `zh`).
    pub fn serves(&self, wanted: &Lang) -> bool {
        let (mine, theirs) = (self.as_str(), wanted.as_str());
        theirs.strip_prefix(mine).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    }

    /// The tag itself and each more general one, most specific first: `zh-Hant-TW`, `zh-Hant`, `zh`.
    fn and_more_general(&self) -> impl Iterator<Item = Lang> {
        let text = *self;
        let mut end = Some(usize::from(self.len));
        std::iter::from_fn(move || {
            let now = end?;
            let tag = Lang::from_checked(&text.as_str()[..now]);
            end = text.as_str()[..now].rfind('-');
            Some(tag)
        })
    }
}

impl FromStr for Lang {
    type Err = LangError;
    fn from_str(text: &str) -> Result<Self, LangError> {
        Self::new(text)
    }
}

impl TryFrom<String> for Lang {
    type Error = LangError;
    fn try_from(text: String) -> Result<Self, LangError> {
        Self::new(&text)
    }
}

impl From<Lang> for String {
    fn from(lang: Lang) -> String {
        lang.as_str().to_owned()
    }
}

impl fmt::Display for Lang {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Lang {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

/// A bounded set of languages, as a node lists them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<Lang>", into = "Vec<Lang>")]
pub struct LangSet(Vec<Lang>);

impl LangSet {
    /// The set of `langs`; repeats count once, and only then is the bound checked.
    pub fn new(langs: impl IntoIterator<Item = Lang>) -> Result<Self, LangError> {
        let mut langs: Vec<Lang> = langs.into_iter().collect();
        langs.sort_unstable();
        langs.dedup();
        if langs.len() > MAX_LANGS_PER_LIST {
            return Err(LangError::TooMany(langs.len()));
        }
        Ok(LangSet(langs))
    }

    /// Whether some member serves `wanted`, see [`Lang::serves`].
    pub fn serves(&self, wanted: &Lang) -> bool {
        wanted.and_more_general().any(|tag| self.0.binary_search(&tag).is_ok())
    }

    /// No language at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The members in the order of their tags.
    pub fn iter(&self) -> impl Iterator<Item = &Lang> {
        self.0.iter()
    }
}

impl TryFrom<Vec<Lang>> for LangSet {
    type Error = LangError;
    fn try_from(langs: Vec<Lang>) -> Result<Self, LangError> {
        LangSet::new(langs)
    }
}

impl From<LangSet> for Vec<Lang> {
    fn from(set: LangSet) -> Vec<Lang> {
        set.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lang(text: &str) -> Lang {
        Lang::new(text).unwrap()
    }

    #[test]
    fn tags_are_normalised_and_nonsense_is_refused() {
        assert_eq!(lang("ZH-cn").as_str(), "zh-CN");
        assert_eq!(lang("zh_hant_tw").as_str(), "zh-Hant-TW");
        for bad in ["", "e", "x-private", "auto", "en--US", "en US", "{en}", "en:zh", "i-klingon"] {
            assert!(Lang::new(bad).is_err(), "{bad:?}");
        }
        assert_eq!(Lang::new("en-a-very-long-extension"), Err(LangError::TooLong));
    }

    #[test]
    fn a_general_tag_serves_a_special_one_and_not_the_other_way() {
        assert!(lang("zh").serves(&lang("zh-Hant-TW")));
        assert!(lang("zh-Hant").serves(&lang("zh-Hant-TW")));
        assert!(!lang("zh-Hant").serves(&lang("zh")));
        assert!(!lang("zh").serves(&lang("zha")));
        let set = LangSet::new([lang("zh-Hant"), lang("en")]).unwrap();
        assert!(set.serves(&lang("zh-Hant-TW")) && set.serves(&lang("en-GB")));
        assert!(!set.serves(&lang("zh")) && !set.serves(&lang("zh-Hans")));
    }

    #[test]
    fn a_list_holds_at_most_sixty_four_languages() {
        let tags = |n: usize| {
            (0..n).map(|i| {
                let (a, b) =
                    (b'a' + u8::try_from(i / 26).unwrap(), b'a' + u8::try_from(i % 26).unwrap());
                lang(std::str::from_utf8(&[b'q', a, b]).unwrap())
            })
        };
        assert!(LangSet::new(tags(64)).is_ok());
        assert_eq!(LangSet::new(tags(65)), Err(LangError::TooMany(65)));
        assert!(LangSet::new(tags(64).chain(tags(64))).is_ok());
    }
}
