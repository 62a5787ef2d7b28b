//! ClientHellos that the kernel program could not read: of several records, or longer than its buffer.

use crate::compile::{tables::Tables, tls_outcome};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};
use weir_common::{
    abi::{
        tables::Target,
        tls::{PieceRequest, Ruling},
    },
    hello::{MAX_STREAM, Read, Records},
    reason::Reason,
};

/// Most unfinished hellos; the oldest goes first. With their longest length this is 64 MiB.
const MAX_HELLOS: usize = 1_024;
/// How long an unfinished hello is kept after its last piece.
const PATIENCE: Duration = Duration::from_secs(60);

/// Unfinished hellos, by the cookies of their sockets.
#[derive(Debug, Default)]
pub(super) struct Hellos(BTreeMap<u64, Unfinished>);

#[derive(Debug)]
struct Unfinished {
    bytes: Vec<u8>,
    last: Instant,
    /// Kept for a while: what the client sends at once comes in several pieces, and those behind the
    /// decisive one must not change it.
    decided: Option<Ruling>,
}

impl Hellos {
    /// Adds a piece and says what the program shall do; `None` if that has not changed.
    pub(super) fn add(&mut self, piece: &PieceRequest, tables: &Tables, now: Instant) -> Option<Ruling> {
        let cookie = piece.socket.cookie;
        if !self.0.contains_key(&cookie) && self.0.len() >= MAX_HELLOS {
            let oldest = self.0.iter().min_by_key(|(_, hello)| hello.last).map(|(cookie, _)| *cookie);
            oldest.and_then(|oldest| self.0.remove(&oldest));
        }
        let hello = self.0.entry(cookie).or_insert_with(|| Unfinished { bytes: Vec::new(), last: now, decided: None });
        hello.last = now;
        if hello.decided.is_some() {
            return hello.decided;
        }
        let have = hello.bytes.len();
        let offset = piece.offset as usize;
        if offset > have {
            // An earlier agent read the beginning, and took it with it.
            self.0.remove(&cookie);
            return Some(Ruling::reject(Reason::AgentLost));
        }
        let bytes = piece.bytes.get(..piece.len as usize).unwrap_or(&piece.bytes);
        // A piece comes twice if the program could not note that it was sent.
        hello.bytes.extend(bytes.get(have - offset..).unwrap_or(&[]));
        let target = Target::accept(piece.route_stats, piece.names);
        let ruling = match tls_outcome(tables, &target, &hello.bytes) {
            // The byte before the last that is needed may leave: without the last they say nothing.
            None => return Some(Ruling::more(needed(&hello.bytes).saturating_sub(1))),
            Some(Ok(matched)) => Ruling::pass(matched.split, matched.route_stats),
            Some(Err(reason)) => Ruling::reject(reason),
        };
        *hello = Unfinished { bytes: Vec::new(), last: now, decided: Some(ruling) };
        Some(ruling)
    }

    /// Forgets hellos that do not go on.
    pub(super) fn forget_old(&mut self, now: Instant) {
        self.0.retain(|_, hello| now.duration_since(hello.last) < PATIENCE);
    }
}

/// How many bytes of a stream it takes at least to say more.
fn needed(bytes: &[u8]) -> u32 {
    match Records::new(bytes).read() {
        Read::NeedMore { at_least } => at_least.min(MAX_STREAM),
        Read::Found(_) | Read::NotTls | Read::Malformed | Read::BeyondMe | Read::TooBig => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_common::{
        abi::{
            ids::{NameTableId, SplitId, StatsId},
            tls::{PIECE_BYTES, RequestKind, RulingKind, SocketRequest},
        },
        hello::{NameKey, NameValue},
    };

    const TABLE: NameTableId = NameTableId(7);

    fn tables() -> Tables {
        let mut tables = Tables::default();
        let key = NameKey::exact(TABLE, "a.example").expect("a name");
        let value =
            NameValue { split: SplitId(3), route_stats: StatsId(4), bits: key.bits, plain: 1, ..NameValue::default() };
        tables.names.insert(key, value);
        tables
    }

    /// A hello for a name, padded to about `pad` bytes more, in records of `size` bytes.
    fn hello(name: &str, pad: usize, size: usize) -> Vec<u8> {
        let sized = |bytes: &[u8]| [&u16::try_from(bytes.len()).expect("short").to_be_bytes(), bytes].concat();
        let host = [&[0], sized(name.as_bytes()).as_slice()].concat();
        let name = [&[0, 0], sized(&sized(&host)).as_slice()].concat();
        let padding = [&[0, 21], sized(&vec![0; pad]).as_slice()].concat();
        let extensions = sized(&[name, padding].concat());
        let body = [&[3, 3], [0; 32].as_slice(), &[0, 0, 2, 0x13, 0x01, 1, 0], &extensions].concat();
        let len = u32::try_from(body.len()).expect("short").to_be_bytes();
        let handshake = [&[1], &len[1..], &body].concat();
        handshake.chunks(size).flat_map(|chunk| [&[22, 3, 1], sized(chunk).as_slice()].concat()).collect()
    }

    fn pieces(stream: &[u8], cookie: u64) -> Vec<PieceRequest> {
        let piece = |(i, chunk): (usize, &[u8])| {
            let mut bytes = [0; PIECE_BYTES];
            bytes[..chunk.len()].copy_from_slice(chunk);
            PieceRequest {
                socket: SocketRequest { kind: RequestKind::Piece as u32, cookie, ..SocketRequest::default() },
                names: TABLE,
                route_stats: StatsId(1),
                offset: (i * PIECE_BYTES) as u32,
                len: chunk.len() as u32,
                bytes,
            }
        };
        stream.chunks(PIECE_BYTES).enumerate().map(piece).collect()
    }

    fn rulings(hellos: &mut Hellos, pieces: &[PieceRequest]) -> Vec<RulingKind> {
        let tables = tables();
        pieces.iter().filter_map(|piece| hellos.add(piece, &tables, Instant::now())).map(|r| r.kind()).collect()
    }

    #[test]
    fn a_hello_in_several_records_passes_once_it_is_whole() {
        let stream = hello("a.example", 9_000, 500);
        let mut hellos = Hellos::default();
        let rulings = rulings(&mut hellos, &pieces(&stream, 1));
        let (last, before) = rulings.split_last().expect("rulings");
        assert_eq!(*last, RulingKind::Pass(SplitId(3), StatsId(4)));
        assert!(before.iter().all(|ruling| matches!(ruling, RulingKind::More(n) if (*n as usize) < stream.len())));
        assert!(hellos.0[&1].bytes.is_empty(), "no bytes are kept of a hello that is decided");
    }

    #[test]
    fn a_wrong_name_in_several_records_is_rejected() {
        let stream = hello("b.example", 100, 40);
        let rulings = rulings(&mut Hellos::default(), &pieces(&stream, 1));
        assert_eq!(rulings, [RulingKind::Reject(Reason::NameNotMatched)]);
    }

    #[test]
    fn a_hello_beyond_64_kib_is_rejected() {
        let stream = hello("a.example", 65_000, 90);
        let rulings = rulings(&mut Hellos::default(), &pieces(&stream, 1));
        assert!(rulings.contains(&RulingKind::Reject(Reason::HelloTooBig)), "{rulings:?}");
    }

    #[test]
    fn what_comes_behind_the_decision_does_not_change_it() {
        let good = [hello("a.example", 100, 40), vec![23; 3 * PIECE_BYTES]].concat();
        let rulings_of = |stream: &[u8]| rulings(&mut Hellos::default(), &pieces(stream, 1));
        assert!(rulings_of(&good).iter().all(|ruling| *ruling == RulingKind::Pass(SplitId(3), StatsId(4))));
        let too_big = [&[22, 3, 1, 0x3f, 0x7f, 1, 0x7f, 0x7f, 0x7f][..], &[b'x'; 9_000]].concat();
        assert!(rulings_of(&too_big).iter().all(|ruling| *ruling == RulingKind::Reject(Reason::HelloTooBig)));
    }

    #[test]
    fn a_piece_that_comes_twice_counts_once() {
        let pieces = pieces(&hello("a.example", 9_000, 500), 1);
        let twice: Vec<_> = pieces.iter().flat_map(|piece| [*piece, *piece]).collect();
        let rulings = rulings(&mut Hellos::default(), &twice[..twice.len() - 1]);
        assert_eq!(rulings.last(), Some(&RulingKind::Pass(SplitId(3), StatsId(4))));
    }

    #[test]
    fn a_hello_whose_beginning_went_with_an_earlier_agent_is_rejected() {
        let pieces = pieces(&hello("a.example", 9_000, 500), 1);
        assert_eq!(rulings(&mut Hellos::default(), &pieces[1..2]), [RulingKind::Reject(Reason::AgentLost)]);
    }

    #[test]
    fn unfinished_hellos_are_bounded_in_number_and_time() {
        let mut hellos = Hellos::default();
        let stream = hello("a.example", 9_000, 500);
        for cookie in 0..MAX_HELLOS as u64 + 10 {
            let _ = rulings(&mut hellos, &pieces(&stream, cookie)[..1]);
        }
        assert_eq!(hellos.0.len(), MAX_HELLOS);
        hellos.forget_old(Instant::now() + PATIENCE);
        assert!(hellos.0.is_empty());
    }
}
