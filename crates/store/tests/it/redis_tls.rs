//! A Redis behind TLS whose certificate is signed by an authority of the operator's own.

use crate::faults;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use faults::*;
use lingua_lab::{RedisConfig, TlsFiles};
use lingua_store::redis::OpenError;

/// Tells the second process of the test, which alone trusts the authority, where to go.
const URL_VARIABLE: &str = "LINGUA_TEST_TLS_URL";

/// A directory that goes away with the test.
struct Dir(PathBuf);

impl Drop for Dir {
    fn drop(&mut self) {
        // What cannot be removed is left in the build directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn openssl(dir: &Path, arguments: &str) -> Outcome {
    let mut command = Command::new("openssl");
    command.current_dir(dir).args(arguments.split_whitespace());
    let output = command.output().context("the program `openssl` is missing")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// An authority `ca.pem`, and `server.pem` for 127.0.0.1 signed by it.
fn make_certificates(dir: &Path) -> anyhow::Result<TlsFiles> {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    let ca = "-x509 -days 2 -subj /CN=lingua-test-ca -keyout ca.key -out ca.pem";
    openssl(dir, &format!("req {key} {ca}"))?;
    openssl(dir, &format!("req {key} -subj /CN=127.0.0.1 -keyout server.key -out server.csr"))?;
    std::fs::write(dir.join("extensions"), "subjectAltName=IP:127.0.0.1\n")?;
    let sign = "-CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile extensions";
    openssl(dir, &format!("x509 -req -in server.csr {sign} -out server.pem"))?;
    Ok(TlsFiles { cert: dir.join("server.pem"), key: dir.join("server.key"), client_ca: None })
}

/// The authority is trusted by a variable that belongs to the whole process, so the test calls
/// itself once more with it.
#[tokio::test]
async fn a_store_behind_tls_is_used_only_if_its_authority_is_trusted() -> Outcome {
    if let Ok(url) = std::env::var(URL_VARIABLE) {
        let store = open(&url).await?;
        let node = Node::join(&store, 1).await?;
        let token = node.run(&store).await?;
        assert!(store.slots.release(&node.id, token).await?);
        assert!(store.description.starts_with("rediss://127.0.0.1:"), "{}", store.description);
        return Ok(());
    }
    let dir = Dir(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("redis_tls-{}", chance())));
    std::fs::create_dir_all(&dir.0)?;
    let server =
        RedisConfig::new().password("p@ss").tls(make_certificates(&dir.0)?).start().await?;
    let url = server.tls_url().context("it speaks TLS")?.replace("://", "://:p%40ss@");

    let error = lingua_store::redis::open(&url, patient()).await.err().context("it is trusted")?;
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().to_lowercase().contains("certificate"), "it says why: {error}");
    assert!(!error.to_string().contains("p%40ss"), "{error}");

    let trusting = tokio::process::Command::new(std::env::current_exe()?)
        .args(["--exact", "redis_tls::a_store_behind_tls_is_used_only_if_its_authority_is_trusted"])
        .env(URL_VARIABLE, &url)
        .env("SSL_CERT_FILE", dir.0.join("ca.pem"))
        .kill_on_drop(true)
        .output()
        .await?;
    let said = String::from_utf8_lossy(&trusting.stdout);
    ensure!(said.contains("1 passed"), "the test did not call itself: {said}");
    ensure!(trusting.status.success(), "{said}{}", String::from_utf8_lossy(&trusting.stderr));
    Ok(())
}
