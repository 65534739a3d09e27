//! `[tls]`.

use std::path::PathBuf;

use super::section;

section! {
    /// TLS 1.3. All files are read again on SIGHUP.
    "tls.": Tls in tls {
        /// The certificate chain of this instance, as PEM. If set, all listeners speak TLS only. Turning TLS on or
        /// off takes a restart.
        cert_file: Option<PathBuf> = None => reloads;
        /// The private key of the certificate, as PEM.
        key_file: Option<PathBuf> = None => reloads;
        /// The certificate authorities of nodes, as PEM. A node with a client certificate is authenticated as the
        /// node that the certificate names, and needs no token.
        node_ca_file: Option<PathBuf> = None => reloads;
        /// Certificate revocation lists, as PEM: one for every authority in node_ca_file.
        node_crl_file: Option<PathBuf> = None => reloads;
        /// Refuse nodes without a client certificate.
        require_node_cert: bool = false => reloads;
        /// The certificate authorities of instances, as PEM. If set, instances authenticate each other by
        /// certificate (mutual TLS) and refuse everybody else. Required for TLS with a shared store.
        peer_ca_file: Option<PathBuf> = None => reloads;
    }
}
