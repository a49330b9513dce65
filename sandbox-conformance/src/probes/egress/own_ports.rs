//! What rules take of a sandbox's own network: ports of names that are used, and nothing of the
//! loopback.

use sandbox_core::ExecRequest;

use super::messages::Attempted;
use super::{ANOTHER, NAME, offered};
use crate::egress_server::EgressServer;
use crate::probes::prelude::*;

/// Looks a name up, and prints how it listens on all addresses and on the loopback with its port,
/// and on all addresses with another one. Then connects to the other name.
const PROGRAM: &str = "\
import errno, socket, sys

def tried(act):
    try:
        act()
        return 'ok'
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))

def listen(address, port):
    with socket.socket() as server:
        server.bind((address, port))
        server.listen()

name, port, local, local_port = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
address = socket.getaddrinfo(name, port, socket.AF_INET)[0][4][0]
print(address.startswith(('198.18.', '198.19.')))
print(tried(lambda: listen('0.0.0.0', port)))
print(tried(lambda: listen('127.0.0.1', port)))
print(tried(lambda: listen('0.0.0.0', 0)))
print(tried(lambda: socket.create_connection((local, local_port)).close()))
";

/// The name is the sandbox itself, whatever its rule says.
const EXPECTED: &str = "True\nEADDRINUSE\nok\nok\nECONNREFUSED\n";

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let server = EgressServer::get();
    let connect = Attempted::to(server.open).by_address();
    let marker = format!("{}-host.", context.token());
    context.host_control(&connect.call(&marker)).await?;
    if !offered(context).await {
        return Ok(());
    }
    let ports = [server.of_another, server.open].map(|port| port.to_string());
    let arguments = ["-c", PROGRAM, ANOTHER, &ports[0], NAME, &ports[1]];
    let request = ExecRequest::new("python3").args(arguments);
    feature(context, "listen and connect", async |sandbox| {
        let result = sandbox.handle().exec(&request).await?;
        Ok((result.stdout_text() != EXPECTED).then(|| result.output()))
    })
    .await;
    context.no_host_effect("the attack itself tells where it connects to");
    Ok(())
}
