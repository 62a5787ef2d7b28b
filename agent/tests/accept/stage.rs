//! A namespace with an acceptor for it, servers and clients in it.

use crate::{fake::Fake, soon, until};
use nix::unistd;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::{
    fs,
    io::ErrorKind,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::unix::fs::symlink,
    sync::Arc,
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    io::AsyncReadExt as _,
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use weir::{
    accept::{Acceptor, Borders, NamespaceView, Options},
    netns::{self, Registry},
};
use weir_common::{
    abi::tls::{AcceptKey, Listener},
    addr::Family,
};
use weir_tests::namespace::Namespace;

pub(crate) const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

pub(crate) fn loopback(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::LOCALHOST.into(),
        Family::V6 => Ipv6Addr::LOCALHOST.into(),
    }
}

/// Everything. The namespace goes last.
pub(crate) struct Stage {
    pub(crate) acceptor: Acceptor,
    pub(crate) fake: Arc<Fake>,
    pub(crate) registry: Arc<Registry>,
    looking: Looking,
    folder: TempDir,
    pub(crate) namespace: Namespace,
}

/// What is left of a stage whose acceptor is to be stopped.
pub(crate) struct Parts {
    pub(crate) acceptor: Acceptor,
    pub(crate) fake: Arc<Fake>,
    _looking: Looking,
    _folder: TempDir,
    _namespace: Namespace,
}

/// Looks for namespaces until it is dropped.
struct Looking(JoinHandle<()>);

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Stage {
    /// An acceptor whose namespace has listeners.
    pub(crate) async fn new(options: Options) -> Self {
        let stage = Self::idle(options);
        stage.acceptor.set_needed(true);
        until("a listener", || stage.ports().is_some()).await;
        stage
    }

    /// An acceptor that is not needed yet.
    pub(crate) fn idle(options: Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Of all namespaces of the machine it sees the host's and this one.
        let (proc_dir, names_dir) = (folder.path().join("proc"), folder.path().join("names"));
        fs::create_dir(&proc_dir).unwrap();
        fs::create_dir(&names_dir).unwrap();
        symlink("/proc/self", proc_dir.join("self")).unwrap();
        let namespace = Namespace::new("accept").unwrap();
        let looks = netns::Options { proc_dir, names_dir, rescan: Duration::from_millis(50) };
        let registry = Registry::new(looks).unwrap();
        let fake = Arc::new(Fake::default());
        let borders = Borders {
            registry: Arc::clone(&registry),
            maps: fake.clone(),
            decisions: fake.clone(),
            connector: fake.clone(),
        };
        let acceptor = Acceptor::start(borders, options);
        let looking = Looking(tokio::spawn({
            let registry = Arc::clone(&registry);
            async move { registry.run().await }
        }));
        let stage = Self { acceptor, fake, registry, looking, folder, namespace };
        stage.show();
        stage
    }

    pub(crate) fn into_parts(self) -> Parts {
        let Self { acceptor, fake, looking, folder, namespace, .. } = self;
        Parts { acceptor, fake, _looking: looking, _folder: folder, _namespace: namespace }
    }

    fn link(&self) -> std::path::PathBuf {
        self.folder.path().join("names").join(self.namespace.name())
    }

    /// Gives the namespace its name in the acceptor's folder.
    pub(crate) fn show(&self) {
        symlink(format!("/run/netns/{}", self.namespace.name()), self.link()).unwrap();
    }

    /// Takes the name away.
    pub(crate) fn hide(&self) {
        unistd::unlink(&self.link()).unwrap();
    }

    pub(crate) fn view(&self) -> Option<NamespaceView> {
        self.acceptor.view().into_iter().find(|view| view.name == self.namespace.name())
    }

    pub(crate) fn cookie(&self) -> u64 {
        self.view().and_then(|view| view.cookie).expect("a namespace that was found")
    }

    /// The announced ports.
    pub(crate) fn ports(&self) -> Option<Listener> {
        self.view()?.cookie.and_then(|cookie| self.fake.listener(cookie))
    }

    pub(crate) fn port(&self, family: Family) -> u16 {
        let ports = self.ports().expect("announced listeners");
        match family {
            Family::V4 => ports.port_v4,
            Family::V6 => ports.port_v6,
        }
    }

    /// Listens in the namespace.
    pub(crate) fn server(&self, family: Family) -> TcpListener {
        listen_in(&self.namespace, loopback(family))
    }

    /// Listens in the namespace and lets every dial lead there.
    pub(crate) fn backend(&self, family: Family) -> TcpListener {
        let server = self.server(family);
        let address = server.local_addr().unwrap();
        self.fake.lead_to(address, address);
        server
    }

    /// A client's socket that no record is written for.
    pub(crate) fn socket(&self, source: IpAddr) -> Socket {
        let domain = if source.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
        let socket = self
            .namespace
            .run(|| Socket::new(domain, Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP)))
            .unwrap();
        socket.bind(&SocketAddr::new(source, 0).into()).unwrap();
        socket
    }

    /// Connects as a client that the hook sends to the acceptor.
    pub(crate) async fn client(&self, family: Family) -> TcpStream {
        self.client_from(loopback(family), 0).await
    }

    /// The same, from an address and with an interface that the socket was bound to.
    pub(crate) async fn client_from(&self, source: IpAddr, device: u32) -> TcpStream {
        let family = if source.is_ipv4() { Family::V4 } else { Family::V6 };
        let socket = self.socket(source);
        let own = socket.local_addr().unwrap().as_socket().unwrap();
        let port = self.port(family);
        self.fake.sent(AcceptKey::new(self.cookie(), own.ip().into(), own.port(), port), family, device);
        soon("a connect to the listener", connect(socket, SocketAddr::new(loopback(family), port))).await
    }

    /// A client and the backend's end of its connection, behind the hello.
    pub(crate) async fn connected(&self, family: Family) -> (TcpStream, TcpStream) {
        use tokio::io::AsyncWriteExt as _;
        let server = self.backend(family);
        let hello = crate::hello_bytes::named(crate::fake::NAME);
        let mut client = self.client(family).await;
        client.write_all(&hello).await.unwrap();
        let mut backend = accept(&server).await;
        assert_eq!(exactly(&mut backend, hello.len()).await, hello);
        (client, backend)
    }
}

/// Listens on a free port in a namespace.
pub(crate) fn listen_in(namespace: &Namespace, address: IpAddr) -> TcpListener {
    let listener = namespace.run(|| {
        let domain = if address.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
        let socket = Socket::new(domain, Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP)).unwrap();
        socket.bind(&SocketAddr::new(address, 0).into()).unwrap();
        socket.listen(65_535).unwrap();
        socket
    });
    TcpListener::from_std(listener.into()).unwrap()
}

pub(crate) async fn connect(socket: Socket, to: SocketAddr) -> TcpStream {
    match socket.connect(&to.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => panic!("cannot connect to {to}: {error}"),
        Ok(()) | Err(_) => {}
    }
    let stream = TcpStream::from_std(socket.into()).unwrap();
    stream.writable().await.unwrap();
    if let Some(error) = stream.take_error().unwrap() {
        panic!("cannot connect to {to}: {error}");
    }
    stream
}

pub(crate) async fn accept(server: &TcpListener) -> TcpStream {
    soon("a connection to the backend", server.accept()).await.unwrap().0
}

pub(crate) async fn exactly(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    soon("bytes", stream.read_exact(&mut bytes)).await.unwrap();
    bytes
}

/// Reads to the orderly end.
pub(crate) async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    soon("the stream's end", stream.read_to_end(&mut bytes)).await.unwrap();
    bytes
}

/// Waits for an RST; no byte may come before it.
pub(crate) async fn is_reset(stream: &mut TcpStream) {
    let error = soon("an RST", stream.read_u8()).await.expect_err("an RST instead of bytes");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
}

/// Closes with an RST.
pub(crate) fn reset(stream: TcpStream) {
    SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
}
