//! The part of the ClientHello: which route a server name selects, and on which path.

use super::{Hello, account::World};
use crate::{
    compile::{host_env::HostEnv, name_outcome, namespace_id, path::Path, tables::Tables},
    ir::{RouteKey, Scope},
};
use serde::Serialize;
use weir_common::{
    abi::{
        ids::{SplitId, StatsId},
        tables::{FrontendKey, Target, TargetKind},
        tls::Dial,
    },
    decide::{Accept, Reject, Verdict, dial},
    hello::Matched,
    reason::Reason,
};

/// So many server names are listed.
const SHOWN: usize = 5;

/// Lists the first names, and says how many more there are.
pub(super) fn first_of(names: &[String]) -> String {
    let shown = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN { format!("{shown} and {} more", names.len() - SHOWN) } else { shown }
}

/// What the ClientHello decides.
#[derive(Clone, Debug, Serialize)]
pub(super) struct TlsAccount {
    /// `verify` or `accept`.
    pub path: &'static str,
    /// Why it is not `verify`.
    pub why: Option<String>,
    /// Server names that routes match, in order of the routes' precedence.
    pub names: Vec<String>,
    /// The name that was asked for.
    pub server_name: Option<String>,
    /// The ALPN protocols that were offered.
    pub alpn: Vec<String>,
    /// The reason, if no route matches.
    pub rejects: Option<&'static str>,
}

/// The TLSRoutes of one client's scope, and what a hello selects among them.
#[derive(Debug)]
pub(super) struct ByName<'a> {
    tables: &'a Tables,
    target: Target,
    path: &'a Path,
    routes: &'a [RouteKey],
    /// The split and route of the name.
    pub outcome: Result<Matched, Reason>,
}

impl<'a> World<'a> {
    /// Returns what the hello selects; `None` if no TLSRoute is in force for the client.
    pub(super) fn by_name(
        &self,
        key: &FrontendKey,
        from: Option<&str>,
        scope: Option<&'a Scope>,
        hello: &Hello,
    ) -> Option<ByName<'a>> {
        let Some(Scope::Tls(routes)) = scope else { return None };
        let compiled = self.compiled;
        let namespace = from.map(namespace_id);
        let target = compiled.tables.scope_target(key, namespace.unwrap_or_default())?;
        let paths = &compiled.names.paths;
        // Without a path of its own the namespace has the one of everyone.
        let path = paths.get(&(*key, namespace)).or_else(|| paths.get(&(*key, None)))?;
        let outcome = name_outcome(&compiled.tables, &target, hello.sni.as_deref(), &hello.alpn);
        Some(ByName { tables: &compiled.tables, target, path, routes, outcome })
    }

    /// Returns the route that the hello selects.
    pub(super) fn selected(&self, by_name: &ByName<'_>) -> Option<&'a RouteKey> {
        Some(&self.compiled.names.stats.get(&by_name.outcome.ok()?.route_stats)?.route)
    }

    /// Gives the account of what the hello decides.
    pub(super) fn tls(&self, by_name: &ByName<'_>, hello: &Hello) -> TlsAccount {
        let mut names: Vec<String> = Vec::new();
        for name in by_name.routes.iter().flat_map(|route| self.hostnames(route)) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        TlsAccount {
            path: by_name.path.name(),
            why: by_name.path.why().map(ToString::to_string),
            names,
            server_name: hello.sni.clone(),
            alpn: hello.alpn.clone(),
            rejects: by_name.outcome.err().map(Reason::label),
        }
    }

    /// Says why another TLSRoute of the same clients does not decide.
    pub(super) fn other_names(&self, route: &RouteKey) -> String {
        let tls = self.translation.desired.routes.get(route).and_then(|route| route.tls.as_ref());
        let alpn = tls.filter(|tls| !tls.alpn.is_empty()).map(|tls| format!(" with ALPN {}", tls.alpn.join(" or ")));
        format!("it is for {}{}", first_of(self.hostnames(route)), alpn.unwrap_or_default())
    }

    pub(super) fn hostnames(&self, route: &RouteKey) -> &'a [String] {
        let tls = self.translation.desired.routes.get(route).and_then(|route| route.tls.as_ref());
        tls.map_or(&[], |tls| &tls.hostnames)
    }

    /// Returns what else is worth knowing of a route on its path, of which some connections are refused.
    pub(super) fn tls_notes(&self, by_name: &ByName<'_>, route: Option<&RouteKey>, refused: bool) -> Vec<String> {
        let Some(route) = route.filter(|_| *by_name.path == Path::Verify) else { return Vec::new() };
        let mut notes = Vec::new();
        let tls = self.translation.desired.routes.get(route).and_then(|route| route.tls.as_ref());
        if tls.is_some_and(|tls| tls.idle_timeout.is_some()) {
            notes.push(format!(
                "weir.dev/idle-timeout of {route} has no effect: the agent does not carry the connections"
            ));
        }
        if let Some(first) = by_name.routes.first()
            && first != route
            && refused
        {
            notes.push(format!(
                "a connection that is refused at connect() is counted for {first}: no name is known yet"
            ));
        }
        notes
    }
}

impl ByName<'_> {
    /// Whether the agent carries the connections.
    pub(super) fn is_accepted(&self) -> bool {
        *self.path != Path::Verify
    }

    /// Returns what the acceptor does with a connection.
    pub(super) fn dialled<'e>(&self, env: &'e HostEnv<'e>, accept: &Accept) -> Verdict<'e> {
        match self.outcome {
            Ok(matched) => dial(env, &Dial::split(matched.split)),
            Err(reason) => Verdict::Reject(Reject { stats: accept.route_stats, reason }),
        }
    }

    /// Returns the counters of a leg as the name's own route has it: verified connections choose among
    /// the legs of the scope's first route.
    pub(super) fn own_leg(&self, leg: StatsId) -> StatsId {
        let (TargetKind::Verify(first, _), Ok(matched)) = (self.target.kind(), self.outcome) else { return leg };
        let at = self.stats(first).position(|stats| stats == leg);
        at.and_then(|at| self.stats(matched.split).nth(at)).unwrap_or(leg)
    }

    /// Returns where and why the kernel ends a connection that it has let through to a backend.
    pub(super) fn ended(&self) -> Option<(StatsId, Reason)> {
        self.outcome.err().map(|reason| (self.target.route_stats, reason))
    }

    fn stats(&self, split: SplitId) -> impl Iterator<Item = StatsId> {
        self.tables.splits.get(&split).into_iter().flat_map(|split| split.legs.iter().map(|leg| leg.stats))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Answer, text};
    use super::*;
    use crate::{
        compile::{FoundClients, compile, path::Capabilities},
        ir::Desired,
        resources::Resources,
        translate::Translation,
        view::sample_tls,
    };

    /// Explains 1,000 connections to the frontend of the sample.
    fn explain(from: Option<&str>, sni: Option<&str>, alpn: &[&str]) -> Answer {
        explain_desired(sample_tls::desired(), from, sni, alpn)
    }

    fn explain_desired(desired: Desired, from: Option<&str>, sni: Option<&str>, alpn: &[&str]) -> Answer {
        let translation = Translation { desired, objects: Vec::new() };
        let compiled = compile(&translation.desired, &FoundClients::new(), "explain", &Capabilities::default());
        let resources = Resources::default();
        let world = World { resources: &resources, translation: &translation, compiled: &compiled };
        let alpn = alpn.iter().map(ToString::to_string).collect();
        let hello = Hello { sni: sni.map(str::to_owned), alpn };
        Answer { destinations: vec![world.account(sample_tls::ADDRESS, 443, from, &hello, 1_000)], errors: 0 }
    }

    fn render(answer: &Answer) -> String {
        text::render(answer, false, None)
    }

    #[test]
    fn without_a_server_name_the_names_are_listed_and_the_client_is_rejected() {
        insta::assert_snapshot!(render(&explain(None, None, &[])));
    }

    #[test]
    fn a_verified_name_shows_its_own_route_with_the_common_shares() {
        insta::assert_snapshot!(render(&explain(None, Some("PAY.example"), &[])));
    }

    #[test]
    fn what_is_refused_before_the_name_is_known_is_counted_for_the_first_route() {
        let mut desired = sample_tls::desired();
        for route in desired.routes.values_mut().filter(|route| route.legs.len() > 1) {
            route.legs[1].target = Err(Reason::BackendNotFound);
        }
        let answer = explain_desired(desired, None, Some("pay.example"), &[]);
        let account = &answer.destinations[0];
        assert!(account.notes.iter().any(|note| note.contains("is counted for TLSRoute shop/blog")), "{account:?}");
        assert_eq!((account.legs[1].chosen, account.legs[1].rejects), (100, Some("backend_not_found")));
    }

    #[test]
    fn an_idle_timeout_has_no_effect_on_a_verified_route() {
        let mut desired = sample_tls::desired();
        for tls in desired.routes.values_mut().filter_map(|route| route.tls.as_mut()) {
            tls.idle_timeout = Some(std::time::Duration::from_secs(30));
        }
        let notes = |from, sni| explain_desired(desired.clone(), from, Some(sni), &[]).destinations[0].notes.join("\n");
        assert!(notes(None, "pay.example").contains("weir.dev/idle-timeout of TLSRoute shop/shop has no effect"));
        assert!(!notes(Some("team"), "api.example").contains("idle-timeout"));
    }

    #[test]
    fn alpn_selects_among_the_routes_of_a_name() {
        insta::assert_snapshot!(render(&explain(Some("team"), Some("api.example"), &["h2"])));
        let answer = explain(Some("team"), Some("api.example"), &["spdy/3"]);
        assert_eq!(answer.destinations[0].route.as_deref(), Some("TLSRoute team/rest"));
    }

    #[test]
    fn a_name_that_no_route_has_is_rejected_and_says_when() {
        let verified = render(&explain(None, Some("other.example"), &[]));
        assert!(verified.contains("ended by the kernel as the ClientHello leaves: no TLSRoute has this"), "{verified}");
        let accepted = render(&explain(Some("team"), Some("other"), &[]));
        assert!(accepted.contains("closed by the agent after the ClientHello: no TLSRoute has this"), "{accepted}");
    }
}
