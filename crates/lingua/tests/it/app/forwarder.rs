//! A door in front of several schedulers: each connection goes to one that answers.
#![allow(dead_code, clippy::unwrap_used, reason = "shared by several test binaries")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Forwards connections in turn to those of its targets that accept them.
pub struct Forwarder {
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl Forwarder {
    pub async fn start(targets: Vec<SocketAddr>) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let targets = Arc::new(targets);
        let turn = Arc::new(AtomicUsize::new(0));
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = socket.accept().await {
                let (targets, turn) = (Arc::clone(&targets), Arc::clone(&turn));
                tokio::spawn(async move {
                    let first = turn.fetch_add(1, Ordering::Relaxed);
                    for i in 0..targets.len() {
                        let target = targets[(first + i) % targets.len()];
                        if let Ok(server) = TcpStream::connect(target).await {
                            forward(client, server).await;
                            return;
                        }
                    }
                });
            }
        });
        Forwarder { address, task }
    }
}

async fn forward(mut client: TcpStream, mut server: TcpStream) {
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let _ = copy_bidirectional(&mut client, &mut server).await;
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.task.abort();
    }
}
