//! A hello may come in any pieces and in any records.

use crate::{
    builder::{Hello, Said, agent_reads, alpn, hellos, message, record, records, said, server_name},
    laws,
};
use proptest::{collection::vec, prelude::*, sample::Index};
use weir_common::hello::{MAX_STREAM, Read, Records, read};

/// A short hello with everything that is read.
fn small() -> (Hello, Said) {
    let protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let extensions = vec![(0x1a1a, vec![]), server_name("Shop.example"), (51, vec![9; 9]), alpn(&protocols)];
    let said = Said { name: Some("Shop.example".to_owned()), alpn: protocols };
    (Hello { session_id: vec![], ..Hello::with(extensions) }, said)
}

#[test]
fn a_hello_needs_more_at_every_prefix_until_it_is_whole() {
    let (hello, expected) = small();
    let stream = hello.record();
    for len in 0..stream.len() {
        let at_least = if len < 9 { 9 } else { stream.len() as u32 };
        assert_eq!(read(&stream[..len], 8192), Read::NeedMore { at_least }, "after {len} bytes");
        assert_eq!(Records::new(&stream[..len]).read(), Read::NeedMore { at_least }, "after {len} bytes");
    }
    assert_eq!(said(&stream[..], read(&stream[..], 8192)).as_ref(), Some(&expected));
    assert_eq!(agent_reads(&stream), Some(expected));
}

#[test]
fn a_hello_is_read_from_every_two_and_three_records() {
    let (hello, expected) = small();
    let message = hello.message();
    for first in 1..message.len() {
        for second in first..message.len() {
            let stream = records(&message, &[first, second]);
            assert_eq!(agent_reads(&stream).as_ref(), Some(&expected), "records end at {first} and {second}");
            assert_eq!(read(&stream[..], 8192), Read::BeyondMe);
        }
        let stream = records(&message, &[first]);
        laws::hold(&stream, 0..stream.len());
    }
}

#[test]
fn a_hello_is_read_from_records_of_one_byte() {
    let (hello, expected) = small();
    let message = hello.message();
    let stream = records(&message, &(0..message.len()).collect::<Vec<_>>());
    assert_eq!(stream.len(), message.len() * 6);
    assert_eq!(agent_reads(&stream), Some(expected));
    laws::hold(&stream, 0..stream.len());
}

#[test]
fn the_shortest_stream_counts_the_headers_of_further_records() {
    let message = message(&[0; 40_000]);
    let stream = records(&message, &[16_384, 32_768]);
    assert_eq!(Records::new(&stream[..100]).read(), Read::NeedMore { at_least: stream.len() as u32 });
    // A record of 10 bytes needs one more header.
    let stream = records(&message, &[10]);
    assert_eq!(Records::new(&stream[..15]).read(), Read::NeedMore { at_least: 40_004 + 4 * 5 });
}

#[test]
fn records_behind_the_hello_are_ignored() {
    let (hello, expected) = small();
    let early_data = [&hello.record()[..], &[20, 3, 3, 0, 1, 1, 23, 3, 3, 0, 2, 0, 0]].concat();
    let more_handshake = record(&[&hello.message()[..], &[20, 0, 0, 0]].concat());
    for stream in [early_data, more_handshake] {
        assert_eq!(agent_reads(&stream).as_ref(), Some(&expected));
        assert_eq!(said(&stream[..], read(&stream[..], 8192)).as_ref(), Some(&expected));
    }
}

#[test]
fn what_is_no_handshake_is_not_tls_at_the_first_byte_that_says_so() {
    let good = small().0.record();
    for (at, byte) in [(0, b'G'), (0, 0x80), (1, 2), (3, 0xff), (5, 2)] {
        let mut stream = good.clone();
        stream[at] = byte;
        let seen = if at == 3 { 5 } else { at + 1 };
        for read in [read(&stream[..seen], 8192), Records::new(&stream[..seen]).read()] {
            assert_eq!(read, Read::NotTls, "byte {at} is {byte}");
        }
        laws::hold(&stream, 0..stream.len());
    }
    // An empty record, first or later (RFC 8446, 5.1).
    assert_eq!(read(&[22, 3, 1, 0, 0][..], 8192), Read::NotTls);
    let empty_later = [&record(&good[5..15])[..], &record(&[]), &record(&good[15..])].concat();
    assert_eq!(Records::new(&empty_later).read(), Read::NotTls);
    let alert_between = [&record(&good[5..15])[..], &[21, 3, 1, 0, 2, 1, 0], &record(&good[15..])].concat();
    assert_eq!(Records::new(&alert_between).read(), Read::NotTls);
}

#[test]
fn a_hello_beyond_the_buffer_is_the_agents_unless_the_packet_has_it() {
    let hello = Hello::with(vec![(21, vec![0; 9_000]), server_name("big.example")]);
    let stream = hello.record();
    assert_eq!(read(&stream[..100], 8192), Read::BeyondMe);
    let len = stream.len() as u32;
    assert_eq!(read(&stream[..100], len - 1), Read::BeyondMe);
    assert_eq!(read(&stream[..100], len), Read::NeedMore { at_least: len });
    assert!(matches!(read(&stream[..], 8192), Read::Found(_)));
}

#[test]
fn a_stream_is_read_up_to_64_kib() {
    let padded = |len: usize| {
        let pad = (len - 60_000, 60_000);
        Hello::with(vec![(21, vec![0; pad.0]), (21, vec![0; pad.1]), server_name("big.example")])
    };
    let in_records = |hello: &Hello| records(&hello.message(), &[16_384, 32_768, 49_152]);
    let overhead = in_records(&padded(60_000)).len() - 60_000;
    // The extension list itself can have 65,535 bytes: longer ones need the other lists.
    let largest = Hello { suites: vec![0; 100], ..padded(MAX_STREAM as usize - overhead - 98) };
    let stream = in_records(&largest);
    assert_eq!(stream.len(), MAX_STREAM as usize);
    assert_eq!(agent_reads(&stream).and_then(|said| said.name).as_deref(), Some("big.example"));
    let larger = Hello { session_id: vec![7; 31], suites: vec![0; 102], ..largest };
    let stream = in_records(&larger);
    assert_eq!(stream.len(), MAX_STREAM as usize + 1);
    for len in 9..stream.len() {
        assert_eq!(Records::new(&stream[..len]).read(), Read::TooBig, "after {len} bytes");
    }
}

#[test]
fn more_than_64_extensions_are_the_agents() {
    let many = |count: u16| {
        let mut extensions: Vec<_> = (1_000..1_000 + count - 1).map(|kind| (kind, vec![])).collect();
        extensions.push(server_name("last.example"));
        Hello::with(extensions).record()
    };
    assert!(matches!(read(&many(64)[..], 8192), Read::Found(_)));
    assert_eq!(read(&many(65)[..], 8192), Read::BeyondMe);
    assert_eq!(agent_reads(&many(65)).and_then(|said| said.name).as_deref(), Some("last.example"));
}

proptest! {
    #[test]
    fn every_hello_is_read((hello, expected) in hellos()) {
        let stream = hello.record();
        let kernel = said(&stream[..], read(&stream[..], 8192));
        prop_assert_eq!(kernel.as_ref(), Some(&expected));
        prop_assert_eq!(agent_reads(&stream), Some(expected));
        laws::hold(&stream, 0..stream.len());
    }

    #[test]
    fn every_hello_is_read_from_every_kind_of_records(
        (hello, expected) in hellos(),
        ends in vec(any::<Index>(), 1..40),
        prefixes in vec(any::<Index>(), 50),
    ) {
        let message = hello.message();
        let ends: Vec<usize> = ends.iter().map(|end| end.index(message.len())).collect();
        let stream = records(&message, &ends);
        prop_assert_eq!(agent_reads(&stream), Some(expected));
        laws::hold(&stream, prefixes.iter().map(|prefix| prefix.index(stream.len())));
    }

    #[test]
    fn changed_bytes_break_no_law(
        (hello, _) in hellos(),
        changes in vec((any::<Index>(), any::<u8>()), 1..6),
        ends in vec(any::<Index>(), 0..3),
        prefixes in vec(any::<Index>(), 30),
    ) {
        let message = hello.message();
        let ends: Vec<usize> = ends.iter().map(|end| end.index(message.len())).collect();
        let mut stream = records(&message, &ends);
        for (at, byte) in changes {
            let at = at.index(stream.len());
            stream[at] = byte;
        }
        laws::hold(&stream, prefixes.iter().map(|prefix| prefix.index(stream.len())).chain(0..60));
    }

    #[test]
    fn any_bytes_break_no_law(stream in vec(prop_oneof![any::<u8>(), 0u8..4, Just(22)], 0..80)) {
        laws::hold(&stream, 0..stream.len());
    }
}
