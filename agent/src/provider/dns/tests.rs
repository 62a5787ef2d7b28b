//! Against a small DNS server that each test scripts.

use super::*;
use hickory_resolver::{
    config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig},
    net::runtime::TokioRuntimeProvider,
    proto::{
        op::{Message, MessageType, ResponseCode},
        rr::{RData, Record, RecordType},
    },
};
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Mutex,
    time::Duration,
};
use tokio::net::UdpSocket;

const PATIENCE: Duration = Duration::from_secs(20);

/// What the server says about a name and type that it knows.
#[derive(Clone)]
enum Zone {
    Addresses(Vec<IpAddr>),
    Code(ResponseCode),
    Silence,
}

/// Knows some names and types; there is nothing for the others.
#[derive(Clone, Default)]
struct Script(Arc<Mutex<BTreeMap<(String, RecordType), Zone>>>);

impl Script {
    fn set(&self, name: &str, record: RecordType, zone: Zone) {
        self.0.lock().unwrap().insert((format!("{name}."), record), zone);
    }

    fn addresses(&self, name: &str, addresses: &[&str]) {
        let addresses: Vec<IpAddr> = addresses.iter().map(|text| text.parse().unwrap()).collect();
        let (v4, v6) = addresses.into_iter().partition(IpAddr::is_ipv4);
        self.set(name, RecordType::A, Zone::Addresses(v4));
        self.set(name, RecordType::AAAA, Zone::Addresses(v6));
    }

    fn answer(&self, query: &Message) -> Option<Message> {
        let question = &query.queries[0];
        let key = (question.name().to_string(), question.query_type());
        let zone = self.0.lock().unwrap().get(&key).cloned().unwrap_or(Zone::Addresses(Vec::new()));
        let mut answer = Message::new(query.metadata.id, MessageType::Response, query.metadata.op_code);
        answer.metadata.authoritative = true;
        answer.add_query(question.clone());
        match zone {
            Zone::Silence => return None,
            Zone::Code(code) => answer.metadata.response_code = code,
            Zone::Addresses(addresses) => {
                answer.add_answers(
                    addresses
                        .into_iter()
                        .map(|address| Record::from_rdata(question.name().clone(), 1, RData::from(address))),
                );
            }
        }
        Some(answer)
    }
}

struct Server {
    script: Script,
    task: JoinHandle<()>,
    address: SocketAddr,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve() -> Server {
    let script = Script::default();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = socket.local_addr().unwrap();
    let answers = script.clone();
    let task = tokio::spawn(async move {
        let mut buffer = [0; 4096];
        loop {
            let (len, client) = socket.recv_from(&mut buffer).await.unwrap();
            let query = Message::from_vec(&buffer[..len]).unwrap();
            if let Some(answer) = answers.answer(&query) {
                socket.send_to(&answer.to_vec().unwrap(), client).await.unwrap();
            }
        }
    });
    Server { script, task, address }
}

fn resolver(server: SocketAddr) -> TokioResolver {
    let mut connection = ConnectionConfig::udp();
    connection.port = server.port();
    let servers = vec![NameServerConfig::new(server.ip(), true, vec![connection])];
    let config = ResolverConfig::from_parts(None, Vec::new(), servers);
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    let options = builder.options_mut();
    options.cache_size = 0;
    options.timeout = Duration::from_millis(200);
    options.attempts = 0;
    options.use_hosts_file = ResolveHosts::Never;
    builder.build().unwrap()
}

async fn started() -> (Server, Dns, watch::Receiver<Answers>) {
    let server = serve().await;
    let (dns, answers) = Dns::start_with(resolver(server.address));
    (server, dns, answers)
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn ips(addresses: &[&str]) -> Vec<IpAddr> {
    addresses.iter().map(|text| text.parse().unwrap()).collect()
}

async fn wait_for(answers: &mut watch::Receiver<Answers>, wanted: impl Fn(&Answers) -> bool) -> Answers {
    match tokio::time::timeout(PATIENCE, answers.wait_for(|answers| wanted(answers))).await {
        Ok(found) => found.unwrap().clone(),
        Err(_) => panic!("the wanted answers never came"),
    }
}

#[tokio::test]
async fn both_families_are_asked_for() {
    let (server, dns, mut answers) = started().await;
    server.script.addresses("db.example", &["10.0.0.2", "10.0.0.1", "fd00::1"]);
    dns.set_names(names(&["db.example"]));
    let found = wait_for(&mut answers, |answers| !answers.is_empty()).await;
    assert_eq!(found["db.example"], ips(&["10.0.0.1", "10.0.0.2", "fd00::1"]));
}

#[tokio::test]
async fn a_changed_answer_is_seen_after_the_ttl() {
    let (server, dns, mut answers) = started().await;
    server.script.addresses("db.example", &["10.0.0.1"]);
    dns.set_names(names(&["db.example"]));
    wait_for(&mut answers, |answers| answers.get("db.example") == Some(&ips(&["10.0.0.1"]))).await;
    server.script.addresses("db.example", &["10.0.0.9"]);
    wait_for(&mut answers, |answers| answers.get("db.example") == Some(&ips(&["10.0.0.9"]))).await;
}

#[tokio::test]
async fn the_last_good_answer_stays_while_dns_fails() {
    let (server, dns, mut answers) = started().await;
    server.script.addresses("db.example", &["10.0.0.1"]);
    server.script.addresses("canary.example", &["10.0.0.5"]);
    dns.set_names(names(&["canary.example", "db.example"]));
    wait_for(&mut answers, |answers| answers.len() == 2).await;
    server.script.set("db.example", RecordType::A, Zone::Code(ResponseCode::ServFail));
    server.script.set("db.example", RecordType::AAAA, Zone::Silence);
    // Two rounds of another name show that time has passed and that it is not held up.
    for address in ["10.0.0.6", "10.0.0.7"] {
        server.script.addresses("canary.example", &[address]);
        let found = wait_for(&mut answers, |answers| answers["canary.example"] == ips(&[address])).await;
        assert_eq!(found["db.example"], ips(&["10.0.0.1"]));
    }
    // And it recovers.
    server.script.addresses("db.example", &["10.0.0.2"]);
    wait_for(&mut answers, |answers| answers["db.example"] == ips(&["10.0.0.2"])).await;
}

#[tokio::test]
async fn a_failure_in_one_family_leaves_the_other_alone() {
    let (server, dns, mut answers) = started().await;
    server.script.addresses("db.example", &["10.0.0.1"]);
    server.script.set("db.example", RecordType::AAAA, Zone::Code(ResponseCode::ServFail));
    dns.set_names(names(&["db.example"]));
    wait_for(&mut answers, |answers| answers.get("db.example") == Some(&ips(&["10.0.0.1"]))).await;
}

#[tokio::test]
async fn the_answer_that_there_is_nothing_is_an_answer() {
    let (server, dns, mut answers) = started().await;
    server.script.set("gone.example", RecordType::A, Zone::Code(ResponseCode::NXDomain));
    server.script.set("gone.example", RecordType::AAAA, Zone::Code(ResponseCode::NXDomain));
    dns.set_names(names(&["gone.example"]));
    wait_for(&mut answers, |answers| answers.get("gone.example") == Some(&Vec::new())).await;
}

#[tokio::test]
async fn a_name_that_is_not_wanted_any_more_is_forgotten() {
    let (server, dns, mut answers) = started().await;
    server.script.addresses("a.example", &["10.0.0.1"]);
    server.script.addresses("b.example", &["10.0.0.2"]);
    dns.set_names(names(&["a.example", "b.example"]));
    wait_for(&mut answers, |answers| answers.len() == 2).await;
    dns.set_names(names(&["b.example"]));
    let found = wait_for(&mut answers, |answers| answers.len() == 1).await;
    assert!(found.contains_key("b.example"));
}
