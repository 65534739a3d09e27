//! Lengths of time on the command line.

use std::ops::RangeInclusive;
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

/// Reads milliseconds within these bounds, as a duration; a bare number is milliseconds too.
pub fn ms(within: RangeInclusive<u64>) -> impl Fn(&str) -> Result<u64, String> + Clone {
    move |text| in_units(text, 1, &within, "ms")
}

/// Reads whole seconds within these bounds, as a duration; a bare number is seconds too.
pub fn seconds(within: RangeInclusive<u64>) -> impl Fn(&str) -> Result<u64, String> + Clone {
    move |text| in_units(text, 1_000, &within, "s")
}

fn in_units(text: &str, ms: u64, within: &RangeInclusive<u64>, unit: &str) -> Result<u64, String> {
    let count = match text.parse::<u64>() {
        Ok(count) => count,
        Err(_) => {
            let (all, one) = (duration(text)?.as_nanos(), u128::from(ms) * 1_000_000);
            if !all.is_multiple_of(one) {
                return Err(format!("{text:?} is not a whole number of {unit}"));
            }
            u64::try_from(all / one).unwrap_or(u64::MAX)
        }
    };
    match within.contains(&count) {
        true => Ok(count),
        false => {
            Err(format!("{text:?} is not from {}{unit} to {}{unit}", within.start(), within.end()))
        }
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
    }

    #[test]
    fn a_bare_number_has_the_unit_of_its_option() {
        let (s, ms) = (seconds(1..=3_600), ms(0..=5_000));
        assert_eq!((s("7"), s("7s"), s("2m"), s("1h")), (Ok(7), Ok(7), Ok(120), Ok(3_600)));
        assert_eq!((ms("7"), ms("7ms"), ms("2.5s")), (Ok(7), Ok(7), Ok(2_500)));
        for wrong in ["0", "0s", "2h", "1500ms", "x", "-1", ""] {
            assert!(s(wrong).is_err(), "{wrong}");
        }
        assert!(ms("6s").is_err() && ms("0.5ms").is_err());
    }
}
