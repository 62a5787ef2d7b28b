//! Numbers as people read them.

/// A share of the whole: two digits behind the point, four where less would read as nothing.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.01 {
        if percent < 0.0001 { "<0.0001%".to_owned() } else { format!("{percent:.4}%") }
    } else {
        let text = format!("{percent:.2}");
        format!("{}%", text.strip_suffix(".00").unwrap_or(&text))
    }
}

/// A count with a comma after each three digits.
pub(super) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A rate: one digit behind the point below ten.
pub(super) fn rate(per_second: f64) -> String {
    if per_second > 0.0 && per_second < 10.0 {
        format!("{per_second:.1}/s")
    } else {
        format!("{}/s", count(per_second.round() as u64))
    }
}

/// A time of a network: from microseconds to seconds, three digits.
pub(super) fn latency(seconds: f64) -> String {
    let micros = seconds * 1e6;
    if micros < 999.5 {
        format!("{micros:.0}µs")
    } else if micros < 9_995.0 {
        format!("{:.2}ms", micros / 1e3)
    } else if micros < 99_950.0 {
        format!("{:.1}ms", micros / 1e3)
    } else if micros < 999_500.0 {
        format!("{:.0}ms", micros / 1e3)
    } else {
        format!("{seconds:.1}s")
    }
}

/// A time of a clock, in its two largest units.
pub(super) fn span(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {minutes}m"),
        (_, _, _) => format!("{days}d {hours}h"),
    }
}

/// Shortens a text to `width` columns; the middle goes, because names differ at their ends.
pub(super) fn shorten(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    if width == 0 {
        return String::new();
    }
    let end = (width - 1) / 2;
    let begin = width - 1 - end;
    let tail: String = text.chars().skip(length - end).collect();
    text.chars().take(begin).chain(std::iter::once('…')).collect::<String>() + &tail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_shares_do_not_read_as_nothing() {
        let cases = [
            (0.0, "0%"),
            (1.0, "100%"),
            (0.9, "90%"),
            (0.019_999_9, "2%"),
            (1.0 / 3.0, "33.33%"),
            (1.0 / 1_000_001.0, "<0.0001%"),
            (2e-6, "0.0002%"),
        ];
        for (share, text) in cases {
            assert_eq!(percent(share), text);
        }
    }

    #[test]
    fn counts_have_commas() {
        for (n, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(n), text);
        }
        assert_eq!((rate(0.0), rate(2.25), rate(12_345.6)), ("0/s".into(), "2.2/s".into(), "12,346/s".into()));
    }

    #[test]
    fn latencies_have_the_unit_that_fits() {
        for (seconds, text) in [(12e-6, "12µs"), (1.5e-3, "1.50ms"), (15e-3, "15.0ms"), (0.25, "250ms"), (3.0, "3.0s")]
        {
            assert_eq!(latency(seconds), text);
        }
    }

    #[test]
    fn spans_have_two_units() {
        for (seconds, text) in [(5, "5s"), (65, "1m 5s"), (7_265, "2h 1m"), (90_000, "1d 1h")] {
            assert_eq!(span(seconds), text);
        }
    }

    #[test]
    fn long_names_lose_their_middle() {
        assert_eq!(shorten("namespace/very-long-name-v1:80", 12), "namesp…v1:80");
        assert_eq!(shorten("short", 12), "short");
        assert_eq!((shorten("long", 1), shorten("long", 0)), ("…".to_owned(), String::new()));
    }
}
