//! Reading and translating never fail: on the fuzz corpus, on cut and changed files, on odd objects.

use proptest::prelude::*;
use std::{fs, path::Path, sync::LazyLock};
use weir::{
    ir::Scope,
    provider::file::{read_dir, read_text},
    resources::Resources,
    translate::{ConditionType, translate},
};
use weir_common::hello::{MAX_MATCHED_NAME, check_name};

fn folder(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
}

fn texts(name: &str) -> Vec<String> {
    let mut paths: Vec<_> = fs::read_dir(folder(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let inputs = paths.into_iter().filter(|path| path.is_file() && !path.to_string_lossy().ends_with(".out.yaml"));
    inputs.map(|path| fs::read_to_string(path).unwrap()).collect()
}

/// Everything that the golden files hold, in one.
static ALL: LazyLock<Resources> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    for (i, text) in texts("translate").into_iter().enumerate() {
        // Each file in a name of its own, or the files would define the same objects.
        let text = text.replace("namespace: shop", &format!("namespace: shop{i}"));
        fs::write(dir.path().join(format!("{i}.yaml")), text).unwrap();
    }
    read_dir(dir.path()).resources
});

static GOLDEN: LazyLock<Vec<String>> = LazyLock::new(|| texts("translate"));

#[test]
fn the_fuzz_corpus_is_read() {
    let corpus = texts("fuzz/yaml");
    assert!(!corpus.is_empty());
    for text in corpus {
        assert!(!read_text(&text).is_empty(), "nothing is said of\n{text}");
    }
}

#[test]
fn a_file_cut_anywhere_is_read() {
    for text in texts("translate") {
        for (at, _) in text.char_indices().step_by(7) {
            let _ = read_text(&text[..at]);
        }
    }
}

proptest! {
    #[test]
    fn a_file_with_changed_bytes_is_read(
        which: prop::sample::Index,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<char>()), 1..8),
    ) {
        let mut letters: Vec<char> = which.get(GOLDEN.as_slice()).chars().collect();
        for (at, letter) in changes {
            let at = at.index(letters.len());
            letters[at] = letter;
        }
        let _ = read_text(&letters.into_iter().collect::<String>());
    }

    #[test]
    fn whatever_is_missing_or_out_of_range_translates_and_every_parent_is_judged(
        gone in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        port: i64,
        weight: i64,
        number: i32,
        hostname: String,
        annotation: String,
    ) {
        let mut resources = ALL.clone();
        for index in gone {
            let services: Vec<_> = resources.services.keys().cloned().collect();
            if !services.is_empty() {
                resources.services.remove(index.get(&services));
            }
            let slices: Vec<_> = resources.endpoint_slices.keys().cloned().collect();
            if !slices.is_empty() {
                resources.endpoint_slices.remove(index.get(&slices));
            }
        }
        for (i, route) in resources.tcp_routes.values_mut().enumerate() {
            let route = std::sync::Arc::make_mut(route);
            match i % 4 {
                0 => route.spec.rules.clear(),
                1 => route.spec.rules[0].backend_refs[0].weight = Some(weight),
                2 => route.spec.rules[0].backend_refs[0].port = Some(port),
                _ => {}
            }
        }
        for (i, route) in resources.tls_routes.values_mut().enumerate() {
            let route = std::sync::Arc::make_mut(route);
            let annotations = route.metadata.annotations.get_or_insert_default();
            match i % 6 {
                0 => route.spec.hostnames.clear(),
                1 => route.spec.hostnames.push(hostname.clone()),
                2 => route.spec.rules[0].backend_refs[0].weight = Some(weight),
                3 => drop(annotations.insert("weir.dev/alpn".to_owned(), annotation.clone())),
                4 => drop(annotations.insert("weir.dev/idle-timeout".to_owned(), annotation.clone())),
                _ => {}
            }
        }
        for service in resources.services.values_mut().step_by(3) {
            let spec = std::sync::Arc::make_mut(service).spec.get_or_insert_default();
            spec.ports.get_or_insert_default().iter_mut().for_each(|port| port.port = number);
            spec.cluster_ips.get_or_insert_default().push("no address".to_owned());
        }
        let translation = translate(&resources);
        for frontend in translation.desired.frontends.values() {
            for scope in frontend.scopes() {
                let tls = matches!(scope, Scope::Tls(_));
                prop_assert!(!scope.routes().is_empty());
                for route in scope.routes() {
                    let found = translation.desired.routes[route].tls.as_ref();
                    prop_assert_eq!(found.is_some(), tls);
                    for name in found.into_iter().flat_map(|found| &found.hostnames) {
                        let name = name.strip_prefix("*.").unwrap_or(name);
                        prop_assert!(check_name(name.as_bytes()).is_ok() && name.len() <= MAX_MATCHED_NAME);
                    }
                }
            }
            for route in frontend.routes() {
                let legs = &translation.desired.routes[route].legs;
                prop_assert!((1..=16).contains(&legs.len()));
                for leg in legs {
                    prop_assert!(leg.weight <= 1_000_000);
                    if let Ok(backend) = &leg.target {
                        prop_assert!(translation.desired.backends.contains_key(backend));
                    }
                }
            }
        }
        for parent in translation.objects.iter().flat_map(|object| &object.parents) {
            let kinds: Vec<ConditionType> = parent.conditions.iter().map(|condition| condition.kind).collect();
            prop_assert_eq!(&kinds[..2], &[ConditionType::Accepted, ConditionType::ResolvedRefs]);
        }
    }
}
