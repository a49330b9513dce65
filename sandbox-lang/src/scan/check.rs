//! Code that fails a scan is not run.

use crate::{CodeCheck, Language};
use sandbox_core::Result;

use crate::scan::ScanPolicy;

impl CodeCheck for ScanPolicy {
    fn check(&self, file: &str, language: &Language, code: &[u8]) -> Result<()> {
        let report = self.scan(&language.name, code)?;
        report.check(file).map(|_| ())
    }
}
