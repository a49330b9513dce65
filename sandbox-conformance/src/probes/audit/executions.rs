//! The records of executions.

use std::time::Duration;

use sandbox_core::{Error, ErrorKind, ExecRequest, ExecResult, SandboxHandle, Stdin, TerminalSize};
use serde_json::{Value, json};

use super::{Records, SECRETS, difference, event_of, in_audited};
use crate::probes::detached::{LIFETIME, in_detached};
use crate::probes::prelude::*;
use crate::probes::records::within_patience;

/// A time limit that is reached.
const SHORT: Duration = Duration::from_millis(100);

/// What a secret holds. No record may have it.
const VALUE: &str = "the-secret-itself";

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    in_audited(context, "run in each way", async |sandbox, records| {
        let mut recorded = Recorded::new(sandbox, records);
        if let Some(wrong) = recorded.ended().await? {
            return Ok(Some(wrong));
        }
        recorded.dropped().await
    })
    .await
}

pub(super) async fn later_client(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let (later, records) = Records::of(context.client()?);
    let deviation = in_detached(context, LIFETIME, async |_, name, _| {
        let sandbox = later.get(name).await?;
        let mut recorded = Recorded::new(&sandbox, &records);
        for wrong in [recorded.ended().await?, recorded.dropped().await?] {
            if wrong.is_some() {
                return Ok(wrong);
            }
        }
        let number = recorded.number + 1;
        let request = sleep();
        let execution = sandbox.start(&request, Stdin::Null).await?;
        drop(sandbox);
        let wrong = compare(&records, number, &request, End::GivenUp).await;
        drop(execution);
        if wrong.is_some() {
            return Ok(wrong.map(|wrong| format!("of a dropped handle: {wrong}")));
        }
        // The sandbox lives on.
        let around = records.of_events(&["admitted", "created", "attached", "removed"]);
        let around: Vec<_> = around.into_iter().map(event_of).collect();
        Ok(difference(&around, &[json!({"event": "attached"})]))
    })
    .await?;
    context.record_attack(behavior("run through a later client", deviation));
    context.no_host_effect("records do not affect the host");
    Ok(())
}

fn sleep() -> ExecRequest {
    ExecRequest::new("sleep").arg("60")
}

/// How an execution ended.
enum End<'a> {
    Result(&'a ExecResult),
    Error(&'a Error),
    GivenUp,
}

impl<'a> From<&'a sandbox_core::Result<ExecResult>> for End<'a> {
    fn from(ended: &'a sandbox_core::Result<ExecResult>) -> Self {
        match ended {
            Ok(result) => Self::Result(result),
            Err(error) => Self::Error(error),
        }
    }
}

/// The executions of a handle, and the number of the last one.
struct Recorded<'a> {
    sandbox: &'a SandboxHandle,
    records: &'a Records,
    number: u64,
}

impl<'a> Recorded<'a> {
    fn new(sandbox: &'a SandboxHandle, records: &'a Records) -> Self {
        Self {
            sandbox,
            records,
            number: 0,
        }
    }

    async fn is_wrong(
        &mut self,
        what: &str,
        request: &ExecRequest,
        end: End<'_>,
    ) -> Option<String> {
        self.number += 1;
        let wrong = compare(self.records, self.number, request, end).await;
        wrong.map(|wrong| format!("{what}: {wrong}"))
    }

    /// Executions that end by themselves, by a limit or by a kill, or do not start.
    async fn ended(&mut self) -> Deviation {
        let own = ExecRequest::shell("id -u");
        let ended = self.sandbox.exec(&own).await;
        if let Some(wrong) = self.is_wrong("exec", &own, (&ended).into()).await {
            return Ok(Some(wrong));
        }
        let user = ended?.stdout_text().trim().to_owned();
        let requests = [
            ("another code", ExecRequest::shell("exit 7")),
            ("its user", ExecRequest::shell("exit 0").user(user)),
            (
                "unlogged",
                ExecRequest::shell("exit 0").arg("unlogged").log(false),
            ),
            ("a time limit", sleep().timeout(SHORT)),
            ("no program", ExecRequest::new("/nonexistent/program")),
            (
                "secrets",
                ExecRequest::shell("exit 0")
                    .secret(SECRETS[1], VALUE)
                    .secret_file(SECRETS[0], VALUE),
            ),
        ];
        for (what, request) in &requests {
            let stdin = Stdin::from_bytes(*b"input");
            let ended = self.sandbox.exec_with(request, stdin, |_, _| {}).await;
            if let Some(wrong) = self.is_wrong(what, request, (&ended).into()).await {
                return Ok(Some(wrong));
            }
            let started = async {
                let mut execution = self.sandbox.start(request, Stdin::Null).await?;
                execution.wait().await
            };
            let ended = started.await;
            if let Some(wrong) = self.is_wrong(what, request, (&ended).into()).await {
                return Ok(Some(format!("started, {wrong}")));
            }
        }
        let request = sleep();
        let mut execution = self.sandbox.start(&request, Stdin::Null).await?;
        execution.kill().await;
        let ended = execution.wait().await;
        if let Some(wrong) = self.is_wrong("killed", &request, (&ended).into()).await {
            return Ok(Some(wrong));
        }
        let request = ExecRequest::shell("exit 5").terminal(TerminalSize::default());
        match self.sandbox.exec(&request).await {
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            ended => {
                let wrong = self
                    .is_wrong("on a terminal", &request, (&ended).into())
                    .await;
                if wrong.is_some() {
                    return Ok(wrong);
                }
            }
        }
        let all = json!(self.records.all()).to_string();
        Ok(all
            .contains(VALUE)
            .then(|| "the value of a secret is in the records".to_owned()))
    }

    /// Executions whose caller goes away.
    async fn dropped(&mut self) -> Deviation {
        let request = sleep();
        let execution = self.sandbox.start(&request, Stdin::Null).await?;
        drop(execution);
        let wrong = self.is_wrong("dropped", &request, End::GivenUp).await;
        if wrong.is_some() {
            return Ok(wrong);
        }
        let execution = self.sandbox.start(&request, Stdin::Null).await?;
        execution.kill().await;
        drop(execution);
        // Whichever comes first decides how it ended.
        self.number += 1;
        let number = self.number;
        if !within_patience(|| !of(self.records, "exec_ended", number).is_empty()).await {
            return Ok(Some("killed and dropped: no record of its end".to_owned()));
        }
        let number = self.number + 1;
        let is_started = within_patience(|| !of(self.records, "exec_started", number).is_empty());
        tokio::select! {
            ended = self.sandbox.exec(&request) => {
                return Ok(Some(format!("it ended by itself: {:?}", ended?.outcome)));
            }
            _ = is_started => {}
        }
        Ok(self
            .is_wrong("a dropped future", &request, End::GivenUp)
            .await)
    }
}

/// The records of this event and execution.
fn of(records: &Records, event: &str, number: u64) -> Vec<Value> {
    let mut found = records.of_events(&[event]);
    found.retain(|record| record["execution"] == number);
    found.into_iter().map(event_of).collect()
}

/// Compares the records of an execution with its request and its end.
async fn compare(
    records: &Records,
    number: u64,
    request: &ExecRequest,
    end: End<'_>,
) -> Option<String> {
    let shown = if request.log { usize::MAX } else { 1 };
    let words = request.argv.iter().take(shown);
    let words: Vec<_> = words.map(|word| String::from_utf8_lossy(word)).collect();
    let secrets: Vec<_> = request.secrets.keys().collect();
    let mut started = json!({
        "event": "exec_started", "execution": number, "argv": words, "secrets": secrets,
    });
    if let Some(user) = &request.user {
        started["user"] = json!(user);
    }
    let wrong = difference(&of(records, "exec_started", number), &[started]);
    if wrong.is_some() {
        return wrong;
    }
    if !within_patience(|| !of(records, "exec_ended", number).is_empty()).await {
        return Some(format!("no record of the end of execution {number}"));
    }
    let found = of(records, "exec_ended", number);
    let mut ended = json!({
        "event": "exec_ended", "execution": number, "outcome": null, "error": null,
    });
    match end {
        End::Result(result) => {
            let told = json!(result);
            ended["outcome"] = told["outcome"].clone();
            for (field, of_result) in [("cpu_time_ms", "cpu_time_ms"), ("max_rss", "max_rss_bytes")]
            {
                if !told[of_result].is_null() {
                    ended[field] = told[of_result].clone();
                }
            }
        }
        End::Error(error) => ended["error"] = json!(error.to_string()),
        // The reason is a text of its own.
        End::GivenUp => ended["error"] = found[0]["error"].clone(),
    }
    let has_reason = found[0]["outcome"].is_null() == found[0]["error"].is_string();
    if !has_reason {
        return Some(format!("neither an outcome nor an error: {}", found[0]));
    }
    difference(&found, &[ended])
}
