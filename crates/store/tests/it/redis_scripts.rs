//! Every script keeps what its header promises, touches only its keys, and stays short however
//! large the fleet, its languages and its pools are.

mod costs;

use crate::faults;

use std::collections::BTreeSet;
use std::path::Path;

use faults::lua::{Code, Header};
use faults::*;
use futures_util::{StreamExt, TryStreamExt, stream};
use lingua_core::job::JobState;
use lingua_core::lang::LangSet;
use lingua_core::limits::{MAX_LANGS_PER_LIST, MAX_NMT_PAIRS, MAX_SLOTS};
use lingua_core::node::{Declaration, NmtPairs, NodeProfile};
use lingua_core::slots::Commit;
use lingua_core::{Lang, LeaseToken, ModelId};
use lingua_lab::{RedisServer, Reply};
use lingua_store::Backend;
use lingua_store::jobs::{Assignment, EndedBy, Ending, NewJob};
use lingua_store::nodes::{BeatReply, MAX_GAPS_PER_NODE};
use lingua_store::redis::{SCRIPTS, Script};
use lingua_store::slots::{Reserve, Wish};

/// A script of more lines does too much in one step.
const MAX_LINES: usize = 95;

const TYPES: [&str; 5] = ["hash", "zset", "set", "stream", "string"];

/// Commands that have no key.
const KEYLESS: [&str; 2] = ["TIME", "INFO"];

/// Commands all of whose arguments are keys.
const ALL_KEYS: [&str; 3] = ["UNLINK", "DEL", "EXISTS"];

fn scripts() -> impl Iterator<Item = (&'static Script, Header, Code)> {
    SCRIPTS.iter().map(|script| (*script, Header::of(script.text), Code::of(script.text)))
}

#[test]
fn every_lua_file_is_a_script_and_a_short_one() -> Outcome {
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("lua"))? {
        files.insert(entry?.file_name().to_string_lossy().into_owned());
    }
    let names = SCRIPTS.iter().map(|script| format!("{}.lua", script.name));
    assert_eq!(files, names.collect());
    for script in SCRIPTS {
        let lines = script.text.lines().count();
        assert!(lines <= MAX_LINES, "{} has {lines} lines", script.name);
    }
    Ok(())
}

#[test]
fn every_header_says_in_a_sentence_what_the_script_does_and_names_slot_and_clock() {
    for (Script { name, .. }, header, code) in scripts() {
        let sentence = &header.sentence;
        assert!(sentence.starts_with(|c: char| c.is_uppercase()), "{name}: {sentence}");
        assert!(sentence.ends_with('.'), "{name}: {sentence}");
        let asks = code.calls().iter().any(|(command, _)| command == "TIME");
        assert_eq!(header.clock, if asks { "TIME" } else { "none" }, "{name}: Clock");
        assert!(!header.slot.is_empty(), "{name}: Slot");
    }
}

#[test]
fn every_key_and_argument_of_the_code_is_in_the_header_and_the_other_way_round() {
    for (Script { name, .. }, header, code) in scripts() {
        let keys: BTreeSet<_> = header.keys.keys().copied().collect();
        assert_eq!(code.indices("KEYS"), keys, "{name}: KEYS");
        assert_eq!(keys, (1..=keys.len()).collect(), "{name}: a gap in KEYS");
        for (shape, kind) in header.keys.values() {
            assert!(TYPES.contains(&kind.as_str()), "{name}: {shape} is a {kind}");
        }
        let mut args = code.indices("ARGV");
        args.extend(code.args_and_on());
        assert_eq!(args, header.args, "{name}: ARGV");
        assert_eq!(args, (1..=args.len()).collect(), "{name}: a gap in ARGV");
        assert_eq!(code.args_and_on(), header.args_and_on, "{name}: ARGV and on");
    }
}

#[test]
fn every_reply_of_the_code_is_in_the_header_and_the_other_way_round() {
    for (Script { name, .. }, header, code) in scripts() {
        assert_eq!(code.replies(), header.replies, "{name}");
        assert!(!header.replies.is_empty(), "{name} answers nothing");
    }
}

/// Flaws 62 and 64.
#[test]
fn all_keys_of_a_script_share_one_hash_tag() {
    for (Script { name, .. }, header, _) in scripts() {
        for (shape, _) in header.keys.values() {
            let tag = shape.find('{').and_then(|from| Some(&shape[from..=shape.find('}')?]));
            assert_eq!(tag.unwrap_or(shape), header.slot, "{name}: {shape}");
        }
    }
}

/// Flaw 63.
#[test]
fn no_script_makes_up_the_name_of_a_key() {
    for (Script { name, .. }, _, code) in scripts() {
        let names = code.key_names();
        for (command, arguments) in code.calls() {
            if KEYLESS.contains(&command.as_str()) {
                continue;
            }
            let keys = if ALL_KEYS.contains(&command.as_str()) { arguments.len() } else { 1 };
            for key in &arguments[..keys] {
                let given = key.starts_with("KEYS[") && key.ends_with(']');
                assert!(given || names.contains(key), "{name}: {command} {key}");
            }
        }
        for key in &names {
            let rebound = format!("\n{key} = ");
            assert!(!code.text().contains(&rebound), "{name}: {key} gets another value");
        }
    }
}

/// Flaws 56, 68 and 71.
#[test]
fn no_script_walks_the_keyspace_throws_dice_or_has_another_clock() {
    for (Script { name, .. }, _, code) in scripts() {
        for forbidden in ["math.random", "os.", "loadstring", "redis.pcall", "_G", "cjson"] {
            assert!(!code.text().contains(forbidden), "{name} uses {forbidden}");
        }
        for (command, _) in code.calls() {
            assert_eq!(command, command.to_uppercase(), "{name}");
            let walks = ["KEYS", "SCAN", "SORT", "HGETALL", "SMEMBERS", "XREAD", "EVAL", "PUBLISH"];
            let dice = command.contains("RAND") || command.contains("POP");
            assert!(!walks.contains(&command.as_str()) && !dice, "{name} calls {command}");
        }
    }
}

/// Flaw 55.
#[test]
fn every_variable_of_a_script_is_local() {
    for (Script { name, .. }, _, code) in scripts() {
        assert_eq!(code.globals(), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn the_reader_of_scripts_sees_what_is_wrong() {
    let code = Code::of("local a, b = KEYS[1], ARGV[1]\nc = 1\nredis.call('SET', 'x' .. b, 1)\n");
    assert_eq!(code.globals(), ["c"]);
    assert_eq!(code.key_names(), BTreeSet::from(["a".to_owned()]));
    assert_eq!(code.calls(), [("SET".to_owned(), vec!["'x' .. b".to_owned(), "1".to_owned()])]);
    let header = Header::of(
        "-- Does.\n-- ARGV[1] and on: x\n-- Replies: a b | c\n--   | d\n-- Slot: {x}. Clock: none, y.\n",
    );
    assert_eq!(header.replies, ["a", "c", "d"].map(str::to_owned).into());
    let code = Code::of("return {'a', 1}\nreturn 'c ' .. x\nreturn 'd'\nreturn nil\n");
    assert_eq!(code.replies(), header.replies);
    assert_eq!((header.args_and_on, header.clock.as_str()), (Some(1), "none"));
}

/// Flaw 55.
#[tokio::test]
async fn the_server_takes_every_script() -> Outcome {
    let server = RedisServer::start().await?;
    for script in SCRIPTS {
        let sha = server.command(&["SCRIPT", "LOAD", script.text]).await?.into_result()?;
        assert_eq!(sha.text(), script.sha(), "{}", script.name);
    }
    Ok(())
}
