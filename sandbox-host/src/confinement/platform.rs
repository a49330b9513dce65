//! The platform's programs and libraries, which are readable if a policy names no read roots.

/// Folders of programs and libraries. Excludes homes, `/var`, `/run`, `/srv`, and also `/opt`,
/// where packages keep sockets and credentials beside their programs; a read root can add it.
/// Missing folders are ignored; links, as `/bin` on most systems, lead into `/usr`.
pub const PLATFORM_READ_ROOTS: &[&str] = &[
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
];

/// Files in `/etc` that programs and libraries need. Missing ones are ignored.
///
/// Excluded on purpose; a read root can add them:
///
/// - `passwd`, `group`, `hosts`, `hostname` and `resolv.conf`, of which the sandbox has its own.
/// - `machine-id` and everything else that identifies a host.
/// - Private keys and files that often contain credentials: `ssl/private`, `gitconfig`, `npmrc`,
///   `pip.conf`, `maven`, `netrc`, `environment`.
/// - Start scripts in which administrators store secrets: a proxy's password in `profile`,
///   `profile.d` and `bash.bashrc`; a database's in `php`, `R/Renviron.site`, `R/Rprofile.site` and
///   `julia/startup.jl`; CPAN's in `perl`.
///
/// Programs start without these.
pub const PLATFORM_ETC: &[&str] = &[
    // Dynamic linker, alternatives, name of the system.
    "/etc/alternatives",
    "/etc/debian_version",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/lsb-release",
    "/etc/os-release",
    "/etc/redhat-release",
    "/etc/system-release",
    // Names of services, protocols and types; name resolution.
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/magic",
    "/etc/magic.mime",
    "/etc/mime.types",
    "/etc/networks",
    "/etc/nsswitch.conf",
    "/etc/protocols",
    "/etc/rpc",
    "/etc/services",
    // Time, language, terminals, shells.
    "/etc/default/locale",
    "/etc/inputrc",
    "/etc/locale.alias",
    "/etc/locale.conf",
    "/etc/localtime",
    "/etc/shells",
    "/etc/terminfo",
    "/etc/timezone",
    // Certificate authorities, defaults of cryptography libraries.
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/crypto-policies",
    "/etc/gnutls",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/openssl.cnf",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    // Languages and large libraries.
    "/etc/ImageMagick-6",
    "/etc/ImageMagick-7",
    "/etc/OpenCL",
    "/etc/R/Makeconf",
    "/etc/R/Renviron",
    "/etc/R/javaconf",
    "/etc/R/ldpaths",
    "/etc/R/repositories",
    "/etc/dotnet",
    "/etc/fonts",
    "/etc/java",
    "/etc/java-8-openjdk",
    "/etc/java-11-openjdk",
    "/etc/java-17-openjdk",
    "/etc/java-21-openjdk",
    "/etc/java-25-openjdk",
    "/etc/matplotlibrc",
    "/etc/mono",
    "/etc/perl/XML",
    "/etc/python3",
    "/etc/python3.9",
    "/etc/python3.10",
    "/etc/python3.11",
    "/etc/python3.12",
    "/etc/python3.13",
    "/etc/python3.14",
    "/etc/sgml",
    "/etc/texmf",
    "/etc/xml",
];
