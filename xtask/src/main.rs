//! Developer commands.

mod built;
mod demo;
mod interrupt;

use anyhow::Result;
use clap::Parser;

#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
enum Command {
    Demo(demo::Args),
}

fn main() -> Result<()> {
    match Command::parse() {
        Command::Demo(args) => demo::run(&args),
    }
}
