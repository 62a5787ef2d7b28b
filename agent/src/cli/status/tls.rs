//! What `weir status` says of TLS: paths, server names and the acceptor.

use super::{Screen, Style, seconds};
use crate::{
    cli::{
        format::count,
        table::{draw, text},
    },
    view::{AcceptorView, NamespaceView, PathView, TlsView},
};

/// So many server names of a route, and routes of a frontend, are shown.
const SHOWN: usize = 3;

/// Says what a TLSRoute matches, in one line.
pub(super) fn matches(tls: &TlsView) -> String {
    let mut line = format!("  names {}", some_of(&tls.hostnames));
    if !tls.alpn.is_empty() {
        line += &format!("; ALPN {}", tls.alpn.join(" or "));
    }
    if let Some(limit) = tls.idle_timeout_seconds {
        line += &format!("; ended when idle for {}", seconds(limit));
    }
    line
}

/// Shortens a list of routes: one frontend may have hundreds of TLSRoutes.
pub(super) fn routes(list: &str) -> String {
    some_of(&list.split(", ").collect::<Vec<_>>())
}

/// Lists the first names, and says how many more there are.
fn some_of(names: &[impl AsRef<str>]) -> String {
    let shown = names.iter().take(SHOWN).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {} more", count(more as u64)),
    }
}

impl Screen<'_> {
    pub(super) fn paths(&self) -> Vec<String> {
        let mut rows = Vec::new();
        for frontend in &self.view.frontends {
            for PathView { namespace, path, why } in &frontend.paths {
                let clients = namespace.as_deref().unwrap_or("everyone");
                let how = match (path.as_str(), why) {
                    ("verify", _) => "verify: direct, the kernel checks the server name".to_owned(),
                    ("accept", Some(why)) => format!("accept: through the agent, because {why}"),
                    (path, _) => path.to_owned(),
                };
                rows.push(vec![frontend.address.clone(), clients.to_owned(), how]);
            }
        }
        if rows.is_empty() {
            return Vec::new();
        }
        let columns = [text("TLS FRONTEND", 0), text("CLIENTS", 0), text("PATH", 0)];
        self.headed(draw(&columns, &rows, "", None))
    }

    pub(super) fn acceptor(&self) -> Vec<String> {
        let acceptor = &self.view.acceptor;
        if *acceptor == AcceptorView::default() {
            return Vec::new();
        }
        let (listening, failed): (Vec<_>, Vec<_>) =
            acceptor.namespaces.iter().partition(|namespace| namespace.listening && namespace.problem.is_none());
        let names: Vec<&str> = listening.iter().map(|namespace| namespace.name.as_str()).collect();
        let mut lines = vec![
            format!(
                "  network namespaces listening: {}",
                if names.is_empty() { "none".to_owned() } else { some_of(&names) }
            ),
            format!(
                "  connections: {} open, {} so far, {} tried a second endpoint",
                count(acceptor.open_connections),
                count(acceptor.accepted),
                count(acceptor.retried)
            ),
        ];
        let (hellos, bytes) = (count(acceptor.unfinished_hellos), count(acceptor.hello_bytes));
        let others = [
            (acceptor.unfinished_hellos, format!("unfinished ClientHellos: {hellos}, {bytes} bytes together")),
            (
                acceptor.refused_strangers,
                format!("closed because dialled directly: {}", count(acceptor.refused_strangers)),
            ),
            (acceptor.aborted, format!("ended on the verify path: {}", count(acceptor.aborted))),
        ];
        lines.extend(others.into_iter().filter(|(n, _)| *n > 0).map(|(_, line)| format!("  {line}")));
        if acceptor.not_aborted > 0 {
            let line = format!("  could not be ended on the verify path: {}", count(acceptor.not_aborted));
            lines.push(self.paint(Style::Bad, &line));
        }
        lines.extend(failed.into_iter().map(|namespace| self.failed(namespace)));
        self.section("ACCEPTOR", lines)
    }

    fn failed(&self, NamespaceView { name, cookie, problem, .. }: &NamespaceView) -> String {
        let why = problem.as_deref().unwrap_or("no reason is known");
        self.paint(Style::Bad, &format!("  NOT LISTENING in {name} (cookie {cookie}): {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{View, sample, sample_tls};

    #[test]
    fn each_path_says_why_and_the_acceptor_where_it_listens() {
        let view = View::new(&sample_tls::published(), &sample::snapshot());
        let screen = Screen { view: &view, now: 1_700_000_360, colours: false, columns: None };
        insta::assert_snapshot!(screen.render());
    }

    #[test]
    fn of_many_routes_the_first_three_are_named() {
        assert_eq!(routes("TLSRoute a/b, TLSRoute a/c, TLSRoute a/d"), "TLSRoute a/b, TLSRoute a/c, TLSRoute a/d");
        assert_eq!(routes("a, b, c, d, e"), "a, b, c and 2 more");
        assert_eq!(routes("none: left alone"), "none: left alone");
    }

    #[test]
    fn without_tls_routes_there_is_nothing_of_tls() {
        let view = View::new(&sample::published(), &sample::snapshot());
        let screen = Screen { view: &view, now: 1_700_000_360, colours: false, columns: None };
        assert!(screen.paths().is_empty() && screen.acceptor().is_empty());
    }
}
