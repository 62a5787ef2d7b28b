//! Asks for one name again and again.

use super::Resolvers;
use hickory_resolver::{
    TokioResolver,
    net::{DnsError, NetError},
    proto::{op::ResponseCode, rr::RecordType},
};
use std::{
    collections::BTreeSet,
    net::IpAddr,
    time::{Duration, Instant},
};
use tokio::sync::mpsc;

/// TTLs are bounded: less would be a burden for the server, more would keep a mistake for too long.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);
/// The answer that there is nothing need not say for how long.
const NOTHING: Duration = Duration::from_secs(30);
/// After a failure the next attempt follows soon, and later each time.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(60);

/// A name and what is known of it.
pub(super) struct Followed {
    name: String,
    resolvers: Resolvers,
    found: mpsc::Sender<(String, Vec<IpAddr>)>,
    v4: Option<BTreeSet<IpAddr>>,
    v6: Option<BTreeSet<IpAddr>>,
    failures: u32,
}

/// An answer to one question, and for how long it holds.
struct Answer {
    addresses: BTreeSet<IpAddr>,
    holds: Duration,
}

impl Followed {
    pub(super) fn new(name: String, resolvers: Resolvers, found: mpsc::Sender<(String, Vec<IpAddr>)>) -> Self {
        Self { name, resolvers, found, v4: None, v6: None, failures: 0 }
    }

    /// Asks for ever, or until nobody wants to know.
    pub(super) async fn follow(mut self) {
        loop {
            let resolver = self.resolvers.borrow_and_update().clone();
            let wait = match resolver {
                Some(resolver) => self.ask(&resolver).await,
                None => self.failed("the machine's DNS configuration cannot be read"),
            };
            if let Some(addresses) = self.addresses()
                && self.found.send((self.name.clone(), addresses)).await.is_err()
            {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = another(&mut self.resolvers) => {}
            }
        }
    }

    /// Asks both questions; returns how long to wait before the next time.
    async fn ask(&mut self, resolver: &TokioResolver) -> Duration {
        let (v4, v6) = tokio::join!(
            question(resolver, &self.name, RecordType::A),
            question(resolver, &self.name, RecordType::AAAA)
        );
        let mut holds = LONGEST;
        let mut failure = None;
        for (answer, known) in [(v4, &mut self.v4), (v6, &mut self.v6)] {
            match answer {
                Ok(answer) => {
                    holds = holds.min(answer.holds);
                    *known = Some(answer.addresses);
                }
                Err(error) => failure = Some(error),
            }
        }
        let Some(error) = failure else {
            if self.failures > 0 {
                tracing::info!(name = self.name, "DNS answers again");
            }
            self.failures = 0;
            return holds.clamp(SHORTEST, LONGEST);
        };
        // The other question may have been answered: neither TTL nor back-off may be exceeded.
        self.failed(&error.to_string()).min(holds.max(SHORTEST))
    }

    fn failed(&mut self, error: &str) -> Duration {
        if self.failures == 0 {
            let kept = self.addresses().is_some();
            tracing::warn!(name = self.name, error, last_good_answer_kept = kept, "DNS does not answer");
        }
        let wait = SHORTEST.saturating_mul(1 << self.failures.min(16)).min(LONGEST_BACK_OFF);
        self.failures = self.failures.saturating_add(1);
        wait
    }

    /// Returns the addresses of both families; `None` if nothing was ever answered.
    fn addresses(&self) -> Option<Vec<IpAddr>> {
        if self.v4.is_none() && self.v6.is_none() {
            return None;
        }
        let both: BTreeSet<IpAddr> = self.v4.iter().chain(&self.v6).flatten().copied().collect();
        // Nothing in one family says little while the other has not been answered.
        let complete = self.v4.is_some() && self.v6.is_some();
        (complete || !both.is_empty()).then(|| both.into_iter().collect())
    }
}

/// Waits for another resolver; for ever, if there will not be one.
async fn another(resolvers: &mut Resolvers) {
    if resolvers.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn question(resolver: &TokioResolver, name: &str, record: RecordType) -> Result<Answer, NetError> {
    match resolver.lookup(name, record).await {
        Ok(lookup) => {
            // Links of a chain of CNAMEs have no address.
            let addresses = lookup.answers().iter().filter_map(|record| record.data.ip_addr());
            // A v4-mapped AAAA record is the IPv4 address to a kernel, and 0.0.0.0 blocks in some filters.
            let usable = |ip: &IpAddr| !ip.is_unspecified() && !ip.is_multicast() && ip.to_canonical() == *ip;
            let holds = lookup.valid_until().saturating_duration_since(Instant::now());
            Ok(Answer { addresses: addresses.filter(usable).collect(), holds })
        }
        Err(NetError::Dns(DnsError::NoRecordsFound(nothing)))
            if matches!(nothing.response_code, ResponseCode::NoError | ResponseCode::NXDomain) =>
        {
            let holds = nothing.negative_ttl.map_or(NOTHING, |seconds| Duration::from_secs(seconds.into()));
            Ok(Answer { addresses: BTreeSet::new(), holds })
        }
        Err(error) => Err(error),
    }
}
