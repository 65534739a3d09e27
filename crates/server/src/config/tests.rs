use std::io::Write;

use super::options::{SECTIONS, all};
use super::*;

/// A file with this text.
fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn load_with(text: &str, environment: &[(&str, &str)]) -> Result<Loaded, Problems> {
    let file = file(text);
    let asked = Asked { file: Some(file.path().to_owned()), flags: Vec::new() };
    let environment = environment.iter().map(|(name, value)| ((*name).into(), (*value).into()));
    let loaded = asked.load(environment);
    let path = file.path().display().to_string();
    loaded.map_err(|Problems(all)| {
        Problems(all.into_iter().map(|one| one.replace(&path, "file")).collect())
    })
}

fn problems(text: &str) -> Vec<String> {
    load_with(text, &[]).map(|loaded| loaded.config).unwrap_err().0
}

#[test]
fn the_sample_file_is_what_the_code_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/lingua.sample.toml");
    let there = std::fs::read_to_string(path).unwrap();
    assert!(
        there == sample(),
        "config/lingua.sample.toml is not what `lingua config default` prints; write it anew"
    );
}

#[test]
fn the_sample_file_changes_nothing() {
    let loaded = load_with(&sample(), &[]).unwrap();
    assert_eq!(loaded.config, Config::preset(Profile::Stable));
    assert_eq!(loaded.origins.len(), all().count(), "every option stands in it");
    let printed = effective(&loaded.config, &BTreeMap::new());
    assert_eq!(load_with(&printed, &[]).unwrap().config, Config::preset(Profile::Stable));
}

#[test]
fn the_defaults_of_every_profile_fit_together() {
    assert_eq!(check::problems(&Config::preset(Profile::Stable)), Vec::<String>::new());
    assert_eq!(check::problems(&Config::preset(Profile::Fast)), Vec::<String>::new());
}

#[test]
fn every_option_has_a_reason_and_units_stand_in_names() {
    assert!(SECTIONS.iter().all(|section| !section.says.trim().is_empty()));
    for option in all() {
        assert!(option.says.trim().ends_with(['.', ')']), "{}", option.path);
        for word in ["seconds", "millis", "timeout"] {
            let bare = option.path.ends_with(word);
            assert!(!bare, "{} has no unit", option.path);
        }
    }
}

#[test]
fn a_name_that_is_no_option_is_told_with_the_one_that_is() {
    assert_eq!(
        problems(
            "listn = \"127.0.0.1:1\"\n[jobs]\nack_timeout = 1\npause_ms = 5\n[job]\nack_ms = 2\n"
        ),
        [
            "file, line 5: [job] is not a section; did you mean [jobs]?",
            "file, line 3: jobs.ack_timeout is not an option; did you mean jobs.ack_ms?",
            "file, line 4: jobs.pause_ms is not an option; did you mean sessions.pause_ms?",
            "file, line 1: listn is not an option; did you mean listen?",
        ]
    );
}

#[test]
fn a_value_that_cannot_be_is_told_with_its_place() {
    assert_eq!(
        problems("threads = 257\nlisten = 5010\nprofile = \"quick\"\n[jobs]\nmax_attempts = 1.5\n"),
        [
            "file, line 5: jobs.max_attempts is a whole number from 0 to 4294967295",
            "file, line 2: listen is a text, in quotes",
            "file, line 3: profile is stable or fast",
            "file, line 1: threads is 257, and has to be from 0 to 256",
        ]
    );
    assert_eq!(problems("listen = \n").len(), 1);
    assert!(problems("\n\nlisten = = 1")[0].starts_with("file, line 3: "));
}

#[test]
fn a_deadline_that_is_too_short_is_refused_with_the_sum() {
    let all = problems("[jobs]\ndeadline_ms = 30_000\n");
    assert_eq!(all.len(), 1, "{all:?}");
    assert!(all[0].contains("30000") && all[0].contains("= 36000 ms"), "{}", all[0]);
}

#[test]
fn what_does_not_fit_together_is_refused() {
    for (text, word) in [
        ("[tls]\ncert_file = \"a\"", "both or neither"),
        ("[tls]\nnode_ca_file = \"a\"", "needs tls.cert_file"),
        ("[tls]\nrequire_node_cert = true", "needs tls.node_ca_file"),
        ("[tls]\nnode_crl_file = \"a\"", "needs tls.node_ca_file"),
        (
            "store_file = \"f\"\n[tls]\ncert_file = \"a\"\nkey_file = \"b\"",
            "needs tls.peer_ca_file",
        ),
        ("advertise = \"http://h\"\n[tls]\ncert_file = \"a\"\nkey_file = \"b\"", "https://"),
        ("advertise = \"foo\"", "is not http://host:port"),
        ("advertise = \"http://h:1/x?y=\"", "is not http://host:port"),
        ("store = \"redis://h\"\nstore_file = \"f\"", "one or the other"),
        ("admin_listen = \"127.0.0.1:5010\"", "leave it empty"),
        ("[limits]\nconnections = 100", "limits.connections"),
        ("[limits]\nsessions = 100", "limits.sessions"),
        ("[limits]\njobs = 100", "limits.jobs"),
        ("[limits]\nsession_message_bytes = 2000", "base64"),
        ("[limits]\ntenant_shares = [\"a=0\"]", "tenant=share"),
        ("[jobs]\nwaiting = 1", "jobs.waiting"),
        ("[jobs]\nrank = \"region\"", "jobs.rank = \"region\" needs jobs.region"),
        ("[jobs]\nrank = \"dearest\"", "jobs.rank is load or region or cheapest"),
        ("[jobs]\nregion = \"eu west\"", "jobs.region is an id: an id holds only letters"),
        ("[nodes]\nbreaker_longest_pause_ms = 1", "breaker"),
        ("[sessions]\nheld_bytes = 2000", "held_bytes"),
        ("[identity]\norigins = [\"https://a/b\"]", "origins"),
        ("[identity]\nissuer = \"\"", "issuer"),
        ("[identity]\nkey_files = [\"a/k.pem\", \"b/k.pub\"]", "same name"),
    ] {
        let all = problems(text);
        assert!(all.len() == 1 && all[0].contains(word), "{text}: {all:?}");
    }
}

#[test]
fn the_environment_wins_over_the_file_and_the_command_line_over_both() {
    let text = "listen = \"127.0.0.1:1\"\nthreads = 1\n[jobs]\nmax_attempts = 3\n";
    let file = file(text);
    let asked =
        Asked { file: Some(file.path().to_owned()), flags: vec![("threads", "3".to_owned())] };
    let environment = [("LINGUA_THREADS", "2"), ("LINGUA_JOBS_MAX_ATTEMPTS", "4")];
    let loaded = asked.load(environment.iter().map(|(a, b)| ((*a).into(), (*b).into()))).unwrap();
    assert_eq!(loaded.config.main.threads, 3);
    assert_eq!(loaded.config.engine.timing.max_attempts, 4);
    assert_eq!(loaded.config.main.listen.port(), 1);
    assert_eq!(loaded.origins["listen"], Origin::File(1));
    assert_eq!(loaded.origins["threads"], Origin::CommandLine);
    let printed = effective(&loaded.config, &loaded.origins);
    assert!(printed.contains("max_attempts = 4 # LINGUA_JOBS_MAX_ATTEMPTS"), "{printed}");
}

/// Sets the option to another value than it has.
fn change(config: &mut Config, option: &super::options::About) {
    const WORDS: [&str; 15] = [
        "true",
        "1",
        "0",
        "2",
        "10",
        "0.5",
        "fast",
        "all",
        "session",
        "cheapest",
        "json",
        "x=2",
        "x=fast",
        "127.0.0.1:9",
        "http://127.0.0.1:9",
    ];
    let before = option.print(config);
    let number: Option<u64> = before.replace('_', "").parse().ok();
    let near = number.into_iter().flat_map(|n| [n + 1, n.saturating_sub(1)]).map(|n| n.to_string());
    for value in near.chain(WORDS.map(str::to_owned)) {
        let mut other = config.clone();
        if other.set(option.path, &Raw::Text(value)).is_ok() && option.print(&other) != before {
            *config = other;
            return;
        }
    }
    panic!("no other value for {}", option.path);
}

#[test]
fn every_option_has_a_place_of_its_own() {
    let preset = Config::preset(Profile::Stable);
    for option in all() {
        let mut config = preset.clone();
        change(&mut config, option);
        assert_ne!(config, preset, "{}", option.path);
        let others = all().filter(|other| other.path != option.path);
        let moved: Vec<&str> = others
            .filter(|other| other.print(&config) != other.print(&preset))
            .map(|other| other.path)
            .collect();
        assert_eq!(moved, Vec::<&str>::new(), "they change with {}", option.path);
    }
}

#[test]
fn what_the_engine_reads_is_what_the_file_says() {
    let text = "drain_ms = 7\n[jobs]\nhedge_after_ms = 900\nrank = \"cheapest\"\nregion = \"eu\"\nwaiting = 5000\n\
                [limits]\ntenant_shares = [\"b=3\", \"a = 2\"]\n[cluster]\nsnapshot_ms = 100\n";
    let config = load_with(text, &[]).unwrap().config;
    let engine = &config.engine;
    assert_eq!((engine.drain_ms, engine.hedge_after_ms, engine.snapshot_ms), (7, Some(900), 100));
    assert_eq!((engine.waiting.total, engine.region.as_ref().unwrap().as_str()), (5_000, "eu"));
    let shares = ["a", "b"].map(|tenant| engine.admission.shares[tenant]);
    assert_eq!(shares, [2, 3]);
    let printed = effective(&config, &BTreeMap::new());
    assert!(printed.contains("tenant_shares = [\"a=2\", \"b=3\"]"), "{printed}");
    let never = load_with("profile = \"fast\"\n[jobs]\nhedge_after_ms = 0\n", &[]).unwrap();
    assert_eq!(never.config.engine.hedge_after_ms, None);
    let wrong = problems("[limits]\n\ntenant_shares = [\"a=1\", \"b=0\"]\n");
    assert_eq!(
        wrong,
        [
            "file, line 3: limits.tenant_shares has \"b=0\", which is not \"tenant=share\", from 1 to 1000"
        ]
    );
}

#[test]
fn every_option_can_be_set_in_the_environment() {
    let preset = Config::preset(Profile::Stable);
    for option in all() {
        let value = match option.print(&preset).as_str() {
            list if list.starts_with('[') => list.replace(['[', ']', '"'], ""),
            other => other.trim_matches('"').to_owned(),
        };
        let name = environment_name(option.path);
        let loaded = load_with("", &[(&name, &value)]).unwrap();
        assert_eq!(loaded.config, preset, "{name}={value}");
        assert_eq!(loaded.origins[option.path], Origin::Environment(name));
    }
}

#[test]
fn a_name_in_the_environment_that_is_no_option_is_told_of() {
    let environment =
        [("LINGUA_LISTNE", "x"), ("LINGUA_URL", "x"), ("LINGUA_PORT_5010_TCP", "x"), ("HOME", "x")];
    let loaded = load_with("", &environment).unwrap();
    assert_eq!(loaded.strangers[0], "LINGUA_LISTNE is not an option; did you mean LINGUA_LISTEN?");
    assert_eq!(loaded.strangers.len(), 2);
}

#[test]
fn the_profile_changes_the_defaults_and_nothing_else() {
    let loaded = load_with("[jobs]\nack_ms = 700\n", &[("LINGUA_PROFILE", "fast")]).unwrap();
    let fast = Config::preset(Profile::Fast);
    assert_eq!(loaded.config.engine.timing.ack_ms, 700);
    assert_eq!(loaded.config.engine.timing.deadline_ms, fast.engine.timing.deadline_ms);
}

#[test]
fn secrets_are_shown_nowhere() {
    let loaded = load_with("store = \"redis://user:canary@10.0.0.1/0\"", &[]).unwrap();
    let everywhere = format!("{loaded:?} {}", effective(&loaded.config, &loaded.origins));
    assert!(!everywhere.contains("canary"));
    let other = load_with("store = \"redis://user:canary@10.0.0.2/0\"", &[]).unwrap();
    assert!(!format!("{:?}", changes(&loaded.config, &other.config)).contains("canary"));
}

#[test]
fn changes_are_told_by_when_they_take_effect() {
    let before = Config::preset(Profile::Stable);
    let mut after = before.clone();
    after.log.level = "debug".to_owned();
    after.engine.timing.ack_ms = 1_001;
    let changes = changes(&before, &after);
    assert_eq!(changes.now, ["log.level: \"info\" -> \"debug\""]);
    assert_eq!(changes.after_a_restart, ["jobs.ack_ms: 1000 -> 1001"]);
}
