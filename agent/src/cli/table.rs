//! Tables on the terminal: aligned columns that give way when the terminal is narrow.

use super::format::shorten;

/// How a column behaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    /// The heading.
    pub title: &'static str,
    /// Numbers stand at the right, text at the left.
    pub right: bool,
    /// Columns of the highest rank go first when there is no room; rank 0 never goes.
    pub rank: u8,
}

/// A column of text.
pub(super) const fn text(title: &'static str, rank: u8) -> Column {
    Column { title, right: false, rank }
}

/// A column of numbers.
pub(super) const fn number(title: &'static str, rank: u8) -> Column {
    Column { title, right: true, rank }
}

const GAP: usize = 2;
/// The first column is not made narrower than this.
const LEAST: usize = 8;

/// Draws a table, one line a row, heading first, each line behind `indent`.
pub(super) fn draw(columns: &[Column], rows: &[Vec<String>], indent: &str, width: Option<usize>) -> Vec<String> {
    let mut widths: Vec<usize> = columns.iter().map(|column| column.title.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    if let Some(room) = width {
        give_way(columns, &mut widths, &mut shown, room.saturating_sub(indent.chars().count()));
    }
    let titles: Vec<String> = columns.iter().map(|column| column.title.to_owned()).collect();
    let lines = std::iter::once(&titles).chain(rows);
    lines.map(|row| line(columns, &widths, &shown, row, indent)).collect()
}

fn needed(widths: &[usize], shown: &[usize]) -> usize {
    shown.iter().map(|&i| widths[i] + GAP).sum::<usize>().saturating_sub(GAP)
}

fn give_way(columns: &[Column], widths: &mut [usize], shown: &mut Vec<usize>, room: usize) {
    // A long name first loses its middle, then columns go.
    while needed(widths, shown) > room {
        let over = needed(widths, shown) - room;
        if widths[0] > LEAST.max(24) {
            widths[0] = widths[0].saturating_sub(over).max(24);
            continue;
        }
        let last = shown.iter().copied().max_by_key(|&i| (columns[i].rank, i));
        match last {
            Some(i) if columns[i].rank > 0 => shown.retain(|&j| j != i),
            Some(_) | None => {
                widths[0] = widths[0].saturating_sub(over).max(LEAST);
                return;
            }
        }
    }
}

fn line(columns: &[Column], widths: &[usize], shown: &[usize], row: &[String], indent: &str) -> String {
    let mut out = indent.to_owned();
    for (place, &i) in shown.iter().enumerate() {
        let Some(cell) = row.get(i) else { continue };
        let cell = shorten(cell, widths[i]);
        let blank = " ".repeat(widths[i].saturating_sub(cell.chars().count()));
        if place > 0 {
            out += &" ".repeat(GAP);
        }
        out += &if columns[i].right { blank + &cell } else { cell + &blank };
    }
    out.truncate(out.trim_end().len());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] = [text("NAME", 0), number("COUNT", 1), text("STATE", 0)];

    fn rows() -> Vec<Vec<String>> {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        vec![row(["a", "1", "well"]), row(["a-much-longer-name-of-something", "1,000", "ejected"])]
    }

    #[test]
    fn columns_are_aligned_and_lines_end_without_blanks() {
        let lines = draw(&COLUMNS, &rows(), "  ", None);
        assert_eq!(
            lines,
            [
                "  NAME                             COUNT  STATE",
                "  a                                    1  well",
                "  a-much-longer-name-of-something  1,000  ejected",
            ]
        );
    }

    #[test]
    fn a_narrow_terminal_shortens_the_name_then_drops_columns() {
        let lines = draw(&COLUMNS, &rows(), "  ", Some(44));
        assert_eq!(lines[2], "  a-much-longer…of-something  1,000  ejected");
        let lines = draw(&COLUMNS, &rows(), "  ", Some(36));
        assert_eq!(lines[0], "  NAME                      STATE");
        for width in 20..60 {
            let lines = draw(&COLUMNS, &rows(), "", Some(width));
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{width}: {lines:#?}");
        }
    }
}
