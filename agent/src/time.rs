//! Times as people write them, on the command line and in annotations.

use std::time::Duration;

/// The longest time that can be written.
const MAX: Duration = Duration::from_secs(86_400);

/// Reads a time like `10`, `0.5`, `10s` or `500ms`; at most one day.
///
/// # Errors
///
/// Says how to write a time, for people.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.strip_suffix('s').unwrap_or(text), 1.0),
    };
    let value: f64 = number.trim().parse().map_err(|_| "give seconds, like 10, 0.5, 10s or 500ms".to_owned())?;
    let value = Duration::try_from_secs_f64(value * unit).map_err(|error| error.to_string())?;
    if value > MAX {
        return Err("at most one day (86400)".to_owned());
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_unless_they_say_milliseconds() {
        assert_eq!(seconds("10"), Ok(Duration::from_secs(10)));
        assert_eq!(seconds("0.5s"), Ok(Duration::from_millis(500)));
        assert_eq!(seconds("250ms"), Ok(Duration::from_millis(250)));
        for wrong in ["", "-1", "ten", "86401", "NaN"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
