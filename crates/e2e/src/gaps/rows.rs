//! The figures, with their goals beside.

use std::{fmt, time::Duration};

use serde_json::{Value, json};

use crate::cluster::report::quantiles;

#[derive(Debug, Default)]
pub struct Rows {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    case: String,
    /// How many were measured, where there is more than one.
    times: Option<usize>,
    value: f64,
    goal: Option<Goal>,
}

#[derive(Clone, Copy, Debug)]
enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

impl Goal {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "<= {most}"),
            Self::AtLeast(least) => write!(f, ">= {least}"),
        }
    }
}

impl Rows {
    /// Pauses in seconds; the goal is for the ninety-ninth of a hundred.
    pub fn gaps(&mut self, case: &str, gaps: &[Duration], goal: f64) {
        if gaps.is_empty() {
            return;
        }
        let goals = [None, Some(Goal::AtMost(goal)), None];
        for ((name, gap), goal) in ["p50", "p99", "max"].iter().zip(quantiles(gaps)).zip(goals) {
            let case = format!("{case}: gap {name}, s");
            let (times, value) = (Some(gaps.len()), gap.as_secs_f64());
            self.rows.push(Row { case, times, value, goal });
        }
    }

    pub fn at_most(&mut self, case: &str, value: f64, most: f64) {
        let goal = Some(Goal::AtMost(most));
        self.rows.push(Row { case: case.into(), times: None, value, goal });
    }

    pub fn at_least(&mut self, case: &str, value: f64, least: f64) {
        let goal = Some(Goal::AtLeast(least));
        self.rows.push(Row { case: case.into(), times: None, value, goal });
    }

    pub fn json(&self) -> Value {
        let row = |row: &Row| {
            json!({
                "case": row.case, "times": row.times, "value": row.value,
                "goal": row.goal.map(|goal| goal.to_string()),
                "met": row.goal.map(|goal| goal.is_met(row.value)),
            })
        };
        self.rows.iter().map(row).collect()
    }
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.rows.iter().map(|row| row.case.len()).max().unwrap_or(0);
        writeln!(f, "{:width$} {:>6} {:>9} {:>8}", "case", "times", "value", "goal")?;
        for row in &self.rows {
            let times = row.times.map(|times| times.to_string()).unwrap_or_default();
            let goal = row.goal.map(|goal| goal.to_string()).unwrap_or_default();
            let met = match row.goal.map(|goal| goal.is_met(row.value)) {
                Some(true) => "met",
                Some(false) => "MISSED",
                None => "",
            };
            let line = format!("{:width$} {times:>6} {:>9.2} {goal:>8} {met}", row.case, row.value);
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_that_is_missed_is_seen() {
        let mut rows = Rows::default();
        rows.gaps("kill", &[Duration::from_millis(500), Duration::from_millis(1_500)], 1.0);
        rows.at_least("made", 51.0, 50.0);
        let shown = rows.to_string();
        let missed: Vec<&str> = shown.lines().filter(|line| line.ends_with("MISSED")).collect();
        assert_eq!(missed.len(), 1, "{shown}");
        assert!(missed[0].starts_with("kill: gap p99"), "{shown}");
        assert_eq!(rows.json()[3]["met"], true);
    }
}
