//! Ceilings that hold whatever the configuration says, each with its reason.

/// Characters of an id. Long enough for a UUID with a prefix, short enough for a key name.
pub const MAX_ID_CHARS: usize = 64;

/// Bytes of a language tag. Every tag in use fits (`zh-cmn-Hans-CN` has 14), and a tag stays a
/// value that is copied, not shared.
pub const MAX_LANG_BYTES: usize = 15;

/// Languages in one list of a node. A node that speaks more is a mistake or an attack on the
/// product of its lists.
pub const MAX_LANGS_PER_LIST: usize = 64;

/// Explicit translation pairs of a node: every pair of a full list.
pub const MAX_NMT_PAIRS: usize = MAX_LANGS_PER_LIST * MAX_LANGS_PER_LIST;

/// Slots of one node. A step that reads a node's own leases stays far below a millisecond.
pub const MAX_SLOTS: u32 = 256;

/// What a job on one node costs at most, in millionths of the unit that nodes share: 1,000 units.
pub const MAX_COST_MICROS: u32 = 1_000_000_000;

/// Types of services of one node that are kept.
pub const MAX_SERVICES_PER_NODE: usize = 64;

/// Models of one node that are kept: more than a disk holds.
pub const MAX_MODELS_PER_NODE: usize = 256;

/// Installed services of one node that are kept, several of each type.
pub const MAX_INSTALLED_SERVICES_PER_NODE: usize = 128;

/// Features of one node that are kept.
pub const MAX_FEATURES_PER_NODE: usize = 64;

/// GPUs of one node that are kept.
pub const MAX_GPUS_PER_NODE: usize = 32;

/// Models that one job may name, each looked up once in the reserve step.
pub const MAX_MODELS_PER_JOB: usize = 8;

/// Features that one job may ask for.
pub const MAX_FEATURES_PER_JOB: usize = 64;

/// Regions that one job, or the jobs of one tenant, may be kept in.
pub const MAX_REGIONS_PER_JOB: usize = 16;

/// Tenants on the allow-list of one node.
pub const MAX_TENANTS_PER_NODE: usize = 64;

/// Attempts of one job, whatever the profile says.
pub const MAX_ATTEMPTS: u32 = 16;

/// Language pairs whose pool is kept ready. A pair beyond it replaces the one unused for longest.
pub const MAX_POOLS: usize = 4096;
