//! The inputs of fuzzing break no law, and are read as their names say.

use crate::laws;
use std::{fs, path::Path};
use weir_common::hello::{Read, Records};

#[test]
fn the_fuzz_corpus_is_read_as_its_files_are_called() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/fuzz/hello");
    let mut count = 0;
    for entry in fs::read_dir(folder).expect("the corpus") {
        let entry = entry.unwrap();
        let stream = fs::read(entry.path()).unwrap();
        laws::hold(&stream, 0..stream.len());
        let kind = match Records::new(&stream).read() {
            Read::NeedMore { .. } => "need-more",
            Read::NotTls => "not-tls",
            Read::Malformed => "malformed",
            Read::Found(_) => "found",
            Read::BeyondMe => "beyond-me",
            Read::TooBig => "too-big",
        };
        let name = entry.file_name().into_string().unwrap();
        assert!(name.starts_with(kind), "{name} is {kind}");
        count += 1;
    }
    assert!(count >= 10, "{count} files");
}
