//! The name of a span in other processes: W3C Trace Context, `traceparent`.

use std::fmt;
use std::num::{NonZeroU64, NonZeroU128};

/// Which span of which trace, and whether anybody records it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Context {
    /// The trace.
    pub trace: NonZeroU128,
    /// The span.
    pub span: NonZeroU64,
    /// Whether it is recorded.
    pub sampled: bool,
}

/// `00-`, 32 digits, `-`, 16 digits, `-`, 2 digits.
const LENGTH: usize = 55;

impl Context {
    /// Reads a `traceparent`. One that is wrong counts as none, as the standard has it.
    pub fn parse(text: &str) -> Option<Self> {
        let (head, rest) = text.split_at_checked(LENGTH)?;
        let mut parts = head.split('-');
        let version = hex(parts.next()?, 2)?;
        // Later versions may say more behind another dash; this one may not.
        let ends = rest.is_empty() || (version != 0 && rest.starts_with('-'));
        if version == 0xff || !ends {
            return None;
        }
        let trace = NonZeroU128::new(hex(parts.next()?, 32)?)?;
        let span = NonZeroU64::new(u64::try_from(hex(parts.next()?, 16)?).ok()?)?;
        let flags = hex(parts.next()?, 2)?;
        parts.next().is_none().then_some(Context { trace, span, sampled: flags & 1 == 1 })
    }
}

/// So many digits, none of them a capital letter.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let right = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_hex = text.len() == digits && text.bytes().all(right);
    is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_is_read_and_written_the_same() {
        let context = Context::parse(GOOD).unwrap();
        assert_eq!(context.trace.get(), 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!((context.span.get(), context.sampled), (0x00f0_67aa_0ba9_02b7, true));
        assert_eq!(context.to_string(), GOOD);
        let quiet = GOOD.replace("-01", "-00");
        assert_eq!(Context::parse(&quiet).map(|context| context.sampled), Some(false));
        assert_eq!(Context::parse(&quiet).unwrap().to_string(), quiet);
    }

    #[test]
    fn other_flags_and_later_versions_are_read_as_far_as_they_are_known() {
        for later in [GOOD.replace("-01", "-03"), GOOD.replacen("00", "01", 1)] {
            assert_eq!(Context::parse(&later), Context::parse(GOOD), "{later}");
        }
        let more = format!("{}-what-comes", GOOD.replacen("00", "cc", 1));
        assert_eq!(Context::parse(&more), Context::parse(GOOD));
    }

    #[test]
    fn what_is_no_traceparent_counts_as_none() {
        for wrong in [
            String::new(),
            "00".to_owned(),
            GOOD[..54].to_owned(),
            format!("{GOOD}-more"),
            format!("{GOOD}0"),
            format!(" {}", &GOOD[..54]),
            GOOD.to_uppercase(),
            GOOD.replacen("00", "ff", 1),
            GOOD.replace('-', "_"),
            GOOD.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            GOOD.replace("00f067aa0ba902b7", &"0".repeat(16)),
            GOOD.replace("00f067aa0ba902b7", "+0f067aa0ba902b7"),
            GOOD.replace("-01", "-0g"),
            format!("{}-", GOOD.replace("-01", "-1")),
            format!("01{}x", &GOOD[2..]),
            "é".repeat(40),
        ] {
            assert_eq!(Context::parse(&wrong), None, "{wrong}");
        }
    }
}
