//! Options that configure the tier.

use clap::Args;
use sandbox::registry::Settings;

/// Settings of a tier, if the tier supports them.
#[derive(Debug, Clone, Default, Args)]
pub struct SettingOptions {
    /// OCI runtime, by its name in the engine's configuration, such as runsc [default: the
    /// engine's]
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    runtime: Option<String>,

    /// Engine network for installing packages; `host` includes the host's loopback
    /// [default: the engine's]
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    package_network: Option<String>,

    /// Conda environment of the image that programs run in, by `micromamba run`, such as base
    /// [default: none]
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    conda: Option<String>,

    /// Context of the kubeconfig file, on k8s [default: its current context]
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    context: Option<String>,

    /// Namespace of the pods, on k8s [default: the context's]
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    namespace: Option<String>,
}

impl SettingOptions {
    /// The given settings by name.
    pub fn to_settings(&self) -> Settings {
        [
            ("runtime", &self.runtime),
            ("package_network", &self.package_network),
            ("conda", &self.conda),
            ("context", &self.context),
            ("namespace", &self.namespace),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)))
        .collect()
    }
}
