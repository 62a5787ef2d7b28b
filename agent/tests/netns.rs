//! The registry of network namespaces, on namespaces of its own. Needs root.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};
use tokio::time::timeout;
use weir::netns::{Error, Namespace as Listed, Options, Origin, Registry};
use weir_tests::{namespace::Namespace, wait::SOON};

fn is_root() -> bool {
    weir_tests::privilege::is_root("making network namespaces")
}

/// A registry that looks at once when told, and else hardly ever.
fn registry(rescan: Duration) -> Arc<Registry> {
    Registry::new(Options { rescan, ..Options::default() }).expect("a registry")
}

fn named(registry: &Registry, name: &str) -> Option<Listed> {
    registry.list().into_iter().find(|listed| listed.origin == Origin::Name(name.to_owned()))
}

/// Waits until a look has made the condition true.
async fn until<T>(registry: &Registry, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let mut looks = registry.looks();
    let wait = async {
        loop {
            looks.mark_unchanged();
            if let Some(answer) = ask() {
                return answer;
            }
            looks.changed().await.expect("a registry");
        }
    };
    timeout(SOON, wait).await.unwrap_or_else(|_| panic!("{what}: not within {SOON:?}"))
}

fn inode_here() -> u64 {
    fs::metadata("/proc/thread-self/ns/net").expect("procfs").ino()
}

#[tokio::test]
async fn the_host_is_a_namespace_like_the_others() {
    let registry = registry(SOON);
    registry.look().await.unwrap();
    let host = registry.list().into_iter().find(|listed| listed.origin == Origin::Host).expect("the host");
    assert_eq!(host.inode, inode_here());
    assert_eq!(registry.enter(host.cookie.unwrap(), inode_here).await.unwrap(), host.inode);
    assert!(registry.looks().borrow().processes > 0);
}

#[tokio::test]
async fn a_named_namespace_is_found_when_it_appears_and_let_go_when_it_vanishes() {
    if !is_root() {
        return;
    }
    // Names are found by the watch: the next regular look comes too late for this test.
    let registry = registry(SOON * 10);
    let looking = tokio::spawn({
        let registry = Arc::clone(&registry);
        async move { registry.run().await }
    });
    // The watch needs the folder, which the first namespace of a machine makes.
    let first = Namespace::new("first").unwrap();
    registry.set_needed(true);
    until(&registry, "the first name", || named(&registry, first.name())).await;
    let second = Namespace::new("second").unwrap();
    let found = until(&registry, "the second name", || named(&registry, second.name())).await;
    let inside = second.run(inode_here);
    assert_eq!(found.inode, inside);
    let cookie = found.cookie.unwrap();
    assert_eq!(registry.enter(cookie, inode_here).await.unwrap(), inside);
    let name = second.name().to_owned();
    drop(second);
    until(&registry, "the name's end", || named(&registry, &name).is_none().then_some(())).await;
    assert!(matches!(registry.enter(cookie, || ()).await, Err(Error::Unknown(unknown)) if unknown == cookie));
    looking.abort();
}

#[tokio::test]
async fn looks_begin_when_they_are_needed_and_again() {
    let registry = registry(Duration::from_millis(1));
    let looking = tokio::spawn({
        let registry = Arc::clone(&registry);
        async move { registry.run().await }
    });
    registry.set_needed(true);
    until(&registry, "a look", || (registry.looks().borrow().times > 1).then_some(())).await;
    registry.set_needed(false);
    let after = registry.looks().borrow().times;
    assert!(!registry.list().is_empty());
    registry.set_needed(true);
    until(&registry, "looks again", || (registry.looks().borrow().times > after).then_some(())).await;
    looking.abort();
}

/// A process in a network namespace without a name.
struct Unnamed(Child);

impl Unnamed {
    fn start() -> Self {
        let child = Command::new("unshare")
            .args(["--net", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("unshare (util-linux)");
        Self(child)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    /// The inode, once it is no longer that of its parent.
    fn inode(&self) -> u64 {
        weir_tests::wait::until("a new namespace", SOON, || {
            let inode = fs::metadata(format!("/proc/{}/ns/net", self.pid())).ok()?.ino();
            (inode != inode_here()).then_some(inode)
        })
        .unwrap()
    }
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_namespace_is_found_from_a_process_at_once_when_asked_and_let_go_with_its_last_one() {
    if !is_root() {
        return;
    }
    let registry = registry(SOON);
    let process = Unnamed::start();
    let inode = process.inode();
    registry.look_at(process.pid()).await;
    let find = || registry.list().into_iter().find(|listed| listed.inode == inode);
    let found = find().expect("the process's namespace");
    assert_eq!(found.origin, Origin::Process(process.pid()));
    assert_eq!(registry.enter(found.cookie.clone().unwrap(), inode_here).await.unwrap(), inode);
    registry.look().await.unwrap();
    assert_eq!(find(), Some(found), "a look at all finds the same");
    drop(process);
    registry.look().await.unwrap();
    assert_eq!(find(), None);
}
