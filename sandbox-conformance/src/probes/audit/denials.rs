//! Denials: what the result, the handle and the records tell of each.

use std::path::Path;
use std::time::Duration;

use sandbox_core::{
    Capability, Denial, DenialKind, Denials, Error, ExecEvent, ExecRequest, SandboxHandle, Stdin,
};
use serde_json::{Value, json};

use super::{KEPT, Records, difference, event_of, in_audited};
use crate::probes::prelude::*;

/// A time limit that is reached, and is shorter than the policy's.
const SHORT: Duration = Duration::from_millis(100);

/// How much more output is written than is kept.
const BEYOND: u64 = 1000;

/// The links to export, and how many different denials a list keeps.
const LINKS: usize = 70;
const DISTINCT: usize = 64;

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let output = context.output_folder()?;
    let exported = context.fixture().export_folder();
    let names = format!("{exported}/{}", context.token());
    let (link, folder) = (context.inside("link"), context.inside("folder"));
    in_audited(context, "be denied", async |sandbox, records| {
        let mut told = Told::default();
        let script = "ln -s /nonexistent $0 && mkdir $1 && chmod 555 $1 && mkdir -p $2 &&
            for n in $(seq $3); do ln -s /nonexistent $4-$n.audited; done";
        let links = LINKS.to_string();
        let arguments = [&link, &folder, &exported, &links, &names];
        let made = ExecRequest::shell(script).args(arguments);
        sandbox.exec(&made).await?.check()?;
        let wrong = match output_and_time(sandbox, &mut told).await? {
            None => match files(sandbox, &link, &folder, &mut told).await? {
                None => artifacts(sandbox, &output, &mut told).await?,
                wrong => wrong,
            },
            wrong => wrong,
        };
        Ok(wrong.or_else(|| told.differs(sandbox, records)))
    })
    .await
}

/// What results and errors told, in order.
#[derive(Default)]
struct Told {
    denials: Vec<Denial>,
    omitted: u64,
}

impl Told {
    /// Takes the denials of one operation. Says what is wrong if it is not one like this.
    fn one(
        &mut self,
        denials: &[Denial],
        kind: DenialKind,
        capability: Capability,
        rule: Option<&str>,
    ) -> Option<String> {
        self.denials.extend_from_slice(denials);
        let is_right = |denial: &Denial| {
            denial.kind == kind
                && denial.capability == capability
                && rule.is_none_or(|rule| denial.rule == rule)
                && denial.times == 1
                && !denial.retry_helps
                && [&denial.what, &denial.rule, &denial.advice]
                    .iter()
                    .all(|text| !text.is_empty())
        };
        let is_one = matches!(denials, [denial] if is_right(denial));
        (!is_one).then(|| format!("{kind:?}, {rule:?}: told {denials:?}"))
    }

    /// Compares with what the handle and the records say.
    fn differs(&self, sandbox: &SandboxHandle, records: &Records) -> Option<String> {
        let found = records.of_events(&["denied", "denials_omitted"]);
        let found: Vec<Value> = found.into_iter().map(event_of).collect();
        let mut expected: Vec<Value> = self.denials.iter().map(|denial| json!(denial)).collect();
        for record in &mut expected {
            record["event"] = json!("denied");
        }
        expected.push(json!({"event": "denials_omitted", "count": self.omitted}));
        if let Some(differs) = difference(&found, &expected) {
            return Some(format!("recorded: {differs}"));
        }
        let of_handle = sandbox.denials();
        let all: Denials = self.denials.iter().cloned().collect();
        let is_right = of_handle.as_slice() == all.as_slice()
            && of_handle.omitted() == all.omitted() + self.omitted;
        if !is_right {
            return Some(format!("the handle tells {of_handle:?}, not {all:?}"));
        }
        let in_words = |denial: &Denial| {
            let line = denial.to_string();
            let times = format!(", {} times", denial.times);
            line.starts_with(&format!("{} ({})", denial.what, denial.rule))
                && line.contains(&times) == (denial.times > 1)
                && line.ends_with(&denial.advice)
        };
        let mut denials = of_handle.iter();
        let unlike = denials.find(|denial| !in_words(denial));
        unlike.map(|denial| format!("in words: {denial}"))
    }
}

async fn output_and_time(sandbox: &SandboxHandle, told: &mut Told) -> Deviation {
    let most = format!("head -c {} /dev/zero", KEPT + BEYOND);
    let stdout = ExecRequest::shell(&most);
    let stderr = ExecRequest::shell(format!("{most} >&2"));
    let (of_stdout, of_stderr) = (Capability::StdoutMaxBytes, Capability::StderrMaxBytes);
    for (request, capability) in [(&stdout, of_stdout), (&stderr, of_stderr)] {
        let rule = format!("{capability} = 4KiB");
        for is_started in [false, true] {
            let result = if is_started {
                let mut execution = sandbox.start(request, Stdin::Null).await?;
                execution.wait().await?
            } else {
                // All of it arrives, and a part is kept.
                let mut live = 0;
                let on_output = |_, bytes: &[u8]| live += bytes.len() as u64;
                let result = sandbox.exec_with(request, Stdin::Null, on_output).await?;
                if live != KEPT + BEYOND {
                    return Ok(Some(format!("{live} bytes arrived")));
                }
                result
            };
            let denials = result.denials.as_slice();
            let wrong = told.one(denials, DenialKind::Output, capability, Some(&rule));
            if wrong.is_some() || !result.truncated() || !result.success() {
                return Ok(wrong.or(Some(format!("{capability}: {}", result.outcome))));
            }
        }
    }
    let request = ExecRequest::new("sleep").arg("60").timeout(SHORT);
    let rule = "timeout = 100ms, asked for with the execution";
    let limit = Capability::Timeout;
    let result = sandbox.exec(&request).await?;
    let wrong = told.one(
        result.denials.as_slice(),
        DenialKind::Time,
        limit,
        Some(rule),
    );
    if wrong.is_some() {
        return Ok(wrong);
    }
    let mut execution = sandbox.start(&request, Stdin::Null).await?;
    let mut events = Vec::new();
    while let Some(event) = execution.next_event().await? {
        events.push(event);
    }
    Ok(match events.as_slice() {
        [
            ExecEvent::Started,
            ExecEvent::Denied(denial),
            ExecEvent::Exited(result),
        ] if result.denials.as_slice() == std::slice::from_ref(denial) => told.one(
            std::slice::from_ref(denial),
            DenialKind::Time,
            limit,
            Some(rule),
        ),
        events => Some(format!("the events are {events:?}")),
    })
}

/// A link to read, and a folder that nobody may write to.
async fn files(sandbox: &SandboxHandle, link: &str, folder: &str, told: &mut Told) -> Deviation {
    let denied = |ended: sandbox_core::Result<()>| {
        let error = ended.err();
        error
            .as_ref()
            .map_or(Vec::new(), |error: &Error| error.denials().to_vec())
    };
    let read = denied(sandbox.read(link).await.map(drop));
    let reading = Capability::FilesystemReadRoots;
    let wrong = told.one(&read, DenialKind::FileRead, reading, None);
    if wrong.is_some() {
        return Ok(wrong);
    }
    let path = format!("{folder}/file");
    let writing = Capability::FilesystemWriteRoots;
    for written in [sandbox.write(&path, "x").await, sandbox.mkdir(&path).await] {
        let wrong = told.one(&denied(written), DenialKind::FileWrite, writing, None);
        if wrong.is_some() {
            return Ok(wrong);
        }
    }
    Ok(None)
}

/// More links than different denials are kept.
async fn artifacts(sandbox: &SandboxHandle, output: &Path, told: &mut Told) -> Deviation {
    let export = sandbox.export(output).await?;
    let denials = export.denials.as_slice();
    told.denials.extend_from_slice(denials);
    told.omitted = export.denials.omitted();
    let are_right = denials.len() == DISTINCT
        && denials
            .iter()
            .all(|denial| denial.kind == DenialKind::Artifact)
        && told.omitted == (LINKS - DISTINCT) as u64
        && export.skipped.len() == LINKS;
    Ok((!are_right).then(|| {
        let (kept, skipped) = (denials.len(), export.skipped.len());
        format!(
            "{kept} denials and {} more for {skipped} links",
            told.omitted
        )
    }))
}
