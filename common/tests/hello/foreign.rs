//! Hellos that others made, and what another reader says of them.

use crate::{
    builder::{Said, agent_reads, records},
    laws,
};
use proptest::{collection::vec, prelude::*, sample::Index};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion,
    crypto::ring,
    pki_types::ServerName,
    server::Acceptor,
    version::{TLS12, TLS13},
};
use std::sync::{Arc, LazyLock};
use weir_common::hello::{Read, Records, Span, check_name, read};

/// What rustls says of a stream: nothing if it does not accept it (yet).
fn rustls_reads(mut stream: &[u8]) -> Option<Said> {
    let mut acceptor = Acceptor::default();
    while !stream.is_empty() {
        if acceptor.read_tls(&mut stream).ok()? == 0 {
            return None;
        }
        if let Some(accepted) = acceptor.accept().ok()? {
            let hello = accepted.client_hello();
            return Some(Said {
                name: hello.server_name().map(str::to_owned),
                alpn: hello.alpn().into_iter().flatten().map(<[u8]>::to_vec).collect(),
            });
        }
    }
    None
}

/// Checks a hello that rustls accepts.
#[track_caller]
pub(crate) fn read_as_rustls_does(what: &str, stream: &[u8]) -> Said {
    let ours = agent_reads(stream).unwrap_or_else(|| panic!("{what}: {:?}", Records::new(stream).read()));
    let theirs = rustls_reads(stream).unwrap_or_else(|| panic!("{what}: rustls does not accept it"));
    // rustls lower-cases names; ours is as it was sent.
    assert_eq!(
        Said { name: ours.name.as_ref().map(|name| name.to_ascii_lowercase()), ..ours.clone() },
        theirs,
        "{what}"
    );
    laws::hold(stream, 0..stream.len());
    ours
}

/// Makes hellos with rustls, with names for the failures.
fn made_by_rustls() -> Vec<(String, Vec<u8>)> {
    let versions: [(&str, &[&SupportedProtocolVersion]); 3] =
        [("1.2", &[&TLS12]), ("1.3", &[&TLS13]), ("1.2 and 1.3", &[&TLS12, &TLS13])];
    let protocols: [&[&str]; 3] = [&[], &["h2"], &["h2", "http/1.1"]];
    let names = ["shop.example", "10.0.0.1", "A-rather.LONG.name-with.many-labels.of.shop.example"];
    let mut hellos = Vec::new();
    for (version, versions) in versions {
        for protocols in protocols {
            for name in names {
                for (sni, fragment) in [(true, None), (false, None), (true, Some(40)), (true, Some(300))] {
                    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                        .with_protocol_versions(versions)
                        .unwrap()
                        .with_root_certificates(RootCertStore::empty());
                    let mut config = config.with_no_client_auth();
                    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
                    config.enable_sni = sni;
                    config.max_fragment_size = fragment;
                    let name = ServerName::try_from(name).unwrap();
                    let mut client = ClientConnection::new(Arc::new(config), name.clone()).unwrap();
                    let mut stream = Vec::new();
                    while client.wants_write() {
                        client.write_tls(&mut stream).unwrap();
                    }
                    hellos.push((format!("{version} {protocols:?} {name:?} {sni} {fragment:?}"), stream));
                }
            }
        }
    }
    hellos
}

static BY_RUSTLS: LazyLock<Vec<(String, Vec<u8>)>> = LazyLock::new(made_by_rustls);

/// Those in one record that have a name, with its place.
static NAMED: LazyLock<Vec<(&[u8], Span)>> = LazyLock::new(|| {
    let named = BY_RUSTLS.iter().filter_map(|(_, hello)| match read(&hello[..], 8192) {
        Read::Found(found) => Some((&hello[..], found.name?)),
        Read::NeedMore { .. } | Read::NotTls | Read::Malformed | Read::BeyondMe | Read::TooBig => None,
    });
    named.collect()
});

#[test]
fn hellos_of_rustls_are_read_as_rustls_reads_them() {
    let mut in_several_records = 0;
    for (what, stream) in &*BY_RUSTLS {
        let said = read_as_rustls_does(what, stream);
        let names_nobody = what.contains("IpAddress") || what.contains("false");
        assert_eq!(said.name.is_none(), names_nobody, "{what}");
        in_several_records += u32::from(read(&stream[..], 8192) == Read::BeyondMe);
    }
    assert!(in_several_records > 0, "rustls made fragments");
}

/// Checks a changed hello: where both find one, they find the same.
fn never_contradicts_rustls(stream: &[u8]) -> Result<(), TestCaseError> {
    let (Some(ours), Some(theirs)) = (agent_reads(stream), rustls_reads(stream)) else { return Ok(()) };
    // rustls leaves out what it takes for no name, and lower-cases.
    let ours_valid = ours.name.filter(|name| check_name(name.as_bytes()).is_ok());
    if let (Some(ours), Some(theirs)) = (&ours_valid, &theirs.name) {
        prop_assert!(ours.eq_ignore_ascii_case(theirs), "{} is not {}", ours, theirs);
    }
    prop_assert!(ours_valid.is_some() || theirs.name.is_none(), "only rustls finds {:?}", theirs.name);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn changed_hellos_are_never_read_against_rustls(
        which in any::<Index>(),
        changes in vec((any::<Index>(), any::<u8>()), 1..4),
        near_name in any::<bool>(),
        ends in vec(any::<Index>(), 0..3),
    ) {
        let (hello, name) = which.get(&NAMED);
        let mut message = hello[5..].to_vec();
        for (at, byte) in changes {
            // The extension with its lengths, in front of the name and in it; or anywhere.
            let near = || name.at as usize - 5 - 9 + at.index(9 + usize::from(name.len));
            let at = if near_name { near() } else { at.index(message.len()) };
            message[at] = byte;
        }
        let ends: Vec<usize> = ends.iter().map(|end| end.index(message.len())).collect();
        let stream = records(&message, &ends);
        never_contradicts_rustls(&stream)?;
        laws::hold(&stream, [10, 60, stream.len() - 1].into_iter());
    }
}
