//! The acceptor's part of the maps: listeners, accepted connections, dials and rulings.

use super::{
    Error, Pins,
    maps::{Table, failed, pinned, unless_absent},
    wire::Wire,
};
use crate::accept::AcceptMaps;
use aya::maps::{HashMap, Map, MapData, RingBuf, SkStorage};
use std::{
    os::fd::{AsRawFd, BorrowedFd},
    sync::{Mutex, MutexGuard, PoisonError},
};
use weir_common::abi::{
    socket::SocketRecord,
    tls::{AcceptKey, AcceptRecord, Dial, Listener, Ruling},
};

/// The ring buffer of requests to the agent; one reader empties it.
pub type RequestRing = RingBuf<MapData>;

/// Handles of the acceptor's maps, for any thread.
pub struct Border {
    listeners: Mutex<Table<u64, Listener>>,
    accepts: Mutex<Table<AcceptKey, AcceptRecord>>,
    dials: Mutex<Table<u64, Dial>>,
    rulings: Mutex<HashMap<MapData, u64, Wire<Ruling>>>,
    sockets: Mutex<SkStorage<MapData, Wire<SocketRecord>>>,
}

impl Border {
    /// Opens the maps by their pins.
    pub(super) fn open(pins: &Pins) -> Result<Self, Error> {
        Ok(Self {
            listeners: Mutex::new(pinned(pins, "LISTENERS", Map::HashMap)?),
            accepts: Mutex::new(pinned(pins, "ACCEPTS", Map::HashMap)?),
            dials: Mutex::new(pinned(pins, "DIALS", Map::HashMap)?),
            rulings: Mutex::new(pinned(pins, "RULINGS", Map::LruHashMap)?),
            sockets: Mutex::new(pinned(pins, "SOCKETS", Map::SkStorage)?),
        })
    }

    /// Opens the ring buffer of requests by its pin. Only one reader may empty it.
    pub(super) fn requests(pins: &Pins) -> Result<RequestRing, Error> {
        pinned(pins, "REQUESTS", Map::RingBuf)
    }

    /// Answers about a ClientHello that the kernel program could not read.
    ///
    /// # Errors
    ///
    /// If the map cannot be written.
    pub fn set_ruling(&self, cookie: u64, ruling: Ruling) -> Result<(), Error> {
        locked(&self.rulings).insert(cookie, Wire(ruling), 0).map_err(|error| failed("RULINGS", error))
    }
}

impl AcceptMaps for Border {
    fn set_listener(&self, netns: u64, listener: Listener) -> Result<(), Error> {
        locked(&self.listeners).insert(Wire(netns), Wire(listener), 0).map_err(|error| failed("LISTENERS", error))
    }

    fn remove_listener(&self, netns: u64) -> Result<(), Error> {
        unless_absent(locked(&self.listeners).remove(&Wire(netns)))
            .map(drop)
            .map_err(|error| failed("LISTENERS", error))
    }

    fn listeners(&self) -> Result<Vec<(u64, Listener)>, Error> {
        let map = locked(&self.listeners);
        let entries = map.iter().map(|entry| entry.map(|(key, value)| (key.0, value.0)));
        entries.collect::<Result<_, _>>().map_err(|error| failed("LISTENERS", error))
    }

    fn take_accepted(&self, key: &AcceptKey) -> Result<Option<AcceptRecord>, Error> {
        let mut map = locked(&self.accepts);
        let Some(found) = unless_absent(map.get(&Wire(*key), 0)).map_err(|error| failed("ACCEPTS", error))? else {
            return Ok(None);
        };
        unless_absent(map.remove(&Wire(*key))).map_err(|error| failed("ACCEPTS", error))?;
        Ok(Some(found.0))
    }

    fn set_dial(&self, cookie: u64, dial: Dial) -> Result<(), Error> {
        locked(&self.dials).insert(Wire(cookie), Wire(dial), 0).map_err(|error| failed("DIALS", error))
    }

    fn remove_dial(&self, cookie: u64) {
        // If it cannot be removed now, the next dial of that cookie replaces it: cookies are never reused.
        let _ = locked(&self.dials).remove(&Wire(cookie));
    }

    fn socket_record(&self, socket: BorrowedFd<'_>) -> Result<Option<SocketRecord>, Error> {
        let record = locked(&self.sockets).get(&socket.as_raw_fd(), 0);
        unless_absent(record).map(|record| record.map(|record| record.0)).map_err(|error| failed("SOCKETS", error))
    }
}

/// A handle holds nothing but a file descriptor, so a panic elsewhere leaves it whole.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
