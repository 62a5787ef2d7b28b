//! Writes an explanation for people.

use super::{
    Answer,
    account::{Account, LegAccount},
    tls::{TlsAccount, first_of},
};
use crate::cli::{
    format::{count, percent},
    table::{draw, number, text},
};

/// Writes it.
pub(super) fn render(answer: &Answer, colours: bool, columns: Option<usize>) -> String {
    let mut parts: Vec<String> =
        answer.destinations.iter().map(|account| one(account, colours, columns).join("\n")).collect();
    if answer.errors > 0 {
        let noun = if answer.errors == 1 { "1 error" } else { &format!("{} errors", answer.errors) };
        parts.push(format!("the folder has {noun}: what is wrong is not in force, see `weir check`"));
    }
    parts.join("\n\n") + "\n"
}

fn one(account: &Account, colours: bool, columns: Option<usize>) -> Vec<String> {
    let bold = |text: &str| if colours { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() };
    let client = account.from.as_ref().map_or_else(|| "any client".to_owned(), |name| format!("a client of {name}"));
    let service = account.service.as_ref().map_or_else(String::new, |name| format!(" (Service {name})"));
    let mut lines = vec![
        bold(&format!("connections of {client} to {}{service}", account.to)),
        format!("  outcome  {}", account.outcome),
    ];
    lines.extend(account.tls.iter().flat_map(tls));
    if let Some(route) = &account.route {
        let scope = account.scope.as_deref().unwrap_or("everyone");
        let policy = account.policy.unwrap_or_default();
        lines.push(format!("  route    {route}, for {scope}, {policy}"));
    }
    for other in &account.others {
        lines.push(format!("  not      {}: {}", other.route, other.why));
    }
    for note in &account.notes {
        lines.push(format!("  note     {note}"));
    }
    if !account.legs.is_empty() {
        lines.push(String::new());
        lines.extend(legs(account, columns));
    }
    let when = match &account.tls {
        Some(TlsAccount { rejects: Some(_), .. }) => "for its ClientHello",
        Some(_) | None => "before a backendRef was chosen",
    };
    for (reason, n) in &account.rejected {
        lines.push(format!("  refused {when}: {} ({reason})", count(*n)));
    }
    lines
}

fn tls(tls: &TlsAccount) -> Vec<String> {
    let path = match &tls.why {
        None => "verify: direct, the kernel checks the server name".to_owned(),
        Some(why) => format!("accept: through the agent, because {why}"),
    };
    let hello = match &tls.server_name {
        None => format!("  names    {}; a client that names none is refused (--sni names one)", first_of(&tls.names)),
        Some(name) if tls.alpn.is_empty() => format!("  hello    server name {name}, no ALPN"),
        Some(name) => format!("  hello    server name {name}, ALPN {}", tls.alpn.join(", ")),
    };
    vec![format!("  path     {path}"), hello]
}

fn legs(account: &Account, columns: Option<usize>) -> Vec<String> {
    let titles = [
        text("BACKENDREF", 0),
        number("WEIGHT", 2),
        number("WANTED", 0),
        number("GOT", 0),
        number("CONNECTIONS", 1),
        text("", 0),
    ];
    let row = |leg: &LegAccount| {
        vec![
            leg.label.clone(),
            count(leg.weight.into()),
            percent(leg.wanted_share),
            percent(leg.share),
            format!("{} of {}", count(leg.chosen), count(account.tried)),
            leg.rejects.map_or_else(String::new, |reason| format!("refuses: {}", reason.replace('_', " "))),
        ]
    };
    let rows: Vec<Vec<String>> = account.legs.iter().map(row).collect();
    let table = draw(&titles, &rows, "  ", columns);
    let mut lines = Vec::new();
    for (i, line) in table.into_iter().enumerate() {
        lines.push(line);
        let Some(leg) = i.checked_sub(1).and_then(|i| account.legs.get(i)) else { continue };
        for (endpoint, n) in &leg.endpoints {
            lines.push(format!("    {endpoint}  {}", count(*n)));
        }
    }
    lines
}
