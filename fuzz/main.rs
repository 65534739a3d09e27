//! One fuzzer for all targets; `LINGUA_FUZZ_TARGET` says which one this process runs.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("LINGUA_FUZZ_TARGET").unwrap_or_default();
    let mut targets = lingua_server::fuzzing::targets();
    let names: Vec<&str> = lingua_server::fuzzing::targets().map(|(name, _)| name).collect();
    let found = targets.find(|(other, _)| *other == name);
    found.unwrap_or_else(|| panic!("LINGUA_FUZZ_TARGET is none of {names:?}")).1
});

fuzz_target!(|data: &[u8]| TARGET(data));
