//! Arguments, variables and working folders, byte by byte.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use sandbox_core::ExecRequest;

use crate::probes::prelude::*;

/// The longest argument that Linux takes has 128 KiB with its NUL.
const LONG: usize = 128 * 1024 - 1;

/// Values that a shell, a list of words or JSON could change.
const VALUES: [&str; 7] = [
    "",
    " ",
    "-n",
    "two\nlines",
    "a=b=c",
    "'\"\\$HOME*?`x`",
    "gr\u{fc}\u{df}e-\u{6587}\u{4ef6}-\u{1f980}",
];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    let folder = context.inside("work ing\u{fc}");
    feature(context, "pass each value", async |sandbox| {
        let sandbox = sandbox.handle();
        sandbox.mkdir(&folder).await?;
        let bytes = (1..=255).collect();
        let arguments = VALUES.map(OsString::from).into_iter();
        let arguments = arguments.chain([OsString::from_vec(bytes), "x".repeat(LONG).into()]);
        let arguments: Vec<_> = arguments.collect();
        let mut request = ExecRequest::shell("printf '%s\\0' \"$@\"; printf '%s\\0' \"$PWD\"");
        request = request.arg("sh").args(&arguments).workdir(&folder);
        for (number, value) in VALUES.into_iter().enumerate() {
            request = request.env(format!("VALUE_{number}"), value);
        }
        let result = sandbox.exec(&request).await?;
        let mut wanted = Vec::new();
        for value in arguments.into_iter().chain([OsString::from(&folder)]) {
            wanted.extend(value.into_vec());
            wanted.push(0);
        }
        if result.stdout.bytes != wanted {
            let (found, wanted) = (result.stdout.bytes.len(), wanted.len());
            return Ok(Some(format!(
                "{found} bytes of arguments, not the {wanted}"
            )));
        }
        for (number, value) in VALUES.into_iter().enumerate() {
            let script = format!("printf '%s' \"$VALUE_{number}\"");
            let shell = ExecRequest::shell(script).env(format!("VALUE_{number}"), value);
            let found = sandbox.exec(&shell).await?;
            if found.stdout.bytes != value.as_bytes() {
                return Ok(Some(format!("{value:?} became {:?}", found.output())));
            }
        }
        // A variable is for its execution alone.
        let later = ExecRequest::shell("printf '%s' \"${VALUE_4-unset}\"");
        let later = sandbox.exec(&later).await?.stdout_text();
        Ok((later != "unset").then(|| format!("a later execution has {later:?}")))
    })
    .await;
    context.no_host_effect("the attack itself compares the bytes");
    Ok(())
}
