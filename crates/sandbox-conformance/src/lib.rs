//! The conformance suite: probes, controls, verdicts and reports.
