//! The installation, on real API servers: CRDs, kustomize base, Helm chart, examples, and the
//! program of the Dockerfile.
//!
//! What is installed is what is run: Capstan has the token of the service account, the file of
//! the ConfigMap and the arguments of the Deployment, and whatever the API server denies it fails
//! the test.

mod crds;
mod examples;
#[cfg(target_os = "linux")]
mod image;
mod others;
mod printed;
mod rights;
mod scene;
mod setup;
