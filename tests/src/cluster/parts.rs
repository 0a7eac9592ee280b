//! The programs that a control plane is made of, and where they come from.
//!
//! With KUBEBUILDER_ASSETS set they are taken from that folder, and what is missing there is an
//! error. Else they are built from the published modules that `tests/controlplane/go.mod` names,
//! which is also the one place of their versions.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::build::{self, Recipe};
use super::trouble::{Result, Trouble};

/// The variable that names a folder of ready programs, as for other projects' tests.
const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// A program of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The store of the API server.
    Etcd,
    /// The API server.
    ApiServer,
    /// Jobs, garbage collection, taint eviction, disruption budgets, service accounts.
    ControllerManager,
    /// The stock scheduler, Capstan's neighbour.
    Scheduler,
    /// Plays nodes and runs pods.
    Kwok,
    /// The command line; never runs for long.
    Kubectl,
}

impl Part {
    /// All parts: program, and the package that it is built from.
    pub const ALL: [(Part, &'static str, &'static str); 6] = [
        (Part::Etcd, "etcd", "go.etcd.io/etcd/server/v3"),
        (Part::ApiServer, "kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
        (
            Part::ControllerManager,
            "kube-controller-manager",
            "k8s.io/kubernetes/cmd/kube-controller-manager",
        ),
        (Part::Scheduler, "kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
        (Part::Kubectl, "kubectl", "k8s.io/kubernetes/cmd/kubectl"),
        (Part::Kwok, "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    ];

    /// The program's name.
    pub fn program(self) -> &'static str {
        Part::ALL.iter().find(|row| row.0 == self).expect("the table has all parts").1
    }
}

/// Where the wanted parts are.
#[derive(Clone, Debug)]
pub struct Parts(BTreeMap<Part, PathBuf>);

impl Parts {
    /// Finds the wanted parts, and builds all of them if they have to be built.
    pub fn find(wanted: &[Part]) -> Result<Parts> {
        let names: Vec<&str> = wanted.iter().map(|part| part.program()).collect();
        let folder = match assets() {
            Some(folder) => given(&folder, &names)?,
            None => recipe()?.built(&build::user_cache()?)?,
        };
        Ok(Parts(wanted.iter().map(|part| (*part, folder.join(part.program()))).collect()))
    }

    /// The program of a part.
    pub fn path(&self, part: Part) -> &Path {
        self.0.get(&part).expect("asked for parts that were wanted")
    }
}

/// Helm, built from a module of its own when it is first asked for.
pub fn helm() -> Result<PathBuf> {
    let folder = match assets() {
        Some(folder) => given(&folder, &["helm"])?,
        None => helm_recipe().built(&build::user_cache()?)?,
    };
    Ok(folder.join("helm"))
}

fn assets() -> Option<PathBuf> {
    env::var_os(ASSETS).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// A folder that must have all these programs.
fn given(folder: &Path, names: &[&str]) -> Result<PathBuf> {
    let missing: Vec<&str> =
        names.iter().copied().filter(|name| !folder.join(name).is_file()).collect();
    if missing.is_empty() {
        return Ok(folder.to_owned());
    }
    Err(Trouble::new(format!(
        "{ASSETS} is {}, and there is no {} there: add it, or unset {ASSETS} to have all parts \
         built with Go",
        folder.display(),
        missing.join(" and no ")
    )))
}

fn module() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("controlplane")
}

fn recipe() -> Result<Recipe> {
    let path = module().join("go.mod");
    let text = fs::read_to_string(&path).map_err(Trouble::at(&path))?;
    let flags = linker_flags(&text)
        .ok_or_else(|| Trouble::new(format!("{}: no k8s.io/kubernetes v1.N.P", path.display())))?;
    let programs = Part::ALL.iter().map(|(_, name, package)| (*name, *package));
    Ok(Recipe {
        name: "control plane".to_owned(),
        module: module(),
        programs: programs.map(|(name, package)| (name.to_owned(), package.to_owned())).collect(),
        linker_flags: flags,
        search_path: None,
        listener: None,
    })
}

fn helm_recipe() -> Recipe {
    Recipe {
        name: "helm".to_owned(),
        module: module().join("helm"),
        programs: vec![("helm".to_owned(), "helm.sh/helm/v4/cmd/helm".to_owned())],
        linker_flags: "-s -w".to_owned(),
        search_path: None,
        listener: None,
    }
}

/// Kubernetes' programs learn their version from the linker, and some refuse to run without.
fn linker_flags(go_mod: &str) -> Option<String> {
    let words = |line: &str| line.split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>();
    let version = go_mod.lines().map(words).find_map(|words| match words.as_slice() {
        [module, version] if module == "k8s.io/kubernetes" => Some(version.clone()),
        _ => None,
    })?;
    let mut numbers = version.strip_prefix('v')?.split('.');
    let (major, minor) = (numbers.next()?, numbers.next()?);
    let set = |name: &str, value: &str| format!(" -X k8s.io/component-base/version.{name}={value}");
    Some(format!(
        "-s -w{}{}{}",
        set("gitVersion", &version),
        set("gitMajor", major),
        set("gitMinor", minor)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(go_mod: &Path) -> Vec<String> {
        let text = fs::read_to_string(go_mod).expect("go.mod is there");
        let (mut found, mut inside) = (Vec::new(), false);
        for line in text.lines().map(str::trim) {
            match line.strip_prefix("tool ") {
                Some("(") => inside = true,
                Some(package) => found.push(package.to_owned()),
                None if line == ")" => inside = false,
                None if inside => found.push(line.to_owned()),
                None => {}
            }
        }
        found.sort();
        found
    }

    #[test]
    fn the_modules_name_the_programs_that_are_built() {
        let mut packages: Vec<&str> = Part::ALL.iter().map(|row| row.2).collect();
        packages.sort_unstable();
        assert_eq!(tools(&module().join("go.mod")), packages);
        let helm = helm_recipe();
        assert_eq!(tools(&helm.module.join("go.mod")), [helm.programs[0].1.as_str()]);
    }

    #[test]
    fn the_linker_is_told_the_version() {
        let go_mod = "require (\n\tk8s.io/kubernetes v1.37.1 // indirect\n)\n";
        let says = linker_flags(go_mod).expect("a version");
        assert!(says.contains(".gitVersion=v1.37.1 "), "{says}");
        assert!(says.contains(".gitMajor=1 ") && says.ends_with(".gitMinor=37"), "{says}");
        assert_eq!(linker_flags("require k8s.io/kubernetes-not v1.2.3"), None);
    }

    #[test]
    fn a_folder_without_a_part_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("etcd"), "").expect("a file");
        assert!(given(folder.path(), &["etcd"]).is_ok());
        let says = given(folder.path(), &["etcd", "kwok", "kubectl"]).unwrap_err().to_string();
        assert!(says.contains("there is no kwok and no kubectl there: add it"), "{says}");
        assert!(says.starts_with("KUBEBUILDER_ASSETS is /"), "{says}");
    }
}
