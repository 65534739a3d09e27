//! The beginning of a connection where TLS is spoken.

use std::sync::Arc;

use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::meter::Metered;
use crate::tls::{Certified, Tls};

/// Agrees with whoever is at the other end, within the limit, and tells whose certificate they showed;
/// one that means nothing here is as none. `Err` is why they do not agree: nothing sensible can be
/// said to one who speaks something else.
pub(super) async fn agree(
    tls: &Tls,
    stream: Metered,
) -> Result<(TlsStream<Metered>, Option<Arc<Certified>>), String> {
    let handshake = TlsAcceptor::from(Arc::clone(&tls.now().server)).accept(stream);
    let stream = match timeout(tls.handshake, handshake).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(error.to_string()),
        Err(_) => return Err("TLS was not agreed on in time".to_owned()),
    };
    let chain = stream.get_ref().1.peer_certificates();
    let certified = chain.and_then(|chain| tls.certified(chain));
    Ok((stream, certified))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustls::pki_types::ServerName;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio_rustls::TlsConnector;

    use super::super::meter::{Allowance, Written};
    use super::*;
    use crate::config::{Config, Profile};

    /// Both ends of a connection, and what is counted at the first.
    async fn connected() -> (TlsStream<Metered>, tokio_rustls::client::TlsStream<TcpStream>, Written)
    {
        let dir = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
        std::fs::write(&cert, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let mut config = Config::preset(Profile::Stable);
        (config.tls.cert_file, config.tls.key_file) = (Some(cert), Some(key));
        let tls = Tls::read(&config).unwrap().unwrap();

        let mut roots = rustls::RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(socket.local_addr().unwrap()).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let far = TlsConnector::from(Arc::new(client)).connect(name, stream);
        let written = Written::default();
        let near = async {
            let (stream, _) = socket.accept().await.unwrap();
            agree(&tls, Metered::new(stream, written.clone(), Allowance::default()))
                .await
                .unwrap()
                .0
        };
        let (near, far) = tokio::join!(near, far);
        (near, far.unwrap(), written)
    }

    #[tokio::test]
    async fn what_is_written_is_counted_as_the_operating_system_takes_it() {
        let (mut near, mut far, written) = connected().await;
        let before = written.bytes();
        assert!(before > 0, "a handshake is written, too");
        let said = vec![7; 100_000];
        let mut heard = vec![0; said.len()];
        let (wrote, read) = tokio::join!(
            async {
                near.write_all(&said).await?;
                near.flush().await
            },
            far.read_exact(&mut heard)
        );
        wrote.unwrap();
        read.unwrap();
        assert_eq!(heard, said);
        let more = written.bytes() - before;
        assert!((100_000..110_000).contains(&more), "{more}");
    }

    #[tokio::test]
    async fn one_who_takes_nothing_is_seen_to() {
        let (mut near, far, written) = connected().await;
        let flood = tokio::spawn(async move {
            let _ = near.write_all(&vec![7; 64 << 20]).await;
        });
        // Until the kernel's buffers are full.
        let mut last = 0;
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let now = written.bytes();
            if now == last {
                break;
            }
            last = now;
        }
        assert!((1..64 << 20).contains(&last), "{last}");
        assert!(!flood.is_finished());
        drop(far);
        flood.await.unwrap();
    }
}
