//! Builds the kernel programs and leaves them where the agent embeds them.
fn main() {}
