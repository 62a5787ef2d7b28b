//! A whole hello whose inside does not add up is malformed, for both readers.

use crate::{
    builder::{Hello, alpn, message, record, server_name, with_len},
    laws,
};
use weir_common::hello::{Read, Records, read};

#[track_caller]
fn is_malformed(stream: &[u8]) {
    assert_eq!(read(stream, 8192), Read::Malformed);
    assert_eq!(Records::new(stream).read(), Read::Malformed);
    // What follows does not make it better.
    assert_eq!(read(&[stream, &[0; 300]].concat()[..], 8192), Read::Malformed);
    laws::hold(stream, 0..stream.len());
}

fn malformed_with(extension: (u16, Vec<u8>)) {
    is_malformed(&Hello::with(vec![(23, vec![]), extension, (35, vec![])]).record());
}

#[test]
fn a_list_of_names_holds_exactly_one_host_name() {
    let host = |name: &[u8]| [&[0][..], &with_len::<2>(name)].concat();
    let other_type = [&[1][..], &with_len::<2>(b"a")].concat();
    let list = |names: &[Vec<u8>]| (0, with_len::<2>(&names.concat()));
    malformed_with(list(&[host(b"a"), host(b"b")]));
    malformed_with(list(std::slice::from_ref(&other_type)));
    malformed_with(list(&[host(b"a"), other_type.clone()]));
    malformed_with(list(&[other_type, host(b"a")]));
    malformed_with(list(&[]));
    malformed_with((0, vec![]));
}

#[test]
fn a_server_name_is_not_empty() {
    malformed_with(server_name(""));
}

#[test]
fn lengths_inside_an_extension_add_up() {
    for extension in [server_name("shop.example"), alpn(&[b"h2".to_vec()])] {
        for at in if extension.0 == 0 { vec![1, 4] } else { vec![1] } {
            for change in [1u8, 0xff] {
                let mut changed = extension.clone();
                changed.1[at] = changed.1[at].wrapping_add(change);
                malformed_with(changed);
            }
        }
    }
    malformed_with((16, vec![]));
    malformed_with((16, vec![0, 0]));
}

#[test]
fn server_name_and_alpn_come_once() {
    is_malformed(&Hello::with(vec![server_name("a.example"), server_name("a.example")]).record());
    let protocols = alpn(&[b"h2".to_vec()]);
    is_malformed(&Hello::with(vec![protocols.clone(), (23, vec![]), protocols]).record());
}

#[test]
fn lists_that_must_not_be_empty_are_not() {
    let good = Hello::with(vec![server_name("a.example")]);
    is_malformed(&Hello { suites: vec![], ..good.clone() }.record());
    is_malformed(&Hello { suites: vec![0; 3], ..good.clone() }.record());
    is_malformed(&Hello { methods: vec![], ..good.clone() }.record());
    is_malformed(&Hello { session_id: vec![0; 33], ..good }.record());
}

#[test]
fn a_body_cut_anywhere_is_malformed_but_where_it_may_end() {
    let hello = Hello::with(vec![server_name("a.example"), (23, vec![])]);
    let body = hello.body();
    let bare = Hello { extensions: None, ..hello }.body().len();
    for len in (0..body.len()).filter(|len| *len != bare) {
        is_malformed(&record(&message(&body[..len])));
    }
    assert!(matches!(read(&record(&message(&body[..bare]))[..], 8192), Read::Found(_)));
    is_malformed(&record(&message(&[&body[..], &[0]].concat())));
}
