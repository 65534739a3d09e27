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
