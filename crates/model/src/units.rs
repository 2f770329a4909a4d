//! Bytes and time, with their units in the type.

use alloc::string::String;
use core::{
    fmt,
    ops::{Add, Sub},
    str::FromStr,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Invalid;

/// An amount of storage.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

const SUFFIXES: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

impl Bytes {
    pub const ZERO: Self = Self(0);

    pub const fn mib(count: u64) -> Self {
        Self(count << 20)
    }

    pub const fn gib(count: u64) -> Self {
        Self(count << 30)
    }

    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (suffix, shift) in SUFFIXES {
            let unit = 1_u64 << shift;
            if self.0 >= unit {
                let tenths = u128::from(self.0) * 10 / u128::from(unit);
                let (whole, tenth) = (tenths / 10, tenths % 10);
                return if tenth == 0 {
                    write!(f, "{whole} {suffix}")
                } else {
                    write!(f, "{whole}.{tenth} {suffix}")
                };
            }
        }
        write!(f, "{} B", self.0)
    }
}

impl FromStr for Bytes {
    type Err = Invalid;

    /// `10GiB`, `10Gi`, `10G` (all 2³⁰, as Kubernetes and people mean it here), or plain bytes.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let refused = || Invalid::new("size", text, "a number with KiB, MiB, GiB or TiB");
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim_end();
        let count: u64 = digits.parse().map_err(|_| refused())?;
        let unit: String = text[digits.len()..].trim().into();
        if unit.is_empty() || unit == "B" {
            return Ok(Self(count));
        }
        let shift = SUFFIXES
            .iter()
            .find(|(suffix, _)| [*suffix, &suffix[..2], &suffix[..1]].contains(&unit.as_str()))
            .map(|(_, shift)| *shift)
            .ok_or_else(refused)?;
        count.checked_mul(1 << shift).map(Self).ok_or_else(refused)
    }
}

/// A span of time.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    pub const ZERO: Self = Self(0);

    pub const fn seconds(count: u64) -> Self {
        Self(count * 1_000)
    }

    pub const fn minutes(count: u64) -> Self {
        Self(count * 60_000)
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000 => write!(f, "{} ms", self.0),
            1_000..120_000 => write!(f, "{}.{} s", self.0 / 1_000, self.0 % 1_000 / 100),
            120_000..7_200_000 => write!(f, "{} min", self.0 / 60_000),
            _ => write!(f, "{} h", self.0 / 3_600_000),
        }
    }
}

/// Wall time in milliseconds since the Unix epoch. Only deadlines and ages use it; order never
/// does.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct Time(pub u64);

impl Time {
    /// How long `earlier` is ago; zero if it lies ahead (clocks of two machines differ).
    pub const fn since(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Millis> for Time {
    type Output = Self;
    fn add(self, span: Millis) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub<Millis> for Time {
    type Output = Self;
    fn sub(self, span: Millis) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1_000, self.0 % 1_000)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn sizes_read_as_people_write_them() {
        for text in ["10GiB", "10Gi", "10G", "10 GiB", "10737418240"] {
            assert_eq!(text.parse(), Ok(Bytes::gib(10)), "{text}");
        }
        for text in ["", "G", "1.5G", "-1", "10GB2", "99999999999TiB", "é"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_print_with_one_digit_after_the_point() {
        assert_eq!(Bytes::gib(10).to_string(), "10 GiB");
        assert_eq!(Bytes(1536 << 20).to_string(), "1.5 GiB");
        assert_eq!(Bytes(u64::MAX).to_string(), "16777215.9 TiB");
        assert_eq!(Bytes(17).to_string(), "17 B");
    }
}
