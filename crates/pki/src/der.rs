//! As much of DER as it takes to read a certificate's names and dates.
//!
//! Nothing is judged here: rustls verifies. What does not fit is `None`, never a panic.

use time::{Date, Month, OffsetDateTime, Time};

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const OCTETS: u8 = 0x04;
pub(crate) const OBJECT: u8 = 0x06;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Elements one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Elements<'a>(pub &'a [u8]);

impl<'a> Elements<'a> {
    /// The next element must have this tag.
    pub(crate) fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (found, content) = self.next()?;
        (found == tag).then_some(content)
    }

    /// What lies inside the next element.
    pub(crate) fn enter(&mut self, tag: u8) -> Option<Elements<'a>> {
        self.expect(tag).map(Elements)
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&tag, rest) = self.0.split_first()?;
        let (&short, rest) = rest.split_first()?;
        let (length, rest) = if short < 0x80 {
            (usize::from(short), rest)
        } else {
            let count = usize::from(short & 0x7f);
            if count == 0 || count > 4 {
                return None;
            }
            let (bytes, rest) = rest.split_at_checked(count)?;
            let length = bytes.iter().fold(0, |sum, byte| (sum << 8) | usize::from(*byte));
            (length, rest)
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }
}

/// A date in either of the two forms that certificates use.
pub(crate) fn date((tag, content): (u8, &[u8])) -> Option<OffsetDateTime> {
    let text = std::str::from_utf8(content).ok()?.strip_suffix('Z')?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let year: i32 = year.parse().ok()?;
            // RFC 5280: two digits stand for 1950 to 2049.
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    let two = |at: usize| rest.get(at..at + 2)?.parse::<u8>().ok();
    let day = Date::from_calendar_date(year, Month::try_from(two(0)?).ok()?, two(2)?).ok()?;
    let moment = Time::from_hms(two(4)?, two(6)?, two(8)?).ok()?;
    Some(day.with_time(moment).assume_utc())
}
