//! The kernel's part, emulated: the client writes its own record before it connects, and a dial leads
//! to a server of the test instead of an endpoint of the tables. Shares, statistics and the rewriting
//! of addresses are not emulated: they are the hook's.

use socket2::SockRef;
use std::{
    collections::{BTreeMap, HashMap},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::BorrowedFd,
    sync::Mutex,
    time::Duration,
};
use weir::{
    accept::{AcceptMaps, Chosen, Connector, Decisions, Rejected},
    bpf,
};
use weir_common::{
    abi::{
        ids::{EndpointId, FrontendId, SplitId, StatsId},
        socket::SocketRecord,
        tls::{AcceptKey, AcceptRecord, Dial, DialKind, Listener},
    },
    addr::Family,
    hello::{Found, Records, copy},
    reason::Reason,
};
use zerocopy::FromZeros as _;

/// Counters of the frontend's first route.
pub(crate) const FIRST_ROUTE: StatsId = StatsId(100);
/// Counters of the route that is chosen.
pub(crate) const ROUTE: StatsId = StatsId(101);
/// Counters of its leg.
pub(crate) const LEG: StatsId = StatsId(102);
/// The frontend.
pub(crate) const FRONTEND: FrontendId = FrontendId(7);
/// The split of the one route that there is.
pub(crate) const SPLIT: SplitId = SplitId(8);
/// The name that it is for.
pub(crate) const NAME: &str = "shop.example.com";
/// The endpoint that is chosen first.
pub(crate) const ENDPOINT: EndpointId = EndpointId(9);

#[derive(Default)]
pub(crate) struct Fake {
    accepts: Mutex<HashMap<AcceptKey, AcceptRecord>>,
    listeners: Mutex<BTreeMap<u64, Listener>>,
    wishes: Mutex<HashMap<u64, Dial>>,
    dialled: Mutex<Vec<Dial>>,
    chosen: Mutex<HashMap<u64, SocketRecord>>,
    /// Where the first and the second dial lead.
    endpoints: Mutex<[Option<SocketAddr>; 2]>,
    /// Whether the hook refuses dials as a leg without endpoints does.
    pub(crate) refuses: std::sync::atomic::AtomicBool,
    pub(crate) idle_timeout: Mutex<Option<Duration>>,
}

impl Fake {
    pub(crate) fn lead_to(&self, first: SocketAddr, second: SocketAddr) {
        *self.endpoints.lock().unwrap() = [Some(first), Some(second)];
    }

    /// What the programs write as a SYN leaves.
    pub(crate) fn sent(&self, key: AcceptKey, frontend: Family, device: u32) {
        let mut record = AcceptRecord::new_zeroed();
        record.frontend = FRONTEND;
        record.route_stats = FIRST_ROUTE;
        record.device = device;
        record.frontend_address = match frontend {
            Family::V4 => Ipv4Addr::new(10, 96, 0, 1).into(),
            Family::V6 => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).into(),
        };
        assert_eq!(self.accepts.lock().unwrap().insert(key, record), None);
    }

    pub(crate) fn listener(&self, netns: u64) -> Option<Listener> {
        self.listeners.lock().unwrap().get(&netns).copied()
    }

    /// All that was dialled.
    pub(crate) fn dialled(&self) -> Vec<DialKind> {
        self.dialled.lock().unwrap().iter().map(Dial::kind).collect()
    }

    /// Whether nothing is left of connections.
    pub(crate) fn is_clean(&self) -> bool {
        self.accepts.lock().unwrap().is_empty() && self.wishes.lock().unwrap().is_empty()
    }
}

impl AcceptMaps for Fake {
    fn set_listener(&self, netns: u64, listener: Listener) -> Result<(), bpf::Error> {
        self.listeners.lock().unwrap().insert(netns, listener);
        Ok(())
    }

    fn remove_listener(&self, netns: u64) -> Result<(), bpf::Error> {
        self.listeners.lock().unwrap().remove(&netns);
        Ok(())
    }

    fn listeners(&self) -> Result<Vec<(u64, Listener)>, bpf::Error> {
        Ok(self.listeners.lock().unwrap().iter().map(|(netns, listener)| (*netns, *listener)).collect())
    }

    fn take_accepted(&self, key: &AcceptKey) -> Result<Option<AcceptRecord>, bpf::Error> {
        Ok(self.accepts.lock().unwrap().remove(key))
    }

    fn set_dial(&self, cookie: u64, dial: Dial) -> Result<(), bpf::Error> {
        let earlier = self.wishes.lock().unwrap().insert(cookie, dial);
        assert_eq!(earlier, None, "a wish was left behind");
        self.dialled.lock().unwrap().push(dial);
        let refuses = self.refuses.load(std::sync::atomic::Ordering::Relaxed);
        let mut record = SocketRecord::new_zeroed();
        record.leg_stats = LEG;
        record.leg_index = 3;
        record.endpoint = ENDPOINT;
        match dial.kind() {
            DialKind::Split(_) | DialKind::Leg(..) if !refuses => {
                self.chosen.lock().unwrap().insert(cookie, record);
            }
            DialKind::Split(_) | DialKind::Leg(..) | DialKind::Reject(..) => {}
        }
        Ok(())
    }

    fn remove_dial(&self, cookie: u64) {
        self.wishes.lock().unwrap().remove(&cookie);
    }

    fn socket_record(&self, socket: BorrowedFd<'_>) -> Result<Option<SocketRecord>, bpf::Error> {
        let cookie = SockRef::from(&socket).cookie().unwrap();
        Ok(self.chosen.lock().unwrap().get(&cookie).copied())
    }
}

impl Connector for Fake {
    fn target(&self, family: Family, dial: &Dial) -> SocketAddr {
        let [first, second] = *self.endpoints.lock().unwrap();
        let chosen = match dial.kind() {
            DialKind::Split(_) => first,
            DialKind::Leg(..) => second,
            DialKind::Reject(..) => None,
        };
        // Nobody listens on port 1: what the hook refuses is refused here, too.
        chosen.unwrap_or_else(|| match family {
            Family::V4 => (Ipv4Addr::LOCALHOST, 1).into(),
            Family::V6 => (Ipv6Addr::LOCALHOST, 1).into(),
        })
    }
}

impl Decisions for Fake {
    fn decide(&self, record: &AcceptRecord, hello: &Records<'_>, found: &Found) -> Result<Chosen, Rejected> {
        assert_eq!(record.frontend, FRONTEND);
        let rejected = |reason| Rejected { stats: FIRST_ROUTE, reason };
        let span = found.name.ok_or(rejected(Reason::NoServerName))?;
        if copy(hello, span, &mut [0; 255]) != Some(NAME.as_bytes()) {
            return Err(rejected(Reason::NameNotMatched));
        }
        Ok(Chosen { split: SPLIT, route_stats: ROUTE, idle_timeout: *self.idle_timeout.lock().unwrap() })
    }
}
