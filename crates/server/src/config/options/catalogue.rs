//! `[catalogue]`.

use std::path::PathBuf;

use super::section;
use crate::site::CatalogueUrl;

section! {
    /// The catalogue of services: which services exist, with versions, sizes and languages. It is shown beside what the
    /// nodes have, and decides nothing.
    "catalogue.": CatalogueOptions in catalogue {
        /// Where to read it, such as https://models.example.org/catalogue.json. It is asked for every 30 s, with the
        /// ETag of the last answer; redirects are not followed. Empty disables it.
        url: Option<CatalogueUrl> = None;
        /// A file to read it from instead, looked at every 30 s.
        file: Option<PathBuf> = None;
    }
}
