//! Cuts a file into documents by itself, so that a broken document cannot hide the others.

/// One YAML document of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Document<'a> {
    /// The line of the file at which `text` begins, from 0.
    pub(super) first_line: usize,
    pub(super) text: &'a str,
}

/// Splits at lines that begin with `---` or are `...`; leaves out documents that hold nothing.
///
/// YAML reserves both marks at the start of a line, even inside of block scalars, so no parser is
/// needed. What follows `---` on its line belongs to the document.
pub(super) fn documents(text: &str) -> Vec<Document<'_>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut documents = Vec::new();
    let mut start = 0;
    let mut start_line = 0;
    let mut at = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let content = line.trim_end();
        let rest = content.strip_prefix("---");
        let is_start = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']));
        if is_start || content == "..." {
            documents.push(Document { first_line: start_line, text: &text[start..at] });
            start = at + 3;
            start_line = number;
        }
        at += line.len();
    }
    documents.push(Document { first_line: start_line, text: &text[start..] });
    documents.retain(|document| holds_something(document.text));
    documents
}

fn holds_something(text: &str) -> bool {
    // Directives stand before the mark that starts their document.
    text.lines().any(|line| !matches!(line.trim_start().chars().next(), None | Some('#')) && !line.starts_with('%'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<(usize, &str)> {
        documents(text).into_iter().map(|document| (document.first_line, document.text)).collect()
    }

    #[test]
    fn documents_are_split_at_marks() {
        assert_eq!(split("a: 1\n---\nb: 2\n"), [(0, "a: 1\n"), (1, "\nb: 2\n")]);
        assert_eq!(split("a: 1\r\n---\r\nb: 2"), [(0, "a: 1\r\n"), (1, "\r\nb: 2")]);
        assert_eq!(split("a: 1\n...\n---\nb: 2\n"), [(0, "a: 1\n"), (2, "\nb: 2\n")]);
        assert_eq!(split("--- {a: 1}\n--- # two\nb: 2\n"), [(0, " {a: 1}\n"), (1, " # two\nb: 2\n")]);
    }

    #[test]
    fn documents_without_content_are_left_out() {
        assert_eq!(split(""), []);
        assert_eq!(split("# only words\n---\n\n---\n%YAML 1.2\n---\na: 1\n"), [(5, "\na: 1\n")]);
    }

    #[test]
    fn marks_inside_of_lines_are_content() {
        assert_eq!(split("a: x---\nb: |\n  ---\n---x: 1\n").len(), 1);
    }

    #[test]
    fn a_byte_order_mark_is_no_content() {
        assert_eq!(split("\u{feff}a: 1"), [(0, "a: 1")]);
    }
}
