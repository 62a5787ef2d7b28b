//! The ClientHello may come in any form: in pieces, in several records, long, with data behind it.

use crate::{
    stage::{Family, PORT, Stage},
    tls_stage::{NAME, Path, WRONG_NAME, expect_ended_at_once, expect_reset, paths},
};
use anyhow::{Context as _, Result, ensure};
use weir_tests::{
    client::Dial,
    tls::options::{SocketOptions, Speech, TlsOptions},
};

paths!(a_hello_in_pieces_is_read);

fn a_hello_in_pieces_is_read(path: Path, family: Family) -> Result<()> {
    forms(path, family, |sni| {
        let hello = TlsOptions::hello(sni);
        vec![
            TlsOptions { segment: 1, ..hello.clone() },
            TlsOptions { segment: 5, ..hello.clone() },
            TlsOptions { segment: 300, hello_bytes: 4_000, ..hello },
        ]
    })
}

paths!(a_hello_of_several_records_is_read);

fn a_hello_of_several_records_is_read(path: Path, family: Family) -> Result<()> {
    forms(path, family, |sni| {
        let hello = TlsOptions::hello(sni);
        vec![
            TlsOptions { record: 100, ..hello.clone() },
            TlsOptions { record: 1, ..hello.clone() },
            TlsOptions { record: 40, segment: 30, ..hello },
        ]
    })
}

paths!(a_long_hello_is_read);

fn a_long_hello_is_read(path: Path, family: Family) -> Result<()> {
    forms(path, family, |sni| {
        let hello = TlsOptions::hello(sni);
        vec![
            TlsOptions { hello_bytes: 7_000, ..hello.clone() },
            TlsOptions { hello_bytes: 9_000, ..hello.clone() },
            TlsOptions { hello_bytes: 30_000, ..hello.clone() },
            TlsOptions { hello_bytes: 60_000, ..hello },
        ]
    })
}

/// Sends every form with a good name, which passes, and with a wrong one, which does not.
fn forms(path: Path, family: Family, forms: impl Fn(&str) -> Vec<TlsOptions>) -> Result<()> {
    let stage = Stage::set(&path.shop(&[("shop/b", PORT, 1)]))?;
    let server = stage.listen(family, "b/11", 11).speech(Speech::Hello).start()?;
    for tls in forms(WRONG_NAME) {
        let report = stage.connect(&family.dial_frontend().speaking(tls.clone()), 3)?;
        ensure!(report.failed_in_all() == 3, "{tls:?}: {report:?}");
    }
    stage.expect_rejected("name_not_matched", 3 * forms(WRONG_NAME).len() as u64)?;
    expect_reset(&server)?;
    for tls in forms(NAME) {
        let dial = Dial { bytes: 50_000, ..family.dial_frontend().speaking(tls.clone()) };
        let report = stage.connect(&dial, 3)?;
        ensure!(report.answered("b/11") == 3, "{tls:?}: {report:?}");
    }
    Ok(())
}

paths!(a_hello_beyond_64_kib_is_rejected);

fn a_hello_beyond_64_kib_is_rejected(path: Path, family: Family) -> Result<()> {
    let stage = Stage::set(&path.shop(&[("shop/b", PORT, 1)]))?;
    let server = stage.listen(family, "b/11", 11).speech(Speech::Hello).start()?;
    // The beginning of what claims to be eight megabytes long.
    let raw = "\u{16}\u{3}\u{1}\u{3f}\u{7f}\u{1}\u{7f}\u{7f}\u{7f}".to_owned() + &"x".repeat(9_000);
    let tls = TlsOptions { raw: Some(raw), ..TlsOptions::default() };
    let report = stage.connect(&family.dial_frontend().speaking(tls), 5)?;
    ensure!(report.failed_in_all() == 5, "{report:?}");
    stage.expect_rejected("hello_too_big", 5).with_context(|| format!("{report:?}"))?;
    expect_reset(&server)
}

paths!(data_behind_the_hello_arrives);

fn data_behind_the_hello_arrives(path: Path, family: Family) -> Result<()> {
    let stage = Stage::set(&path.shop(&[("shop/b", PORT, 1)]))?;
    let server = stage.listen(family, "b/11", 11).speech(Speech::Hello).start()?;
    for early in [1, 3_000, 100_000] {
        let tls = TlsOptions { early, ..TlsOptions::hello(NAME) };
        let report = stage.connect(&Dial { bytes: 10_000, ..family.dial_frontend().speaking(tls) }, 10)?;
        ensure!(report.answered("b/11") == 10 && report.early == 10, "{early}: {report:?}");
    }
    drop(server);
    let _server = stage.listen(family, "b/11", 11).start()?;
    let tls = TlsOptions { resume: true, early: 4_000, ..TlsOptions::full(NAME) };
    let report = stage.connect(&Dial { bytes: 10_000, ..family.dial_frontend().speaking(tls) }, 10)?;
    ensure!(report.answered("b/11") == 10 && report.early == 9, "0-RTT: {report:?}");
    Ok(())
}

paths!(a_hello_in_the_syn_is_no_way_around);

fn a_hello_in_the_syn_is_no_way_around(path: Path, family: Family) -> Result<()> {
    let stage = Stage::set(&path.shop(&[("shop/b", PORT, 1)]))?;
    stage.net.allow_fast_open()?;
    let server = stage.listen(family, "b/11", 11).speech(Speech::Hello).start()?;
    let dial = |sni| Dial {
        socket: SocketOptions { fast_open: true, ..SocketOptions::default() },
        ..family.dial_frontend().speaking(TlsOptions::hello(sni))
    };
    let report = stage.connect(&dial(WRONG_NAME), 10)?;
    ensure!(report.failed_in_all() == 10, "{report:?}");
    ensure!(server.greeted() == 0, "a wrong name arrived");
    let report = stage.connect(&dial(NAME), 10)?;
    ensure!(report.answered("b/11") == 10, "{report:?}");
    Ok(())
}

paths!(a_resumed_session_and_an_old_version_are_served);

fn a_resumed_session_and_an_old_version_are_served(path: Path, family: Family) -> Result<()> {
    let stage = Stage::set(&path.shop(&[("shop/b", PORT, 1)]))?;
    let _server = stage.listen(family, "b/11", 11).start()?;
    let full = TlsOptions::full(NAME);
    for tls in [
        TlsOptions { tls12: true, ..full.clone() },
        TlsOptions { tls12: true, resume: true, ..full.clone() },
        TlsOptions { resume: true, ..full },
    ] {
        let report = stage.connect(&family.dial_frontend().speaking(tls.clone()), 5)?;
        ensure!(report.answered("b/11") == 5, "{tls:?}: {report:?}");
    }
    let wrong = TlsOptions { tls12: true, ..TlsOptions::full(WRONG_NAME) };
    expect_ended_at_once(&stage.connect(&family.dial_frontend().speaking(wrong), 5)?)
}
