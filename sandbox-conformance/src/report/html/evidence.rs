//! The evidence of one probe.

use std::fmt::Write as _;

use super::class;
use crate::evidence::{Attempt, Evidence, HostCheck, Step};
use crate::finding::Finding;
use crate::report::claim_status_label;
use crate::report::escape::html;

/// One finding, collapsed.
pub(super) fn details(page: &mut String, finding: &Finding) {
    let claim_status = finding.claim_status();
    let (claim_status, why) = claim_status_label(&claim_status);
    let _ = write!(
        page,
        "<details class=\"{}\">\n<summary><b>{}</b> {} <span>{}</span></summary>\n<dl>\n",
        class(finding),
        finding.verdict,
        html(finding.id),
        html(finding.summary),
    );
    entry(page, "standing", &format!("{claim_status} {why}"));
    seen(page, &finding.evidence);
    for means in &finding.explanation {
        entry(page, "stopped by", means);
    }
    entry(page, "took", &format!("{} ms", finding.milliseconds));
    page.push_str("</dl>\n");
    for (number, run) in finding.repetitions.iter().enumerate() {
        let _ = write!(
            page,
            "<details>\n<summary>run {}: <b>{}</b></summary>\n<dl>\n",
            number + 1,
            run.verdict
        );
        seen(page, &run.evidence);
        entry(page, "took", &format!("{} ms", run.milliseconds));
        page.push_str("</dl>\n</details>\n");
    }
    page.push_str("</details>\n");
}

/// The evidence of one run.
fn seen(page: &mut String, evidence: &Evidence) {
    for (name, one) in [
        ("host control", &evidence.host_control),
        ("allow control", &evidence.allow_control),
        ("attack", &evidence.attack),
    ] {
        match one {
            Some(one) => step(page, name, one),
            None => entry(page, name, "not tried"),
        }
    }
    for host_check in &evidence.host_checks {
        let text = match host_check {
            HostCheck::Clean { watched } => format!("untouched: {watched}"),
            HostCheck::Dirty { watched } => format!("TOUCHED: {watched}"),
            HostCheck::Nothing { reason } => format!("nothing to watch: {reason}"),
        };
        entry(page, "host afterwards", &text);
    }
    if let Some(declared) = &evidence.declared {
        entry(page, "declared", &declared.to_string());
    }
    for unmet in &evidence.waived {
        entry(page, "waived", &unmet.to_string());
    }
    for unmet in &evidence.broken_claims {
        entry(page, "promised before", &unmet.to_string());
    }
    for (name, text) in [
        ("refused", &evidence.refused),
        ("not run", &evidence.not_run),
        ("trouble", &evidence.error),
    ] {
        if let Some(text) = text {
            entry(page, name, text);
        }
    }
}

fn entry(page: &mut String, name: &str, text: &str) {
    let _ = writeln!(page, "<dt>{name}</dt><dd>{}</dd>", html(text.trim_end()));
}

fn step(page: &mut String, name: &str, step: &Step) {
    let text = match &step.attempt {
        Attempt::Succeeded { value } if value.is_empty() => "succeeded".to_owned(),
        Attempt::Succeeded { value } => format!("succeeded: {value}"),
        Attempt::Blocked { signature } => format!("stopped: {}", signature.join(", ")),
        Attempt::Unclear { detail } => format!("unclear: {detail}"),
    };
    let _ = write!(
        page,
        "<dt>{name}</dt><dd><code>{}</code><br>{}",
        html(&step.action),
        html(&text)
    );
    if let Some(outcome) = &step.outcome {
        let _ = write!(page, "; {}, {} ms", html(outcome), step.milliseconds);
    }
    for (stream, text) in [("stdout", &step.stdout), ("stderr", &step.stderr)] {
        if !text.is_empty() {
            let _ = write!(
                page,
                "<pre aria-label=\"{stream}\" tabindex=\"0\">{}</pre>",
                html(text)
            );
        }
    }
    page.push_str("</dd>\n");
}
