//! Every option, declared once: its name, help text, bounds and place. One file per section.
//!
//! The value of an option lives in one place. What the engine reads is a field of [`Config::engine`], which
//! the engine gets as it is, and its default is that of [`Settings`]. What the server reads is a field of the
//! section's struct, which the declaration makes.

mod audio;
mod audit;
mod catalogue;
mod cluster;
mod identity;
mod jobs;
mod limits;
mod log;
mod main;
mod nodes;
mod sessions;
mod tls;

pub(crate) use audit::Audit;
pub(crate) use catalogue::CatalogueOptions;
pub(crate) use cluster::Cluster;
pub(crate) use identity::Identity;
pub(crate) use limits::Limits;
pub(crate) use log::Log;
pub(crate) use main::Main;
pub(crate) use tls::Tls;

use lingua_engine::Settings;

use super::setting::{Raw, Setting};

/// A set of defaults.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub(crate) enum Profile {
    #[default]
    Stable,
    Fast,
}

impl Profile {
    /// What is meant, if it can be read.
    pub(super) fn of(raw: &Raw) -> Option<Self> {
        Setting::read(raw).ok()
    }

    fn settings(self) -> Settings {
        Settings::preset(match self {
            Profile::Stable => lingua_core::Profile::Stable,
            Profile::Fast => lingua_core::Profile::Fast,
        })
    }
}

/// The option that says which defaults the others have.
pub(super) const PROFILE: &str = "profile";

/// The whole configuration.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Config {
    /// Every option that the engine reads.
    pub(crate) engine: Settings,
    pub(crate) main: Main,
    pub(crate) tls: Tls,
    pub(crate) identity: Identity,
    pub(crate) limits: Limits,
    pub(crate) cluster: Cluster,
    pub(crate) log: Log,
    pub(crate) audit: Audit,
    pub(crate) catalogue: CatalogueOptions,
}

/// All sections in the order of the file.
pub(super) const SECTIONS: [&Section; 12] = [
    &main::SECTION,
    &tls::SECTION,
    &identity::SECTION,
    &limits::SECTION,
    &jobs::SECTION,
    &nodes::SECTION,
    &sessions::SECTION,
    &audio::SECTION,
    &cluster::SECTION,
    &log::SECTION,
    &audit::SECTION,
    &catalogue::SECTION,
];

/// A section of the file.
pub(super) struct Section {
    /// Empty for the options ahead of all sections.
    pub(super) name: &'static str,
    pub(super) says: &'static str,
    pub(super) options: &'static [About],
}

/// An option.
pub(super) struct About {
    /// The name with its section, such as `jobs.ack_ms`.
    pub(super) path: &'static str,
    pub(super) says: &'static str,
    /// It may change while the scheduler runs.
    pub(super) reloads: bool,
    /// Puts a value in its place; what is wrong goes behind the option's name.
    set: fn(&mut Config, &Raw) -> Result<(), String>,
    /// The value as it stands in a file; secrets are not shown.
    print: fn(&Config) -> String,
}

impl About {
    /// The value as it stands in a file; secrets are not shown.
    pub(super) fn print(&self, config: &Config) -> String {
        (self.print)(config)
    }
}

impl Config {
    /// The defaults of this profile.
    pub(crate) fn preset(profile: Profile) -> Self {
        Config {
            engine: profile.settings(),
            main: Main::preset(profile),
            tls: Tls::preset(profile),
            identity: Identity::preset(profile),
            limits: Limits::preset(profile),
            cluster: Cluster::preset(profile),
            log: Log::preset(profile),
            audit: Audit::preset(profile),
            catalogue: CatalogueOptions::preset(profile),
        }
    }

    /// Puts a value in its place; what is wrong goes behind the option's name.
    pub(super) fn set(&mut self, path: &str, raw: &Raw) -> Result<(), String> {
        let option = all().find(|option| option.path == path);
        option.map_or_else(|| Err("is not an option".to_owned()), |option| (option.set)(self, raw))
    }
}

/// All options in the order of the file.
pub(super) fn all() -> impl Iterator<Item = &'static About> {
    SECTIONS.iter().flat_map(|section| section.options)
}

/// The names of all options.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    all().map(|option| option.path)
}

/// The names of all sections.
pub(super) fn sections() -> impl Iterator<Item = &'static str> {
    SECTIONS.iter().map(|section| section.name).filter(|name| !name.is_empty())
}

/// The name of the section whose options begin with this.
const fn section_of(prefix: &'static str) -> &'static str {
    match prefix.as_bytes() {
        [section @ .., b'.'] => match std::str::from_utf8(section) {
            Ok(section) => section,
            Err(_) => "",
        },
        _ => "",
    }
}

/// Declares a section that has options of the server: a struct with them and its presets, and the list of all its
/// options. `name: Type = default` is the server's, `@ name in place` is the engine's; bounds and
/// `=> reloads` may follow.
macro_rules! section {
    (
        $(#[doc = $section_says:literal])+
        $($profile:ident;)? $prefix:literal: $kind:ident in $field:ident {
            $(
                $(#[doc = $says:literal])+
                $(@ $name:ident in $($place:ident).+)? $($own:ident: $type:ty = $default:expr)?
                    $(, $least:literal..=$most:literal)? $(=> $reloads:ident)?;
            )+
        }
    ) => {
        $(#[doc = $section_says])+
        #[derive(Clone, PartialEq, Debug)]
        pub(crate) struct $kind {
            $($(pub(crate) $own: $type,)?)+
        }

        impl $kind {
            /// The defaults of this profile.
            pub(super) fn preset(profile: $crate::config::Profile) -> Self {
                $(let $profile = profile;)?
                let _ = profile;
                $kind { $($($own: $default,)?)+ }
            }
        }

        pub(super) const SECTION: super::Section = super::Section {
            name: super::section_of($prefix),
            says: concat!($($section_says, "\n"),+),
            options: &[$(super::About {
                path: concat!($prefix, $(stringify!($own))? $(stringify!($name))?),
                says: concat!($($says, "\n"),+),
                reloads: super::reloads!($($reloads)?),
                set: |config, raw| {
                    let value = $crate::config::setting::Setting::read(raw)?;
                    $($crate::config::setting::Bounded::within(&value, &($least..=$most))?;)?
                    $(config.$field.$own = value;)?
                    $(config.engine$(.$place)+ = value;)?
                    Ok(())
                },
                print: |config| {
                    $(let value = &config.$field.$own;)?
                    $(let value = &config.engine$(.$place)+;)?
                    $crate::config::setting::Setting::print(value)
                },
            }),+],
        };
    };
}

/// Declares a section whose options are all the engine's: `name in place`, and bounds.
macro_rules! engine_section {
    (
        $(#[doc = $section_says:literal])+
        $prefix:literal {
            $(
                $(#[doc = $says:literal])+
                $name:ident in $($place:ident).+ $(, $least:literal..=$most:literal)?;
            )+
        }
    ) => {
        pub(super) const SECTION: super::Section = super::Section {
            name: super::section_of($prefix),
            says: concat!($($section_says, "\n"),+),
            options: &[$(super::About {
                path: concat!($prefix, stringify!($name)),
                says: concat!($($says, "\n"),+),
                reloads: false,
                set: |config, raw| {
                    let value = $crate::config::setting::Setting::read(raw)?;
                    $($crate::config::setting::Bounded::within(&value, &($least..=$most))?;)?
                    config.engine$(.$place)+ = value;
                    Ok(())
                },
                print: |config| {
                    $crate::config::setting::Setting::print(&config.engine$(.$place)+)
                },
            }),+],
        };
    };
}

macro_rules! reloads {
    () => {
        false
    };
    (reloads) => {
        true
    };
}

use {engine_section, reloads, section};
