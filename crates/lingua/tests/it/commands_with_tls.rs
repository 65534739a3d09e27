//! Our own commands at a scheduler that speaks TLS and asks for tokens.

use crate::tls_lab;
use crate::tokens;

use std::io::{BufRead, BufReader};
use std::process::{Child, Output, Stdio};

use tls_lab::House;
use tokens::{Shows, command};

/// Nodes that end with their test.
struct Nodes(Child);

impl Drop for Nodes {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `machine`: whom this machine trusts.
fn run(args: &[&str], shows: &Shows<'_>, machine: &str) -> (Option<i32>, String) {
    let mut command = command(args, shows);
    let ended = command.env("SSL_CERT_FILE", machine).env_remove("SSL_CERT_DIR").output();
    let Output { status, stdout, stderr } = ended.unwrap();
    (status.code(), String::from_utf8([stdout, stderr].concat()).unwrap())
}

#[test]
fn every_command_speaks_tls_with_one_whose_authority_it_is_told_or_the_machine_trusts() {
    let house = House::new().asking_for_tokens();
    house.configure("", "");
    let server = house.start();
    let url = format!("https://{}", server.address());
    let ca = house.path("instances.pem").display().to_string();
    let other = house.path("nodes.pem").display().to_string();
    let node = house.token("node", "sim", &[]);
    let session = house.token("session", "app", &["--tenant", "acme"]);
    let admin = house.token("admin", "ops", &[]);

    let commands: [(&[&str], &str); 8] = [
        (&["node", "--name", "sim", "--duration", "1s"], &node),
        (&["dispatch"], &session),
        (&["speak", "--signal", "1"], &session),
        (&["load", "--sessions", "2", "--nodes", "0", "--duration-s", "2"], &session),
        (&["top", "--once"], &admin),
        (&["probe"], ""),
        (&["nodes"], &admin),
        (&["token", "revoke", "--subject", "nobody", "--role", "session"], &admin),
    ];
    let with = |args: &[&'static str], more: &[&str]| -> Vec<String> {
        args.iter().chain(&["--url", &url]).chain(more).map(|arg| (*arg).to_owned()).collect()
    };
    let shows = |token| if str::is_empty(token) { Shows::Nothing } else { Shows::Token(token) };
    for (args, token) in commands {
        for (more, machine, code, why) in [
            (&[][..], "/there/is/none", 2, "--ca"),
            (&[][..], &*other, 1, "invalid peer certificate"),
            (&["--ca", &other][..], &*ca, 1, "invalid peer certificate"),
        ] {
            let args = with(args, more);
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let (ended, said) = run(&args, &shows(token), machine);
            assert_eq!(ended, Some(code), "{args:?}: {said}");
            assert!(said.contains(why), "{args:?}: {said}");
        }
    }
    // Somebody has to do the work.
    let nodes = with(&["node", "--name", "sim", "--p50-ms", "10"], &["--ca", &ca]);
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let mut nodes = Nodes(command(&nodes, &shows(&node)).stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(nodes.0.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains("registered"), "{first}");
    std::thread::spawn(move || lines.for_each(drop));
    for (args, token) in &commands[1..] {
        for (more, machine) in [(&["--ca", &ca][..], "/there/is/none"), (&[], &*ca)] {
            let args = with(args, more);
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let (ended, said) = run(&args, &shows(token), machine);
            assert_eq!(ended, Some(0), "{args:?} where {machine} is trusted: {said}");
        }
    }
}
