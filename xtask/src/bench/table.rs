//! Results as Markdown for people and as JSON for scripts.

use super::sample::Sample;
use serde::Serialize;
use std::{fmt::Write as _, fs, thread};

/// Tables, and the machine that they were measured on.
#[derive(Debug, Serialize)]
pub(super) struct Results {
    kernel: String,
    cpus: usize,
    tables: Vec<Table>,
}

/// One table.
#[derive(Debug, Serialize)]
pub(super) struct Table {
    title: String,
    columns: Vec<String>,
    rows: Vec<Row>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    cells: Vec<Cell>,
}

/// One figure.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Cell {
    /// A ratio: two decimals and the spread.
    Ratio(Sample),
    /// A figure with its spread, and how many decimals to show.
    Figure(Sample, #[serde(skip)] usize),
    /// One number, and how many decimals to show.
    Number(f64, #[serde(skip)] usize),
}

impl Results {
    /// Adds what the machine is.
    pub(super) fn of_this_machine(tables: Vec<Table>) -> Self {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
        Self { kernel, cpus: thread::available_parallelism().map_or(0, usize::from), tables }
    }

    /// Writes the tables in Markdown.
    pub(super) fn markdown(&self) -> String {
        let mut text = format!("Linux {}, {} CPUs\n", self.kernel, self.cpus);
        for table in &self.tables {
            table.write(&mut text);
        }
        text
    }
}

impl Table {
    /// Begins a table; the first column has the names of the rows.
    pub(super) fn new(title: &str, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        Self { title: title.to_owned(), columns, rows: Vec::new(), notes: Vec::new() }
    }

    /// Adds a row.
    pub(super) fn row(&mut self, name: &str, cells: Vec<Cell>) {
        self.rows.push(Row { name: name.to_owned(), cells });
    }

    /// Adds a sentence below the table.
    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    fn write(&self, text: &mut String) {
        let _ = write!(text, "\n### {}\n\n| {} |\n|---|", self.title, self.columns.join(" | "));
        text.push_str(&"---:|".repeat(self.columns.len().saturating_sub(1)));
        text.push('\n');
        for row in &self.rows {
            let cells: Vec<String> = row.cells.iter().map(Cell::text).collect();
            let _ = writeln!(text, "| {} | {} |", row.name, cells.join(" | "));
        }
        for note in &self.notes {
            let _ = write!(text, "\n{note}\n");
        }
    }
}

impl Cell {
    fn text(&self) -> String {
        match self {
            Self::Ratio(Sample { median, least, most }) => format!("**{median:.2}** ({least:.2}–{most:.2})"),
            Self::Figure(Sample { median, least, most }, places) => {
                format!("{median:.places$} ({least:.places$}–{most:.places$})")
            }
            Self::Number(value, places) => format!("{value:.places$}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_in_markdown() {
        let mut table = Table::new("Speed", &["path", "ratio", "µs"]);
        table.row("direct", vec![Cell::Ratio(Sample { median: 1.0, least: 0.9, most: 1.1 }), Cell::Number(30.26, 1)]);
        table.row("other", vec![Cell::Number(7.0, 0), Cell::Figure(Sample::of(&[2.0]), 0)]);
        table.note("Measured.");
        let mut text = String::new();
        table.write(&mut text);
        assert_eq!(
            text,
            "\n### Speed\n\n| path | ratio | µs |\n|---|---:|---:|\n| direct | **1.00** (0.90–1.10) | 30.3 |\n\
             | other | 7 | 2 (2–2) |\n\nMeasured.\n"
        );
    }
}
