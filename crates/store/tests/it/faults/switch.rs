//! One address that stands for whichever server is the primary, as a virtual IP does.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// Passes connections on to the server that it points at; turning it closes those it had.
pub struct Switch {
    addr: SocketAddr,
    server: watch::Sender<SocketAddr>,
    accepting: JoinHandle<()>,
}

impl Switch {
    pub async fn to(server: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        let server = watch::Sender::new(server);
        let accepting = tokio::spawn(accept(listener, server.subscribe()));
        Ok(Switch { addr, server, accepting })
    }

    pub fn url(&self) -> String {
        format!("redis://{}/", self.addr)
    }

    pub fn turn(&self, server: SocketAddr) {
        self.server.send_replace(server);
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // The task owns the set of connections, so they are aborted with it.
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, server: watch::Receiver<SocketAddr>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        connections.spawn(carry(client, server.clone()));
    }
}

async fn carry(mut client: TcpStream, mut server: watch::Receiver<SocketAddr>) {
    let addr = *server.borrow_and_update();
    let Ok(mut upstream) = TcpStream::connect(addr).await else { return };
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut client, &mut upstream) => {}
        _ = server.changed() => {}
    }
}
