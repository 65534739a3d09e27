use std::io::Write;

use super::options::ALL;
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
    assert_eq!(loaded.origins.len(), ALL.len(), "every option stands in it");
    let printed = effective(&loaded.config, &BTreeMap::new());
    assert_eq!(load_with(&printed, &[]).unwrap().config, Config::preset(Profile::Stable));
}

#[test]
fn the_defaults_are_the_engines_own() {
    for (profile, settings) in [
        (Profile::Stable, lingua_engine::Settings::stable()),
        (Profile::Fast, lingua_engine::Settings::fast()),
    ] {
        let made = Config::preset(profile).settings();
        assert_eq!(format!("{made:?}"), format!("{settings:?}"));
    }
    assert_eq!(check::problems(&Config::preset(Profile::Fast)), Vec::<String>::new());
}

#[test]
fn every_option_has_a_reason_and_units_stand_in_names() {
    for option in ALL {
        assert!(option.says.trim().ends_with(['.', ')']), "{}", option.path);
        assert!(!option.section_says.trim().is_empty());
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
            "file, line 5: [job] is no section; [jobs] is",
            "file, line 3: jobs.ack_timeout is no option; jobs.ack_ms is",
            "file, line 4: jobs.pause_ms is no option; sessions.pause_ms is",
            "file, line 1: listn is no option; listen is",
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
    assert_eq!(loaded.config.jobs.max_attempts, 4);
    assert_eq!(loaded.config.main.listen.port(), 1);
    assert_eq!(loaded.origins["listen"], Origin::File(1));
    assert_eq!(loaded.origins["threads"], Origin::CommandLine);
    let printed = effective(&loaded.config, &loaded.origins);
    assert!(printed.contains("max_attempts = 4 # LINGUA_JOBS_MAX_ATTEMPTS"), "{printed}");
}

#[test]
fn every_option_can_be_set_in_the_environment() {
    let preset = Config::preset(Profile::Stable);
    for option in ALL {
        let value = match preset.print(option.path).as_str() {
            list if list.starts_with('[') => String::new(),
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
    assert_eq!(loaded.strangers[0], "LINGUA_LISTNE is no option; LINGUA_LISTEN is");
    assert_eq!(loaded.strangers.len(), 2);
}

#[test]
fn the_profile_changes_the_defaults_and_nothing_else() {
    let loaded = load_with("[jobs]\nack_ms = 700\n", &[("LINGUA_PROFILE", "fast")]).unwrap();
    let fast = Config::preset(Profile::Fast);
    assert_eq!(loaded.config.jobs.ack_ms, 700);
    assert_eq!(loaded.config.jobs.deadline_ms, fast.jobs.deadline_ms);
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
    after.jobs.ack_ms = 1_001;
    let changes = changes(&before, &after);
    assert_eq!(changes.now, ["log.level: \"info\" -> \"debug\""]);
    assert_eq!(changes.after_a_restart, ["jobs.ack_ms: 1000 -> 1001"]);
}
