//! Lengths of time on the command line.

use std::time::Duration;

/// Units, and how many milliseconds each has. Longer names first: `ms` ends with `s`.
const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

/// Reads `250ms`, `10s`, `5m` or `1h`; also `1.5s`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("a duration is written like 250ms, 10s, 5m or 1h, not {text:?}");
    let unit = UNITS.iter().find_map(|(unit, ms)| Some((text.strip_suffix(unit)?, *ms)));
    let (number, ms) = unit.ok_or_else(wrong)?;
    let digits = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = number.parse().ok().filter(|_| digits).ok_or_else(wrong)?;
    Duration::try_from_secs_f64(number * ms as f64 / 1_000.0).map_err(|_| wrong())
}

/// The same for a number of seconds of old, which `10s` stands for now; both are read.
pub fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<u32>() {
        Ok(seconds) => Ok(Duration::from_secs(seconds.into())),
        Err(_) => duration(text),
    }
}

/// The same for a number of milliseconds.
pub fn milliseconds(text: &str) -> Result<Duration, String> {
    match text.parse::<u32>() {
        Ok(ms) => Ok(Duration::from_millis(ms.into())),
        Err(_) => duration(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_number_and_a_unit() {
        for (text, ms) in [
            ("250ms", 250),
            ("10s", 10_000),
            ("1.5s", 1_500),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("0s", 0),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for wrong in ["", "s", "10", "-1s", "1d", "1e3s", "infs", "NaNs", "1 s", "1..2s", "9e99h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(seconds("7"), seconds("7s"));
        assert_eq!(milliseconds("7"), milliseconds("7ms"));
        assert!(seconds("x").is_err() && milliseconds("-1").is_err());
    }
}
