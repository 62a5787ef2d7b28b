//! Many connections. Clients and servers are in a process of their own, which is this program again:
//! so the figures are the acceptor's, and two processes share the file descriptors.

use crate::{
    fake::NAME,
    hello_bytes::named,
    is_root, soon,
    stage::{Stage, exactly},
    until,
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    fs,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr},
    os::fd::AsRawFd as _,
    process::Stdio,
    sync::Arc,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    net::{TcpListener, TcpStream},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::Mutex,
    task::JoinSet,
};
use weir::accept::Options;
use weir_common::{abi::tls::AcceptKey, addr::Family};

/// The child's source address and its first port; the others follow.
const CLIENTS: (Ipv4Addr, u16) = (Ipv4Addr::new(127, 1, 0, 1), 10_000);
/// Tells the child how many clients there are, how much of the hello they send, and to whom.
const ORDER: &str = "WEIR_TEST_CLIENTS";

/// Answers each connection with what it sends.
async fn echo(server: TcpListener) {
    loop {
        let (mut stream, _) = server.accept().await.unwrap();
        tokio::spawn(async move {
            let (mut reads, mut writes) = stream.split();
            let _ = tokio::io::copy(&mut reads, &mut writes).await;
        });
    }
}

async fn ask(mut client: TcpStream, hello: &[u8]) -> TcpStream {
    client.write_all(hello).await.unwrap();
    assert!(exactly(&mut client, hello.len()).await == hello);
    client
}

/// The child: an echo server, and clients that connect when they are told. Says what it has done on
/// standard error, a line each, because the test's own words are on standard output.
/// Without an order there is nothing to do: it is one of the tests only so that they can start it.
#[tokio::test]
async fn clients() {
    let Ok(order) = std::env::var(ORDER) else { return };
    let numbers: Vec<usize> = order.split(' ').map(|number| number.parse().unwrap()).collect();
    let [count, sent, port] = numbers[..] else { panic!("three numbers") };
    let server = listen();
    eprintln!("port {}", server.local_addr().unwrap().port());
    tokio::spawn(echo(server));
    word().await;
    let hello = Arc::new(named(NAME));
    let mut asking = JoinSet::new();
    for number in 0..count {
        let hello = Arc::clone(&hello);
        asking.spawn(async move {
            let mut client = connect(CLIENTS.1 + number as u16, port as u16).await;
            if sent == 0 {
                return ask(client, &hello).await;
            }
            client.write_all(&hello[..sent]).await.unwrap();
            client
        });
    }
    let all = asking.join_all().await;
    eprintln!("done {}", all.len());
    // Until the test has seen enough.
    word().await;
}

/// Waits for a word of the test's, or for its end.
async fn word() {
    let read = || std::io::stdin().read(&mut [0]);
    let _ = tokio::task::spawn_blocking(read).await.unwrap();
}

fn listen() -> TcpListener {
    let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP)).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    socket.listen(65_535).unwrap();
    TcpListener::from_std(socket.into()).unwrap()
}

async fn connect(from: u16, to: u16) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP)).unwrap();
    socket.bind(&SocketAddr::from((CLIENTS.0, from)).into()).unwrap();
    crate::stage::connect(socket, (Ipv4Addr::LOCALHOST, to).into()).await
}

/// The child, seen from outside.
struct Clients {
    _child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<tokio::process::ChildStderr>>,
    _output: ChildStdout,
}

impl Clients {
    /// Starts it in the stage's namespace; dials lead to its server.
    async fn start(stage: &Stage, count: usize, sent: usize) -> Self {
        let port = stage.port(Family::V4);
        for number in 0..count {
            let key = AcceptKey::new(stage.cookie(), CLIENTS.0.into(), CLIENTS.1 + number as u16, port);
            stage.fake.sent(key, Family::V4, 0);
        }
        let mut child = Command::new("ip")
            .args(["netns", "exec", stage.namespace.name()])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "scale::clients", "--nocapture"])
            .env(ORDER, format!("{count} {sent} {port}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut clients = Self { _child: child, input, lines, _output: output };
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, clients.told("port ").await));
        stage.fake.lead_to(server, server);
        clients
    }

    async fn told(&mut self, what: &str) -> u16 {
        let wait = async {
            loop {
                let line = self.lines.next_line().await.unwrap().expect("a line of the clients");
                if let Some(number) = line.strip_prefix(what) {
                    return number.parse().unwrap();
                }
                std::io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
            }
        };
        soon(what, wait).await
    }

    async fn run(&mut self) -> usize {
        self.input.write_all(b"x").await.unwrap();
        usize::from(self.told("done ").await)
    }
}

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    1_024 * line.trim().trim_end_matches(" kB").parse::<usize>().unwrap()
}

/// One at a time: file descriptors are the process's.
static TURN: Mutex<()> = Mutex::const_new(());

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_connections_at_once_are_all_served() {
    if !is_root() {
        return;
    }
    const MANY: usize = 5_000;
    let _turn = TURN.lock().await;
    let stage = Stage::new(Options::default()).await;
    let mut clients = Clients::start(&stage, MANY, 0).await;
    let before = resident();
    assert_eq!(clients.run().await, MANY);
    assert_eq!(stage.acceptor.metrics().read().open, MANY);
    let each = resident().saturating_sub(before) / MANY;
    println!("{each} bytes of memory a connection, {} pipes kept", stage.acceptor.idle_pipes());
    assert!(each < 16 * 1_024, "{each} bytes a connection");
    drop(clients);
    until("their end", || stage.acceptor.metrics().read().open == 0).await;
    assert!(stage.fake.is_clean());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_half_hellos_do_not_keep_others_from_being_served() {
    if !is_root() {
        return;
    }
    const MANY: usize = 10_000;
    let _turn = TURN.lock().await;
    // On a slow machine the first ones must still be there when the last one comes.
    let options = Options { hello_deadline: std::time::Duration::from_secs(60), ..Options::default() };
    let stage = Stage::new(options).await;
    let mut clients = Clients::start(&stage, MANY, 50).await;
    let before = resident();
    assert_eq!(clients.run().await, MANY);
    until("all halves", || stage.acceptor.unfinished().bytes == MANY * 2_048).await;
    let each = resident().saturating_sub(before) / MANY;
    println!("{each} bytes of memory a half hello");
    assert!(each < 8 * 1_024, "{each} bytes a half hello");
    let hello = named(NAME);
    for _ in 0..100 {
        ask(stage.client(Family::V4).await, &hello).await;
    }
    assert_eq!(stage.acceptor.metrics().read().rejected.len(), 0);
    drop(clients);
    until("their end", || stage.acceptor.unfinished().count == 0).await;
}

/// Takes every file descriptor that is left.
fn take_all_files() -> Vec<fs::File> {
    let highest = fs::File::open("/dev/null").unwrap();
    let limit = highest.as_raw_fd() as u64 + 1;
    set_file_limit(limit);
    let rest = std::iter::from_fn(|| fs::File::open("/dev/null").ok());
    std::iter::once(highest).chain(rest).collect()
}

/// Lowers or raises the limit, never beyond the hard one.
fn set_file_limit(limit: u64) {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, limit.min(hard), hard).unwrap();
}

#[tokio::test]
async fn without_file_descriptors_a_client_is_reset_and_later_ones_are_served() {
    const ALONE: &str = "WEIR_TEST_WITHOUT_FILES";
    if !is_root() {
        return;
    }
    if std::env::var_os(ALONE).is_none() {
        // In a process of its own, whose other tests do not miss the file descriptors.
        let name = "scale::without_file_descriptors_a_client_is_reset_and_later_ones_are_served";
        let alone = Command::new(std::env::current_exe().unwrap()).args(["--exact", name]).env(ALONE, "1").status();
        assert!(soon("its end", alone).await.unwrap().success());
        return;
    }
    let stage = Stage::new(Options::default()).await;
    let _echo = tokio::spawn(echo(stage.backend(Family::V4)));
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, stage.port(Family::V4)));
    let socket = stage.socket(Ipv4Addr::LOCALHOST.into());
    let files = take_all_files();
    // It does not block, so it says that it is under way.
    assert_eq!(socket.connect(&to.into()).unwrap_err().raw_os_error(), Some(libc::EINPROGRESS));
    until("the reset", || stage.acceptor.metrics().read().refused == 1).await;
    drop(files);
    set_file_limit(u64::MAX);
    crate::stage::is_reset(&mut TcpStream::from_std(socket.into()).unwrap()).await;
    ask(stage.client(Family::V4).await, &named(NAME)).await;
}
