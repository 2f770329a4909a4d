//! Scripts that are kept: each shows a behaviour, or a bug that was found once.

#[cfg(test)]
mod tests;

use crate::{Options, Report, Script, Unreadable, real_brain, run};

/// The seed of a case that was kept without one.
pub const CASE_SEED: u64 = 1;

#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub name: &'static str,
    pub text: &'static str,
}

impl Case {
    pub fn script(&self) -> Result<Script, Unreadable> {
        Script::parse(self.text)
    }

    pub fn run(&self, seed: u64) -> Result<Report, Unreadable> {
        Ok(run(seed, &self.script()?, real_brain(), Options::default()))
    }
}

/// Lists every file of `cases/`: makes each of them a case, and a test.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        /// All that are kept.
        pub const fn cases() -> &'static [Case] {
            &[$(Case {
                name: stringify!($name),
                text: include_str!(concat!("../cases/", stringify!($name), ".txt")),
            }),*]
        }

        #[cfg(test)]
        mod run {
            $(#[test] fn $name() { super::tests::check(stringify!($name)); })*
        }
    };
}

cases![calm,];
