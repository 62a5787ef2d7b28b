//! `cargo xtask image`: the `weir` command as a container image, from scratch, with one static program.
//!
//! The image is a tar file in OCI layout, as `ctr image import` and `skopeo copy oci-archive:` read it. The
//! same program gives the same file.

mod archive;
mod oci;
mod program;

use crate::{
    setup::{self, Purpose},
    workspace::Workspace,
};
use anyhow::{Context as _, Result};
pub(crate) use oci::{Image, digest};
pub(crate) use program::{Program, build};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Name of the image that the manifests in `deploy` name; the tag is the version.
pub(crate) const NAME: &str = concat!("weir.dev/weir:", env!("CARGO_PKG_VERSION"));

/// Options of `cargo xtask image`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// File to write [default: target/image/weir.tar].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Name and tag of the image.
    #[arg(long, default_value = NAME)]
    name: String,
}

/// Builds the image and prints where it is and how large.
///
/// # Errors
///
/// If the program does not build or the file cannot be written.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let path = weir(workspace, &args.name, args.out.as_deref())?;
    let size = fs::metadata(&path)?.len();
    println!("{} ({}, {:.1} MiB)", path.display(), args.name, size as f64 / f64::from(1 << 20));
    Ok(())
}

/// Builds the image of the agent and returns its file.
///
/// # Errors
///
/// If the program does not build or the file cannot be written.
pub(crate) fn weir(workspace: &Workspace, name: &str, out: Option<&Path>) -> Result<PathBuf> {
    setup::prepare(Purpose::Build)?;
    let program = build(workspace, "weir", &["weir"])?.remove(0);
    let image = Image { names: vec![name.to_owned()], entrypoint: vec!["/weir".to_owned()], programs: vec![program] };
    let path = out.map_or_else(|| folder(workspace).join("weir.tar"), Path::to_owned);
    write(&image, &path)?;
    Ok(path)
}

/// Where images are written.
pub(crate) fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target().join("image")
}

/// Writes an image to a file.
///
/// # Errors
///
/// If a program cannot be read or the file cannot be written.
pub(crate) fn write(image: &Image, path: &Path) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    fs::write(path, image.archive()?).with_context(|| format!("cannot write {}", path.display()))
}
