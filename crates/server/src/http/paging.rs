//! Pages of a list: `limit` entries behind `after`, and `next`, which is the `after` of the next page.
//!
//! A list is in the order of a key that no two entries share. The handler fetches [`Page::fetch`] entries,
//! one more than it shows, and [`Page::cut`] says whether there is a next page.

use std::fmt::Display;
use std::str::FromStr;

use super::error::Answer;
use super::query::Params;
use crate::wire::http::within;

/// Entries on one page, unless the caller says how many.
pub(crate) const USUAL: u64 = 100;

/// Entries on one page at most.
pub(crate) const MOST: u64 = 1_000;

/// The page that the caller asks for.
#[derive(Debug)]
pub(crate) struct Page<K> {
    limit: usize,
    /// The key of the last entry of the page before.
    pub(crate) after: Option<K>,
}

impl<K: FromStr> Page<K>
where
    K::Err: Display,
{
    /// Reads `limit` and `after`. Both have to be described as parameters of the call.
    pub(crate) fn asked(params: &Params) -> Answer<Self> {
        let limit = within("limit", params.number("limit")?.unwrap_or(USUAL), 1..=MOST)?;
        let limit = usize::try_from(limit).expect("at most 1000");
        Ok(Page { limit, after: params.get("after")? })
    }
}

impl<K> Page<K> {
    /// How many entries to fetch: one more than the page shows.
    pub(crate) fn fetch(&self) -> usize {
        self.limit + 1
    }

    /// Cuts what was fetched to the page. Returns `next` if more follow.
    pub(crate) fn cut<T>(
        &self,
        fetched: &mut Vec<T>,
        key: impl Fn(&T) -> String,
    ) -> Option<String> {
        let more = fetched.len() > self.limit;
        fetched.truncate(self.limit);
        fetched.last().filter(|_| more).map(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pages of so many entries, read one after the other by `next`.
    fn pages(entries: u32, limit: usize) -> Vec<Vec<u32>> {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = Page { limit, after };
            let behind = (0..entries).filter(|one| page.after.is_none_or(|after| *one > after));
            let mut fetched: Vec<u32> = behind.take(page.fetch()).collect();
            let next = page.cut(&mut fetched, u32::to_string);
            found.push(fetched);
            match next {
                Some(next) => after = Some(next.parse().unwrap()),
                None => return found,
            }
        }
    }

    #[test]
    fn every_entry_is_on_one_page_and_a_full_last_page_has_no_next() {
        assert_eq!(pages(5, 2), [vec![0, 1], vec![2, 3], vec![4]]);
        assert_eq!(pages(4, 2), [vec![0, 1], vec![2, 3]]);
        assert_eq!(pages(0, 2), [Vec::<u32>::new()]);
        assert_eq!(pages(1_000, 1_000).len(), 1);
    }
}
