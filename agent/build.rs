//! Builds the kernel programs and leaves the object in `OUT_DIR/weir-ebpf`, where the agent embeds it.
//!
//! It installs nothing. Where the tools for it are missing the object is empty, the agent is compiled with
//! `cfg(weir_no_ebpf)`, and a warning names the remedy: so `cargo check` and clippy work everywhere.
//!
//! The nested build does not go through `aya-build`, because that leaves no way to ask for BPF's third
//! instruction set, which has the atomic operations that the programs need (Linux 5.12).

use anyhow::{Context, Result, bail};
use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const SKIP: &str = "WEIR_SKIP_EBPF";
const TOOLCHAIN: &str = "WEIR_BPF_TOOLCHAIN";
const OBJECT: &str = "weir-ebpf";
const REMEDY: &str = "run `cargo xtask setup` to install what is missing";

/// Where Debian's `rustc-web` has its compiler, and `libstd-rust-web-dev-bpf` its core library.
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";

/// The variables of the outer build that would change the nested one.
const NOT_INHERITED: [&str; 8] = [
    "RUSTFLAGS",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTDOC",
    "RUSTDOCFLAGS",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "CARGO_BUILD_TARGET_DIR",
    "CARGO_TARGET_DIR",
];

/// A compiler that can make BPF code.
struct Toolchain {
    cargo: PathBuf,
    rustc: PathBuf,
    /// The name that rustup knows it by, if it is not the one that builds the agent.
    rustup_name: Option<OsString>,
    core: Core,
}

/// Where the core library for BPF comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Core {
    /// Compiled on the way, from the `rust-src` component.
    FromSource,
    /// Part of the toolchain.
    Precompiled,
}

/// Why there is no object. Not an error: the agent is built without it.
struct Missing(String);

fn main() -> Result<()> {
    for variable in [SKIP, TOOLCHAIN, "PATH"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    let root = Path::new(&var("CARGO_MANIFEST_DIR")?).parent().context("the agent has no parent folder")?.to_owned();
    for watched in ["agent/build.rs", "ebpf/src", "ebpf/Cargo.toml", "common/src", "common/Cargo.toml"] {
        println!("cargo:rerun-if-changed={}", root.join(watched).display());
    }
    let object = Path::new(&var("OUT_DIR")?).join(OBJECT);
    match tools()? {
        Ok((toolchain, linker)) => build(&root, &toolchain, &linker, &object),
        Err(Missing(why)) => {
            println!("cargo:warning=the kernel programs are not built, `weir run` will not work: {why}");
            println!("cargo:rustc-cfg=weir_no_ebpf");
            fs::write(&object, []).with_context(|| format!("cannot write {}", object.display()))
        }
    }
}

fn var(name: &str) -> Result<OsString> {
    env::var_os(name).with_context(|| format!("cargo did not set {name}"))
}

/// Finds a compiler and a linker for BPF.
fn tools() -> Result<Result<(Toolchain, PathBuf), Missing>> {
    if env::var_os(SKIP).is_some_and(|value| value != "0" && !value.is_empty()) {
        return Ok(Err(Missing(format!("{SKIP} is set"))));
    }
    let linker = match linker() {
        Ok(linker) => linker,
        Err(missing) => return Ok(Err(missing)),
    };
    Ok(toolchain(&target()?)?.map(|toolchain| (toolchain, linker)))
}

fn linker() -> Result<PathBuf, Missing> {
    let cargo_home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo_home = cargo_home.or_else(|| env::home_dir().map(|home| home.join(".cargo")));
    let mut folders: Vec<PathBuf> = env::var_os("PATH").iter().flat_map(env::split_paths).collect();
    folders.extend(cargo_home.map(|home| home.join("bin")));
    let found = folders.iter().map(|folder| folder.join("bpf-linker")).find(|path| path.is_file());
    // Cargo looks again each time while the file is not there, and again when it is replaced.
    let watched = found.clone().or_else(|| folders.last().map(|folder| folder.join("bpf-linker")));
    if let Some(watched) = watched {
        println!("cargo:rerun-if-changed={}", watched.display());
    }
    found.ok_or_else(|| Missing(format!("bpf-linker is not installed; {REMEDY}")))
}

fn toolchain(target: &str) -> Result<Result<Toolchain, Missing>> {
    match env::var_os(TOOLCHAIN).filter(|name| !name.is_empty()) {
        None => {
            let own = PathBuf::from(var("RUSTC")?);
            let cargo = PathBuf::from(var("CARGO")?);
            Ok(match core_of(&own, target)? {
                Some(core) => Ok(Toolchain { cargo, rustc: own, rustup_name: None, core }),
                None => debian(cargo, target)?.ok_or_else(|| {
                    Missing(format!(
                        "the toolchain has no rust-src component, and there is no Debian rustc-web beside it; {REMEDY}"
                    ))
                }),
            })
        }
        Some(name) if name == "debian" => Ok(debian(PathBuf::from(var("CARGO")?), target)?.ok_or_else(|| {
            Missing(format!(
                "{TOOLCHAIN} is `debian`, but {DEBIAN_RUSTC} has no core library for {target}: \
                 install rustc-web and libstd-rust-web-dev-bpf"
            ))
        })),
        Some(name) => named(name, target),
    }
}

/// A toolchain that the user chose by its name in rustup.
fn named(name: OsString, target: &str) -> Result<Result<Toolchain, Missing>> {
    let shown = name.display();
    let tool = |tool: &str| {
        let output = Command::new("rustup").args(["which", "--toolchain"]).arg(&name).arg(tool).output();
        output.ok().filter(|output| output.status.success()).map(|output| PathBuf::from(line(&output.stdout)))
    };
    let (Some(cargo), Some(rustc)) = (tool("cargo"), tool("rustc")) else {
        return Ok(Err(Missing(format!("{TOOLCHAIN} is `{shown}`, which rustup does not have"))));
    };
    Ok(match core_of(&rustc, target)? {
        Some(core) => Ok(Toolchain { cargo, rustc, rustup_name: Some(name), core }),
        None => Err(Missing(format!(
            "toolchain `{shown}` has no rust-src: run `rustup component add rust-src --toolchain {shown}`"
        ))),
    })
}

fn debian(cargo: PathBuf, target: &str) -> Result<Option<Toolchain>> {
    let rustc = PathBuf::from(DEBIAN_RUSTC);
    if !rustc.is_file() {
        return Ok(None);
    }
    let core = core_of(&rustc, target)?.filter(|core| *core == Core::Precompiled);
    Ok(core.map(|core| Toolchain { cargo, rustc, rustup_name: None, core }))
}

/// Says where a compiler would take the core library from, or that it has none.
fn core_of(rustc: &Path, target: &str) -> Result<Option<Core>> {
    let output = Command::new(rustc).args(["--print", "sysroot"]).output();
    let output = output.with_context(|| format!("cannot run {}", rustc.display()))?;
    let lib = Path::new(&line(&output.stdout)).join("lib/rustlib");
    if lib.join(target).join("lib").is_dir() {
        return Ok(Some(Core::Precompiled));
    }
    let source = lib.join("src/rust/library/core/src/lib.rs");
    println!("cargo:rerun-if-changed={}", source.display());
    Ok(source.is_file().then_some(Core::FromSource))
}

fn line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

/// BPF code has the byte order of the machine.
fn target() -> Result<String> {
    let endian = var("CARGO_CFG_TARGET_ENDIAN")?;
    Ok(if endian == OsStr::new("big") { "bpfeb-unknown-none" } else { "bpfel-unknown-none" }.to_owned())
}

fn build(root: &Path, toolchain: &Toolchain, linker: &Path, object: &Path) -> Result<()> {
    let target = target()?;
    // Apart from the outer build's folder, which cargo holds locked.
    let target_dir = object.with_file_name("ebpf-target");
    let arch = var("CARGO_CFG_TARGET_ARCH")?;
    let flags = [
        format!("--cfg=bpf_target_arch=\"{}\"", arch.display()),
        "-Cdebuginfo=2".to_owned(),
        "-Ctarget-cpu=v3".to_owned(),
        "-Clink-arg=--btf".to_owned(),
    ];
    let mut cargo = Command::new(&toolchain.cargo);
    cargo.current_dir(root.join("ebpf"));
    for variable in NOT_INHERITED {
        cargo.env_remove(variable);
    }
    cargo.env("RUSTC", &toolchain.rustc);
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    cargo.env(format!("CARGO_TARGET_{}_LINKER", target.replace('-', "_").to_uppercase()), linker);
    // The programs use compiler intrinsics, and a core library built on the way needs a flag of nightly.
    cargo.env("RUSTC_BOOTSTRAP", "1");
    if let Some(name) = &toolchain.rustup_name {
        cargo.env("RUSTUP_TOOLCHAIN", name);
    }
    cargo.args(["build", "--locked", "--release", "--bin", OBJECT, "--target", &target, "--features"]);
    cargo.arg(if env::var_os("CARGO_FEATURE_KERNEL_LOG").is_some() { "kernel,log" } else { "kernel" });
    cargo.arg("--target-dir").arg(&target_dir);
    match toolchain.core {
        Core::FromSource => {
            cargo.args(["-Z", "build-std=core"]);
        }
        Core::Precompiled => {}
    }
    let status = cargo.status().with_context(|| format!("cannot run {}", toolchain.cargo.display()))?;
    if !status.success() {
        bail!(
            "the kernel programs do not build ({status}); the compiler's words are above.\n\
             Compiler: {}. Linker: {}. Another compiler can be named by {TOOLCHAIN}; {SKIP}=1 builds the agent \
             without them.",
            toolchain.rustc.display(),
            linker.display(),
        );
    }
    let built = target_dir.join(&target).join("release").join(OBJECT);
    fs::copy(&built, object).with_context(|| format!("cannot copy {} to {}", built.display(), object.display()))?;
    Ok(())
}
