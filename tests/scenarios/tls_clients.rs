//! TLS clients of others: OpenSSL, curl and Go.

use crate::{
    stage::{Family, PORT, Stage},
    tls_stage::{NAME, Path, WILD_NAME, WRONG_NAME, paths},
};
use anyhow::{Context as _, Result, ensure};
use std::{
    io::Write as _,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    process::Command,
    sync::OnceLock,
};
use weir_tests::{
    leftovers,
    tls::{identity::Identity, server::Conduct},
};

/// A folder with the certificate. Dropping it removes it.
struct Folder(PathBuf);

impl Folder {
    fn new(label: &str) -> Result<Self> {
        let path = leftovers::folder(label);
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    fn certificate(&self) -> Result<String> {
        Ok(Identity::shared().write_pem(&self.0)?.display().to_string())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

paths!(openssl_is_served_by_name);

fn openssl_is_served_by_name(path: Path, family: Family) -> Result<()> {
    if !is_there("openssl", "version") {
        return Ok(());
    }
    let stage = Stage::set(&path.shop(&[("shop/b", PORT, 1)]))?;
    // It ends when the server does: at the end of its input it might not have heard the server yet.
    let _server = stage.listen(family, "b/11", 11).conduct(Conduct::CloseFirst).start()?;
    let folder = Folder::new("openssl")?;
    let certificate = folder.certificate()?;
    let to = dialled(family).to_string();
    let ask = |name: &str, version: &str| -> Result<String> {
        let arguments = [
            "s_client",
            "-connect",
            &to,
            "-servername",
            name,
            version,
            "-CAfile",
            &certificate,
            "-quiet",
            "-verify_return_error",
        ];
        let output = stage.client(0)?.command("openssl", &arguments, "hello\n")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    for version in ["-tls1_2", "-tls1_3"] {
        // A server name counts whatever its case.
        for name in [NAME, WILD_NAME, "SHOP.Example"] {
            let text = ask(name, version)?;
            ensure!(text.starts_with("b/11 "), "{name} {version}: {text}");
        }
        let text = ask(WRONG_NAME, version)?;
        ensure!(text.is_empty(), "{version}: {text}");
    }
    Ok(())
}

paths!(curl_is_served_by_name);

fn curl_is_served_by_name(path: Path, family: Family) -> Result<()> {
    if !is_there("curl", "--version") {
        return Ok(());
    }
    let stage = Stage::set(&path.shop(&[("shop/b", PORT, 1)]))?;
    let _server = stage.listen(family, "b/11", 11).conduct(Conduct::Http).start()?;
    let folder = Folder::new("curl")?;
    let certificate = folder.certificate()?;
    let ask = |name: &str| -> Result<(bool, String)> {
        let to = format!("::{}:{PORT}", bracketed(dialled(family).ip()));
        let url = format!("https://{name}:{PORT}/");
        let arguments = ["-sS", "--http1.1", "--max-time", "10", "--cacert", &certificate, "--connect-to", &to, &url];
        let output = stage.client(0)?.command("curl", &arguments, "")?;
        let text = [output.stdout, output.stderr].concat();
        Ok((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
    };
    let (served, text) = ask(NAME)?;
    ensure!(served && text == "b/11", "{text}");
    let (served, text) = ask(WRONG_NAME)?;
    ensure!(!served && !text.contains("timed out"), "{text}");
    Ok(())
}

paths!(go_is_served_by_name);

fn go_is_served_by_name(path: Path, family: Family) -> Result<()> {
    let Some(program) = go_client()? else { return Ok(()) };
    let stage = Stage::set(&path.shop(&[("shop/b", PORT, 1)]))?;
    let _server = stage.listen(family, "b/11", 11).start()?;
    let folder = Folder::new("go")?;
    let certificate = folder.certificate()?;
    let to = dialled(family).to_string();
    let ask = |name: &str| stage.client(0)?.command(&program, &[&to, name, &certificate], "");
    for name in [NAME, "a.shop.example"] {
        let output = ask(name)?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success() && text.starts_with("b/11 "), "{name}: {output:?}");
    }
    ensure!(!ask(WRONG_NAME)?.status.success());
    Ok(())
}

/// Builds the client that is written in Go, once; `None` without Go.
fn go_client() -> Result<Option<String>> {
    static BUILT: OnceLock<Option<(Folder, String)>> = OnceLock::new();
    let compiler = ["go", "/usr/local/go/bin/go"].into_iter().find(|program| is_there(program, "version"));
    let Some(compiler) = compiler else { return Ok(None) };
    let built = BUILT.get_or_init(|| {
        let folder = Folder::new("go-client").ok()?;
        let program = folder.0.join("client").display().to_string();
        let output = Command::new(compiler)
            .args(["build", "-o", &program, concat!(env!("CARGO_MANIFEST_DIR"), "/clients/tls.go")])
            .env("GOCACHE", folder.0.join("cache"))
            .env("GOFLAGS", "-mod=mod")
            .output()
            .ok()?;
        if !output.status.success() {
            eprintln!("{}", String::from_utf8_lossy(&output.stderr));
        }
        output.status.success().then_some((folder, program))
    });
    built.as_ref().map(|(_, program)| Some(program.clone())).context("cannot build the Go client")
}

/// Whether a program can be run; if not, that is said.
fn is_there(program: &str, argument: &str) -> bool {
    let found = Command::new(program).arg(argument).output().is_ok_and(|output| output.status.success());
    if !found {
        // Not `eprintln!`: the test runner would keep that to itself when the test passes.
        let _ = writeln!(std::io::stderr(), "skipped: {program} is not installed");
    }
    found
}

/// The frontend's address in the form in which a client of a family has it.
fn dialled(family: Family) -> SocketAddr {
    SocketAddr::new(family.source(family.frontend().ip()), PORT)
}

fn bracketed(address: IpAddr) -> String {
    if address.is_ipv6() { format!("[{address}]") } else { address.to_string() }
}
