//! Days of UTC.

use std::fmt;
use std::str::FromStr;

use crate::time::Moment;

/// Days that are kept, the present one included.
pub const KEPT_DAYS: u32 = 31;

const DAY_MS: u64 = 86_400_000;

/// Days of four centuries.
const ERA: i64 = 146_097;

/// Days from the first of March of the year 0 until 1970.
const BEFORE_1970: i64 = 719_468;

/// A day of UTC, counted from 1970; written as `2026-11-19`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Day(pub u32);

impl Day {
    /// The day of a moment in epoch milliseconds.
    pub fn of(at: Moment) -> Self {
        Day(u32::try_from(at.as_millis() / DAY_MS).unwrap_or(u32::MAX))
    }

    /// The day's first moment.
    pub fn start(self) -> Moment {
        Moment::from_millis(u64::from(self.0) * DAY_MS)
    }

    /// When what was counted on it is forgotten.
    pub fn forgotten(self) -> Moment {
        Day(self.0.saturating_add(KEPT_DAYS)).start()
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // By the civil calendar, with years that begin in March: the day that may be missing is the last.
        let day = i64::from(self.0) + BEFORE_1970;
        let (era, day) = (day / ERA, day % ERA);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let date = day - (153 * month + 2) / 5 + 1;
        let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        write!(f, "{:04}-{month:02}-{date:02}", era * 400 + year + later)
    }
}

impl FromStr for Day {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let wrong = "is a date such as 2026-11-19";
        let number = |text: &str| {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse::<i64>().ok()).flatten().ok_or(wrong)
        };
        let parts: Vec<&str> = text.split('-').collect();
        let [year, month, date] = parts[..] else { return Err(wrong) };
        if (year.len(), month.len(), date.len()) != (4, 2, 2) {
            return Err(wrong);
        }
        let (year, month, date) = (number(year)?, number(month)?, number(date)?);
        if !(1..=12).contains(&month) || !(1..=31).contains(&date) {
            return Err(wrong);
        }
        let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let of_year = (153 * month + 2) / 5 + date - 1;
        let of_era = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
        let day = Day(u32::try_from(era * ERA + of_era - BEFORE_1970).map_err(|_| wrong)?);
        // The 30th of February is the second of March.
        if day.to_string() == text { Ok(day) } else { Err(wrong) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates_and_dates_are_days() {
        let known =
            [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (20_776, "2026-11-19")];
        for (number, text) in known {
            assert_eq!((Day(number).to_string().as_str(), text.parse()), (text, Ok(Day(number))));
        }
        for number in (0..60_000).step_by(13) {
            assert_eq!(Day(number).to_string().parse(), Ok(Day(number)));
        }
        for wrong in [
            "",
            "2026-11",
            "2026-02-30",
            "2025-02-29",
            "2026-13-01",
            "1969-12-31",
            "26-1-1",
            "2026-11-+9",
            "２０２６-11-19",
        ] {
            assert!(wrong.parse::<Day>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_moment_has_a_day_from_its_first_to_its_last_millisecond() {
        let day = Day(20_000);
        let last = Moment::from_millis(Day(20_001).start().as_millis() - 1);
        assert_eq!((Day::of(day.start()), Day::of(last)), (day, day));
        assert_eq!(Day::of(day.forgotten()), Day(20_031));
    }
}
