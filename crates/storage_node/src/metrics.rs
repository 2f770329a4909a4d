//! Numbers for people, in the text format of Prometheus.

use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::{fmt::Write, time::Duration};

/// Upper bounds of the buckets: from a read out of memory to a host's patience, by steps of about
/// two, so that a quantile is never off by more than that.
const BOUNDS_US: [u64; 20] = [
    10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000,
    500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000, 30_000_000,
];

/// How long things took. Adding is a few instructions: it is done for every command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    buckets: [u64; BOUNDS_US.len()],
    count: u64,
    sum: Duration,
}

impl Histogram {
    pub(crate) fn add(&mut self, took: Duration) {
        // In 64 bits, which hold half a million years.
        let micros = took.as_secs().saturating_mul(1_000_000);
        let micros = micros.saturating_add(took.subsec_micros().into());
        let bucket = BOUNDS_US.partition_point(|bound| *bound < micros);
        if let Some(bucket) = self.buckets.get_mut(bucket) {
            *bucket += 1;
        }
        self.count += 1;
        self.sum += took;
    }
}

/// Commands of one kind on one thing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) latency: Histogram,
    pub(crate) bytes: u64,
    pub(crate) errors: u64,
}

/// Reads, writes (with zeroing) and flushes of a volume or replica.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flow {
    pub(crate) read: Traffic,
    pub(crate) write: Traffic,
    pub(crate) flush: Traffic,
}

impl Flow {
    fn kinds(&self) -> [(&'static str, &Traffic); 3] {
        [("read", &self.read), ("write", &self.write), ("flush", &self.flush)]
    }
}

/// A page of metrics being written: each family is announced once, before its first line.
#[derive(Debug, Default)]
pub(crate) struct Page {
    text: String,
    last: &'static str,
}

/// A metric's name, its type, and what it means.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) about: &'static str,
}

impl Family {
    pub(crate) const fn gauge(name: &'static str, about: &'static str) -> Self {
        Self { name, kind: "gauge", about }
    }

    pub(crate) const fn counter(name: &'static str, about: &'static str) -> Self {
        Self { name, kind: "counter", about }
    }

    pub(crate) const fn histogram(name: &'static str, about: &'static str) -> Self {
        Self { name, kind: "histogram", about }
    }
}

impl Page {
    /// Lines of one family must follow each other.
    pub(crate) fn value(
        &mut self,
        family: Family,
        labels: &[(&str, &str)],
        value: impl core::fmt::Display,
    ) {
        self.announce(family);
        self.line(family.name, "", labels, value);
    }

    pub(crate) fn histogram(
        &mut self,
        family: Family,
        labels: &[(&str, &str)],
        histogram: &Histogram,
    ) {
        self.announce(family);
        let mut below = 0;
        for (bound, bucket) in BOUNDS_US.iter().zip(histogram.buckets) {
            below += bucket;
            let bound = Duration::from_micros(*bound).as_secs_f64().to_string();
            let mut labels = labels.to_vec();
            labels.push(("le", &bound));
            self.line(family.name, "_bucket", &labels, below);
        }
        let mut all = labels.to_vec();
        all.push(("le", "+Inf"));
        self.line(family.name, "_bucket", &all, histogram.count);
        self.line(family.name, "_sum", labels, histogram.sum.as_secs_f64());
        self.line(family.name, "_count", labels, histogram.count);
    }

    /// The flows of things of one kind (`volume`, `replica`), each with its name.
    pub(crate) fn flows(
        &mut self,
        kind: &str,
        latency: Family,
        bytes: Family,
        flows: &[(String, &Flow)],
    ) {
        for (name, flow) in flows {
            for (op, traffic) in flow.kinds() {
                self.histogram(latency, &[(kind, name), ("op", op)], &traffic.latency);
            }
        }
        for (name, flow) in flows {
            for (op, traffic) in flow.kinds() {
                self.value(bytes, &[(kind, name), ("op", op)], traffic.bytes);
            }
        }
    }

    pub(crate) fn text(self) -> String {
        self.text
    }

    fn announce(&mut self, family: Family) {
        if self.last != family.name {
            self.last = family.name;
            let Family { name, kind, about } = family;
            // Writing to a string does not fail.
            let _ = writeln!(self.text, "# HELP {name} {about}\n# TYPE {name} {kind}");
        }
    }

    fn line(
        &mut self,
        name: &str,
        suffix: &str,
        labels: &[(&str, &str)],
        value: impl core::fmt::Display,
    ) {
        let _ = write!(self.text, "{name}{suffix}");
        if !labels.is_empty() {
            let quoted = labels.iter().map(|(key, value)| format!("{key}={value:?}"));
            let _ = write!(self.text, "{{{}}}", quoted.collect::<Vec<_>>().join(","));
        }
        let _ = writeln!(self.text, " {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOK: Family = Family::histogram("took_seconds", "How long it took.");

    #[test]
    fn buckets_count_everything_at_or_below_their_bound() {
        let mut histogram = Histogram::default();
        for micros in [5, 10, 11, 40_000_000] {
            histogram.add(Duration::from_micros(micros));
        }
        let mut page = Page::default();
        page.histogram(TOOK, &[("volume", "v")], &histogram);
        let text = page.text();
        assert!(text.starts_with("# HELP took_seconds How long it took.\n"), "{text}");
        assert!(text.contains("took_seconds_bucket{volume=\"v\",le=\"0.00001\"} 2\n"), "{text}");
        assert!(text.contains("took_seconds_bucket{volume=\"v\",le=\"30\"} 3\n"), "{text}");
        assert!(text.contains("took_seconds_bucket{volume=\"v\",le=\"+Inf\"} 4\n"), "{text}");
        assert!(text.ends_with("took_seconds_count{volume=\"v\"} 4\n"), "{text}");
    }

    #[test]
    fn a_family_is_announced_once() {
        let mut page = Page::default();
        let used = Family::gauge("used_bytes", "Taken.");
        page.value(used, &[("pool", "a")], 1);
        page.value(used, &[("pool", "b")], 2);
        assert_eq!(page.text().matches("# TYPE").count(), 1);
    }
}
