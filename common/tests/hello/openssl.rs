//! Hellos of OpenSSL's command, with many of its options.

use crate::{
    builder::{Said, agent_reads},
    foreign::read_as_rustls_does,
    laws,
};
use std::{
    env, fs,
    io::{BufRead, BufReader, ErrorKind, Read as _, Write},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use weir_common::hello::{Read, Records};

/// Long enough for a loaded machine; nothing waits that long if all is well.
const PATIENCE: Duration = Duration::from_secs(20);

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn openssl(args: &[&str]) -> Command {
    let mut command = Command::new("openssl");
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Says whether there is an OpenSSL to test with; where there must be one, it panics.
fn is_missing() -> bool {
    if openssl(&["version"]).status().is_ok_and(|status| status.success()) {
        return false;
    }
    assert!(env::var_os("CI").is_none(), "CI must have openssl");
    eprintln!("skipped: there is no openssl command");
    true
}

/// Runs `openssl s_client` and returns its hello; `None` if it refuses the options.
fn hello_of(options: &[&str]) -> Option<Vec<u8>> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut client = Running(openssl(&[&["s_client", "-connect", &address], options].concat()).spawn().unwrap());
    let started = Instant::now();
    let mut stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
        if client.0.try_wait().unwrap().is_some() {
            return None;
        }
        assert!(started.elapsed() < PATIENCE, "openssl does not connect");
        std::thread::yield_now();
    };
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut hello = Vec::new();
    while let Read::NeedMore { at_least } = Records::new(&hello).read() {
        let mut piece = vec![0; at_least as usize - hello.len()];
        let read = stream.read(&mut piece).expect("the rest of the hello");
        if read == 0 {
            return None;
        }
        hello.extend(&piece[..read]);
    }
    Some(hello)
}

/// A server of OpenSSL's that gives tickets.
struct Server {
    _process: Running,
    address: String,
    folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (key, cert) = (path(&folder, "key"), path(&folder, "cert"));
        let made = openssl(&["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
            .args(["-subj", "/CN=shop.example", "-days", "1", "-keyout", &key, "-out", &cert])
            .status();
        assert!(made.unwrap().success(), "openssl makes a certificate");
        let mut command = openssl(&["s_server", "-accept", "127.0.0.1:0", "-www", "-key", &key, "-cert", &cert]);
        let mut process = Running(command.stdout(Stdio::piped()).spawn().unwrap());
        let output = BufReader::new(process.0.stdout.take().unwrap());
        let accepts =
            output.lines().map_while(Result::ok).find_map(|line| Some(line.strip_prefix("ACCEPT ")?.to_owned()));
        Self { _process: process, address: accepts.expect("the server's address"), folder }
    }

    /// Connects once, and returns the file of the session.
    fn session(&self, version: &str) -> String {
        let file = path(&self.folder, version);
        let mut command = openssl(&["s_client", "-connect", &self.address, version, "-ign_eof", "-sess_out", &file]);
        let mut client = Running(command.stdin(Stdio::piped()).spawn().unwrap());
        client.0.stdin.take().unwrap().write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        // The server closes after its answer, and the ticket came before that.
        client.0.wait().unwrap();
        assert!(fs::metadata(&file).is_ok_and(|file| file.len() > 0), "a session of {version}");
        file
    }
}

fn path(folder: &tempfile::TempDir, name: &str) -> String {
    let path: PathBuf = Path::join(folder.path(), name);
    path.into_os_string().into_string().unwrap()
}

const NAME: &[&str] = &["-servername", "shop.example"];

#[test]
fn hellos_of_openssl_are_read_as_rustls_reads_them() {
    if is_missing() {
        return;
    }
    let option_sets: [&[&str]; 15] = [
        &[],
        &["-tls1_2"],
        &["-tls1_3"],
        &["-alpn", "h2,http/1.1"],
        &["-tls1_2", "-alpn", "h2", "-status", "-no_ticket"],
        &["-tls1_3", "-alpn", "h3,h2,http/1.1,imap", "-status"],
        &["-groups", "P-521:P-384:X25519:X448"],
        &["-tls1_2", "-nextprotoneg", "http/1.1", "-use_srtp", "SRTP_AES128_CM_SHA1_80"],
        &["-bugs", "-alpn", "a-protocol-whose-name-makes-the-hello-long-enough-for-padding"],
        &["-maxfraglen", "512", "-serverinfo", "18,99"],
        &[
            "-no_etm",
            "-no_middlebox",
            "-cipher",
            "ECDHE-RSA-AES128-GCM-SHA256",
            "-ciphersuites",
            "TLS_AES_128_GCM_SHA256",
        ],
        &["-sigalgs", "ECDSA+SHA256:RSA+SHA256", "-curves", "P-256", "-no_comp"],
        &["-psk", "1a2b3c4d", "-psk_identity", "somebody", "-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256"],
        &["-groups", "X25519MLKEM768:X25519"],
        &["-groups", "X25519MLKEM768:SecP256r1MLKEM768", "-alpn", "h2"],
    ];
    let mut made = 0;
    for options in option_sets {
        let Some(hello) = hello_of(&[options, NAME].concat()) else {
            eprintln!("skipped: this openssl does not know {options:?}");
            continue;
        };
        let said = read_as_rustls_does(&format!("{options:?}"), &hello);
        assert_eq!(said.name.as_deref(), Some("shop.example"), "{options:?}");
        let asked = options.iter().skip_while(|option| **option != "-alpn").nth(1).map_or("", |list| *list);
        let offered: Vec<_> = asked.split(',').filter(|protocol| !protocol.is_empty()).map(|p| p.as_bytes()).collect();
        assert_eq!(said.alpn, offered, "{options:?}");
        made += 1;
    }
    assert!(made >= 10, "{made} kinds of hellos only");
}

#[test]
fn a_hello_of_openssl_without_a_name_has_none() {
    if is_missing() {
        return;
    }
    let hello = hello_of(&["-noservername", "-alpn", "h2"]).expect("a hello");
    let said = read_as_rustls_does("-noservername", &hello);
    assert_eq!(said, Said { name: None, alpn: vec![b"h2".to_vec()] });
}

#[test]
fn hellos_of_old_versions_are_read() {
    if is_missing() {
        return;
    }
    for version in ["-tls1", "-tls1_1"] {
        let options = [&[version, "-cipher", "DEFAULT@SECLEVEL=0"], NAME].concat();
        let Some(hello) = hello_of(&options) else {
            eprintln!("skipped: this openssl does not do {version}");
            continue;
        };
        assert_eq!(agent_reads(&hello).and_then(|said| said.name).as_deref(), Some("shop.example"), "{version}");
        laws::hold(&hello, 0..hello.len());
    }
}

#[test]
fn hellos_that_resume_a_session_are_read_as_rustls_reads_them() {
    if is_missing() {
        return;
    }
    let server = Server::start();
    for version in ["-tls1_2", "-tls1_3"] {
        let session = server.session(version);
        let plain = hello_of(&[&[version], NAME].concat()).expect("a hello");
        let resuming = hello_of(&[&[version, "-sess_in", &session], NAME].concat()).expect("a hello");
        assert!(resuming.len() > plain.len() + 100, "{version}: a ticket of more than 100 bytes");
        let said = read_as_rustls_does(version, &resuming);
        assert_eq!(said.name.as_deref(), Some("shop.example"));
    }
}
